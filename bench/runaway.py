"""The cost of a runaway deployment to a broker (KIP-389, KIP-394).

5,000 processes join one group where `group.max.size` is 100. This starts a
broker in a separate process, plays that with raw requests, one connection for each
process, and prints the broker's memory and CPU time:

    python -m bench.runaway

With JoinGroup v3 a process is a member, or it is refused. From v4 on it gets an
id first and is to ask again: processes that never do, as in a crash loop, leave
ids behind. Linux only: memory and CPU time are read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import re
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from tests.wire.client import WireClient

from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kohort.protocol.apis.k14_sync_group import SyncGroupRequest
from kohort.protocol.consumer import Subscription, encode
from kohort.protocol.errors import ErrorCode

METADATA = encode(Subscription(["orders"]))
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
ROUNDS = 10
"""How often processes that are refused try again."""
WAVES = 4
"""How often the processes of a crash loop start within one session timeout."""
AT_ONCE = 250
"""Connections that are opened, or probes that are under way, at a time."""
LONG_MS, SHORT_MS = 60_000, 6_000


class BrokerProcess:
    """A broker, as seen from outside.

    Args:
        pid: its process id.
        port: where it listens.
    """

    def __init__(self, pid: int, port: int) -> None:
        self.port = port
        self._proc = Path(f"/proc/{pid}")

    def rss_kib(self) -> int:
        """Its resident memory."""
        status = (self._proc / "status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    def cpu_s(self) -> float:
        """The CPU time that it has used, in user and in system mode."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


