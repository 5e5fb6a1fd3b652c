"""The innocent clients: a group that heartbeats and commits; a bystander that pings.

    python -m tests.attacks.innocent PORT

It is a separate process, so that a busy attacker does not make it look slow. The line
"report" on stdin requests the time since the last report; the answer is a line of JSON,
see `Report`, once every request of that time is answered. At the end of stdin it ends
without leaving the group.
"""

from __future__ import annotations

import asyncio
import json
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from tests.wire.client import WireClient, connected_to
from tests.wire.closing import Closing
from tests.wire.requests import commit_offsets, join_group, sync_group

from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.errors import ErrorCode

HOST = "127.0.0.1"
GROUP = "innocent"
TOPIC = "innocent"
MEMBERS = 20
SESSION_MS = 6_000
"""The minimum that brokers allow by default (group.min.session.timeout.ms)."""
BEAT_S = 0.1
"""Seconds between two heartbeats of a member, each followed by a commit: some 400
requests a second, a few percent of a core here and in the broker."""
PING_S = 0.005
"""Seconds between two pings of the bystander: less than the pauses to detect."""
RETRY_S = 0.1
REPORT_S = 180.0
"""The longest wait for a report: more than any freeze so far."""
GONE_ERRORS = (ConnectionError, asyncio.IncompleteReadError)


@dataclass(frozen=True, slots=True)
class Report:
    """The time since the last report; latencies in seconds.

    Attributes:
        requests: answered heartbeats, commits and pings.
        p99: of all requests.
        longest: of all requests.
        evicted: answers UNKNOWN_MEMBER_ID.
        rebalances: generations that began.
        lost: connections that the broker closed.
        refused: refused commits, by error code.
    """

    requests: int
    p99: float
    longest: float
    evicted: int
    rebalances: int
    lost: int
    refused: dict[str, int]


class _Period:
    """Counts of the current period."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.evicted = 0
        self.lost = 0
        self.refused: dict[str, int] = {}


class _Group:
    """All members, and the bystander.

    Args:
        port: of the broker.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._period = _Period()
        self._generation = self._reported = 0
        self._ids = [""] * MEMBERS
        self._generations = [0] * MEMBERS
        self._under_way: set[asyncio.Future[None]] = set()
        self.is_stable = asyncio.Event()

    def play(self) -> list[asyncio.Task[None]]:
        """Starts the members and the bystander."""
        members = [self._keep(self._member, number) for number in range(MEMBERS)]
        coroutines = [*members, self._keep(self._bystander, MEMBERS)]
        return [asyncio.ensure_future(each) for each in coroutines]

    async def report(self) -> Report:
        """Returns the period since the last report; waits for pending requests."""
        await asyncio.gather(*self._under_way)
        period, self._period = self._period, _Period()
        before, self._reported = self._reported, self._generation
        waits = sorted(period.waits) or [0.0]
        return Report(
            len(period.waits),
            waits[len(waits) * 99 // 100],
            waits[-1],
            period.evicted,
            self._generation - before,
            period.lost,
            period.refused,
        )

    async def _keep(self, role: Any, number: int) -> None:
        """Plays a role on one connection after the other."""
        while True:
            try:
                async with connected_to(HOST, self._port) as wire:
                    await role(wire, number)
            except GONE_ERRORS:
                self._period.lost += 1
                await asyncio.sleep(RETRY_S)

    async def _timed(
        self, wire: WireClient, api: str, version: int, request: object
    ) -> Any:
        began = time.monotonic()
        answered = asyncio.get_running_loop().create_future()
        self._under_way.add(answered)
        try:
            return await wire.call(api, version, request)
        finally:
            self._under_way.discard(answered)
            answered.set_result(None)
            self._period.waits.append(time.monotonic() - began)

    async def _bystander(self, wire: WireClient, _number: int) -> None:
        while True:
            await self._timed(wire, "ApiVersions", 0, ApiVersionsRequest())
            await asyncio.sleep(PING_S)

    async def _member(self, wire: WireClient, number: int) -> None:
        """Continues as the member of its last connection."""
        while True:
            if self._generations[number]:
                await self._beat(wire, number)
            self._generations[number] = 0
            join = join_group(
                GROUP, self._ids[number], session_ms=SESSION_MS, rebalance_ms=60_000
            )
            joined = await wire.call("JoinGroup", 3, join)
            self._ids[number] = joined.member_id
            if joined.error_code:
                if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._ids[number] = ""
                # In Kafka the first FindCoordinator creates its topic.
                await wire.call("FindCoordinator", 3, FindCoordinatorRequest(GROUP))
                await asyncio.sleep(RETRY_S)
                continue
            self._generation = max(self._generation, joined.generation_id)
            shares = {each.member_id: b"share" for each in joined.members}
            sync = sync_group(joined.member_id, joined.generation_id, GROUP, shares)
            if not (await wire.call("SyncGroup", 3, sync)).error_code:
                self._generations[number] = joined.generation_id
            if min(self._generations) == self._generation:
                self.is_stable.set()

    async def _beat(self, wire: WireClient, number: int) -> None:
        """Heartbeats and commits until the group rebalances."""
        generation, member_id = self._generations[number], self._ids[number]
        heartbeat = HeartbeatRequest(GROUP, generation, member_id)
        for offset in range(1, 2**62):
            await asyncio.sleep(BEAT_S)
            answer = await self._timed(wire, "Heartbeat", 3, heartbeat)
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._period.evicted += 1
            if answer.error_code:
                return
            commit = commit_offsets(
                TOPIC,
                (number, offset),
                group=GROUP,
                generation=generation,
                member_id=member_id,
            )
            answer = await self._timed(wire, "OffsetCommit", 7, commit)
            error = answer.topics[0].partitions[0].error_code
            if error:
                name = ErrorCode(error).name
                refused = self._period.refused
                refused[name] = refused.get(name, 0) + 1


async def _main(port: int) -> None:
    group = _Group(port)
    tasks = group.play()
    loop = asyncio.get_running_loop()
    await group.is_stable.wait()
    await group.report()
    print("ready", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        found = json.dumps(asdict(await group.report()))
        print(found, flush=True)
    for task in tasks:
        task.cancel()


class Innocent(Closing):
    """The process, from another process.

    Args:
        port: of the broker, on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.innocent", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.communicate()

    def until_stable(self) -> None:
        """Waits until all members share one generation."""
        assert self._line() == "ready\n"

    def report(self) -> Report:
        """The time since the last report.

        Raises:
            TimeoutError: a request still waits for an answer after REPORT_S.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        line = self._line()
        return Report(**json.loads(line))

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], REPORT_S)[0]:
            raise TimeoutError(f"the innocent waits for more than {REPORT_S:.0f} s")
        return self._process.stdout.readline()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