@contextlib.asynccontextmanager
async def served(limit: int, log_level: str) -> AsyncIterator[BrokerProcess]:
    """`kohort serve` with a limit, and otherwise Kafka's defaults."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kohort",
        "serve",
        "--port=0",
        f"--set=group.max.size={limit}",
        f"--log-level={log_level}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r":(\d+)", line)
        if found is None:
            raise RuntimeError(f"the broker said {line!r}")
        yield BrokerProcess(process.pid, int(found[1]))
    finally:
        process.terminate()
        await process.wait()


# -- the processes


def _join(group: str, session_ms: int, member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", METADATA)]
    return JoinGroupRequest(
        group, session_ms, LONG_MS, member_id, None, "consumer", protocols
    )


async def _connect(port: int, count: int) -> list[WireClient]:
    clients: list[WireClient] = []
    for chunk in _chunks(range(count)):
        streams = [asyncio.open_connection("127.0.0.1", port) for _ in chunk]
        clients += [WireClient(*pair) for pair in await asyncio.gather(*streams)]
    return clients


def _chunks(items: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


class Play:
    """A runaway deployment, and its measured cost.

    Args:
        broker: that it joins a group of.
        clients: one connection per process.
        limit: the broker's `group.max.size`.
    """

    def __init__(
        self, broker: BrokerProcess, clients: list[WireClient], limit: int
    ) -> None:
        self._broker = broker
        self._clients = clients
        self._limit = limit
        self._rss_kib = broker.rss_kib()

    def report(self, what: str, requests: int = 0, cpu_s: float = 0.0) -> None:
        """Prints memory, its growth, and the CPU time per request."""
        rss_kib = self._broker.rss_kib()
        grown = (rss_kib - self._rss_kib) / 1024
        self._rss_kib = rss_kib
        each = f"{cpu_s / requests * 1e6:.0f}" if requests else ""
        count = str(requests) if requests else ""
        print(
            f"| {what} | {count} | {each} | {rss_kib / 1024:.1f} | {grown:+.1f} |",
            flush=True,
        )

    async def _refused(self, clients: Sequence[WireClient], version: int) -> None:
        """Some refused processes retry `ROUNDS` times."""
        request = _join("v3", LONG_MS)
        for _ in range(ROUNDS):
            answers = await asyncio.gather(
                *(client.call("JoinGroup", version, request) for client in clients)
            )
            codes = {answer.error_code for answer in answers}
            assert codes == {ErrorCode.GROUP_MAX_SIZE_REACHED}, codes

    async def members_or_refused(self) -> None:
        """JoinGroup v3: the limit bounds the members."""
        cpu_s = self._broker.cpu_s()
        request = _join("v3", LONG_MS)
        joining = {
            asyncio.create_task(client.call("JoinGroup", 3, request)): client
            for client in self._clients
        }
        surplus = len(self._clients) - self._limit
        refused: set[asyncio.Task[JoinGroupResponse]] = set()
        waiting = set(joining)
        while len(refused) < surplus:
            done, waiting = await asyncio.wait(
                waiting, return_when=asyncio.FIRST_COMPLETED
            )
            refused |= done
        assert len(waiting) == self._limit
        all_of_them = len(self._clients)
        self.report(
            f"v3: all join, {self._limit} wait, the others are refused",
            all_of_them,
            self._broker.cpu_s() - cpu_s,
        )
        out = [joining[task] for task in refused]
        cpu_s = self._broker.cpu_s()
        await self._refused(out, 3)
        count = ROUNDS * len(out)
        self.report(
            "v3: refused in PreparingRebalance", count, self._broker.cpu_s() - cpu_s
        )
        members = await asyncio.gather(*waiting)
        await asyncio.gather(
            *(
                joining[task].call("SyncGroup", 3, _sync(task.result()))
                for task in waiting
            )
        )
        self.report(f"v3: the group of {len(members)} is Stable")
        for version in (3, 9):
            cpu_s = self._broker.cpu_s()
            await self._refused(out, version)
            self.report(
                f"v{version}: refused in Stable", count, self._broker.cpu_s() - cpu_s
            )

    async def ids_left_behind(self) -> None:
        """JoinGroup v9 to a group that is not full: all get ids, which expire later."""
        request = _join("v9", SHORT_MS)
        ids: list[str] = []
        last_at = 0.0
        for wave in range(1, WAVES + 1):
            cpu_s = self._broker.cpu_s()
            answers = await asyncio.gather(
                *(client.call("JoinGroup", 9, request) for client in self._clients)
            )
            last_at = time.monotonic()
            codes = {answer.error_code for answer in answers}
            assert codes == {ErrorCode.MEMBER_ID_REQUIRED}, codes
            ids += [answer.member_id for answer in answers]
            self.report(
                f"v9: ids are given out, wave {wave}",
                len(answers),
                self._broker.cpu_s() - cpu_s,
            )
        last = ids[-len(self._clients) :]
        print()
        for after_s in (1.0, SHORT_MS / 1000 - 2.0, SHORT_MS / 1000 + 0.1):
            await asyncio.sleep(last_at + after_s - time.monotonic())
            pending = await self._pending(last)
            took_s = time.monotonic() - last_at
            print(
                f"* {after_s:.1f} to {took_s:.1f} s after the last id was given out, "
                f"{pending} of the last {len(last)} are pending"
            )
        print(f"* {await self._pending(ids)} of all {len(ids)} ids are pending then")
        print(f"* the broker has {self._broker.rss_kib() / 1024:.1f} MiB")

    async def _pending(self, ids: Sequence[str]) -> int:
        """Counts the pending ids by joins that ask a pending id to become static.

        Such a join is refused and changes nothing; a forgotten id is an unknown member.
        """
        client = self._clients[0]
        count = 0
        for chunk in _chunks(range(len(ids))):
            for i in chunk:
                request = _join("v9", SHORT_MS, ids[i])
                probe = JoinGroupRequest(
                    request.group_id,
                    request.session_timeout_ms,
                    request.rebalance_timeout_ms,
                    request.member_id,
                    "probe",
                    request.protocol_type,
                    request.protocols,
                )
                await client.send("JoinGroup", 9, probe)
            for _ in chunk:
                code = (await client.response("JoinGroup", 9)).error_code
                count += code == ErrorCode.UNKNOWN_SERVER_ERROR
        return count


def _sync(joined: JoinGroupResponse) -> SyncGroupRequest:
    return SyncGroupRequest("v3", joined.generation_id, joined.member_id)


async def run(processes: int, limit: int, log_level: str) -> None:
    """Plays both, and prints the measurements as Markdown."""
    async with served(limit, log_level) as broker:
        print("| step | requests | CPU us each | RSS in MiB | grown by |")
        print("| --- | ---: | ---: | ---: | ---: |")
        Play(broker, [], limit).report("start")
        start = Play(broker, [], limit)
        clients = await _connect(broker.port, processes)
        start.report(f"{processes} connections")
        play = Play(broker, clients, limit)
        await play.members_or_refused()
        await play.ids_left_behind()


def main() -> None:
    """Starts a broker and lets a deployment run away."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=5_000)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--log-level", default="info")
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}\n"
    )
    asyncio.run(run(asked.processes, asked.limit, asked.log_level))


if __name__ == "__main__":
    main()
