"""Counts the rebalances of a deployment against group.initial.rebalance.delay.ms.

KIP-134 delays an empty group's first rebalance so that a deployment, whose
members start one after the other, is one rebalance and not many. This plays
deployments with the coordinator on virtual time, in which hours take
milliseconds and every run is the same:

    python -m bench.initial_delay

or one of them in real time with any broker that speaks Kafka, kohort or another:

    python -m bench.initial_delay --bootstrap 127.0.0.1:9092 --members 5 --gap-ms 500

Members do as Kafka's own consumer does: JoinGroup, SyncGroup, then a heartbeat
at a time, and JoinGroup again when a heartbeat says so. They answer at once.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.coordinator.context import Context
from tests.coordinator.driver import Pending
from tests.coordinator.member import Member, assign
from tests.wire.client import WireClient

from kohort.broker.coordinator.effects import JoinResult, SyncResult
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.consumer import Subscription, encode
from kohort.protocol.errors import ErrorCode

METADATA = encode(Subscription(["orders"]))

MEMBERS = (5, 20, 100)
GAPS_MS = (10, 90, 470, 1_930, 3_970)
"""No multiple of them is one of a delay: no member arrives as a window ends."""
DELAYS_MS = (0, 1_000, 3_000, 10_000)
"""3,000 is Kafka's default."""


@dataclass(frozen=True)
class Deployment:
    """Members that start one after the other, and their timeouts.

    The timeouts are the defaults of Kafka's own consumer: 5 minutes
    (`max.poll.interval.ms`), 45 s and 3 s.
    """

    members: int
    gap_ms: float
    delay_ms: int = 3_000
    rebalance_ms: int = 300_000
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    requires_id: bool = True
    """They ask with JoinGroup v4 or later, and so twice (KIP-394)."""


@dataclass
class Outcome:
    """Result of a deployment; times are in ms since its first member started.

    Attributes:
        generations: how many there were; one rebalance leads to each.
        answers_ms: when each member's first JoinGroup succeeded.
        settled_ms: when all had their assignments of one generation.
    """

    generations: int = 0
    answers_ms: list[int] = field(default_factory=list)
    settled_ms: int = 0


# -- on virtual time


class World:
    """The coordinator, its members, and their next actions.

    Args:
        deployment: the deployment to play.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.context = Context(initial_rebalance_delay_ms=deployment.delay_ms)
        self.began = self.context.now
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.clients = [Client(self, f"m{i}") for i in range(deployment.members)]
        for i, client in enumerate(self.clients):
            self.plan(i * deployment.gap_ms, client.join)

    @property
    def now_ms(self) -> float:
        """Milliseconds since the first member started."""
        return (self.context.now - self.began) * 1000

    def plan(self, in_ms: float, action: Callable[[], None]) -> None:
        """Has something done later."""
        when = self.context.now + in_ms / 1000
        heapq.heappush(self._plans, (when, next(self._order), action))

    def run(self) -> Outcome:
        """Lets time pass until all members are settled."""
        while not self._has_settled():
            if self._plans and self._plans[0][0] <= self.context.now:
                _, _, act = heapq.heappop(self._plans)
                act()
            elif not sum(client.react() for client in self.clients):
                self._wait()
        return Outcome(
            self.clients[0].member.generation_id,
            [round(client.answered_ms) for client in self.clients],
            round(self.now_ms),
        )

    def _wait(self) -> None:
        """Time passes until the next plan or timer; timers go first."""
        timers = [*self.context.timers.values()]
        until = min([*timers, *(plan[0] for plan in self._plans[:1])])
        self.context.sleep((until - self.context.now) * 1000)

    def _has_settled(self) -> bool:
        generations = {client.assigned_in for client in self.clients}
        return len(generations) == 1 and generations != {0}


class Client:
    """A member that does as a consumer does.

    Args:
        world: where it lives.
        name: its client id.
    """

    def __init__(self, world: World, name: str) -> None:
        deployment = world.deployment
        self.member: Member = world.context.member(
            name,
            session_ms=deployment.session_ms,
            rebalance_ms=deployment.rebalance_ms,
            protocols=[("range", METADATA)],
            requires_id=deployment.requires_id,
        )
        self.answered_ms = -1.0
        self.assigned_in = 0
        """The generation that it has its assignment of."""
        self._world = world
        self._joining: Pending[JoinResult] | None = None
        self._syncing: Pending[SyncResult] | None = None

    def join(self) -> None:
        """Asks to be in the next generation."""
        self._joining = self.member.enter()

    def react(self) -> bool:
        """Takes the next answer, if there is one."""
        if self._joining is not None and self._joining.answered:
            result, self._joining = self._joining.result, None
            self._take_join(result)
        elif self._syncing is not None and self._syncing.answered:
            synced, self._syncing = self._syncing.result, None
            self._take_sync(synced)
        else:
            return False
        return True

    def _take_join(self, result: JoinResult) -> None:
        if result.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            # A new member's join waits for 5 minutes at most, in Kafka, too.
            self.member.member_id = ""
            self.join()
            return
        assert not result.error_code, result
        if self.answered_ms < 0:
            self.answered_ms = self._world.now_ms
        is_leader = result.leader == self.member.member_id
        members = [client.member for client in self._world.clients]
        self._syncing = self.member.sync(assign(*members) if is_leader else ())

    def _take_sync(self, result: SyncResult) -> None:
        if result.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        assert not result.error_code, result
        self.assigned_in = self.member.generation_id
        self._world.plan(self._world.deployment.heartbeat_ms, self._heartbeat)

    def _heartbeat(self) -> None:
        if self.member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            self._world.plan(self._world.deployment.heartbeat_ms, self._heartbeat)


def play(deployment: Deployment) -> Outcome:
    """Plays a deployment with kohort's coordinator, on virtual time."""
    return World(deployment).run()


# -- in real time


class RealClient:
    """A member of the group of some broker, as `Client` is on virtual time.

    Args:
        deployment: has its timeouts.
        group_id: the group that it joins.
        settled: to be called whenever it has its assignment.
    """

    def __init__(
        self,
        deployment: Deployment,
        group_id: str,
        settled: Callable[[], None],
    ) -> None:
        self.generation_id = 0
        self.answered_at = 0.0
        self._deployment = deployment
        self._group_id = group_id
        self._settled = settled
        self._member_id = ""
        self._wire: WireClient

    async def live(self, host: str, port: int, delay_s: float) -> None:
        """Starts after a while, and takes part until it is cancelled."""
        await asyncio.sleep(delay_s)
        reader, writer = await asyncio.open_connection(host, port)
        self._wire = WireClient(reader, writer)
        try:
            while True:
                joined = await self._join()
                if await self._sync(joined):
                    self.generation_id = joined.generation_id
                    self._settled()
                    await self._stay(joined.generation_id)
        finally:
            writer.close()

    async def _join(self) -> JoinGroupResponse:
        version = 9 if self._deployment.requires_id else 3
        while True:
            request = JoinGroupRequest(
                self._group_id,
                self._deployment.session_ms,
                self._deployment.rebalance_ms,
                self._member_id,
                None,
                "consumer",
                [JoinGroupRequestProtocol("range", METADATA)],
            )
            joined: JoinGroupResponse = await self._wire.call(
                "JoinGroup", version, request
            )
            self._member_id = joined.member_id
            if joined.error_code == ErrorCode.NONE:
                self.answered_at = self.answered_at or time.monotonic()
                return joined
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise RuntimeError(f"JoinGroup: {joined}")

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        request = SyncGroupRequest(
            self._group_id,
            joined.generation_id,
            self._member_id,
            None,
            "consumer",
            "range",
            [SyncGroupRequestAssignment(m.member_id, b"") for m in joined.members],
        )
        response = await self._wire.call("SyncGroup", 5, request)
        return bool(response.error_code == ErrorCode.NONE)

    async def _stay(self, generation_id: int) -> None:
        request = HeartbeatRequest(self._group_id, generation_id, self._member_id, None)
        code = ErrorCode.NONE
        while code == ErrorCode.NONE:
            await asyncio.sleep(self._deployment.heartbeat_ms / 1000)
            code = (await self._wire.call("Heartbeat", 4, request)).error_code


async def play_for_real(deployment: Deployment, host: str, port: int) -> Outcome:
    """Plays a deployment with a broker; its delay is the one that counts."""
    all_settled = asyncio.Event()
    members: list[RealClient] = []

    def settled() -> None:
        if len({member.generation_id for member in members}) == 1:
            all_settled.set()

    group_id = f"deployment-{uuid.uuid4().hex[:8]}"
    await _find_coordinator(group_id, host, port)
    members += [
        RealClient(deployment, group_id, settled) for _ in range(deployment.members)
    ]
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(member.live(host, port, i * deployment.gap_ms / 1000))
            for i, member in enumerate(members)
        ]
        await all_settled.wait()
        ended = time.monotonic()
        for task in tasks:
            task.cancel()
    return Outcome(
        members[0].generation_id,
        [round((member.answered_at - began) * 1000) for member in members],
        round((ended - began) * 1000),
    )


async def _find_coordinator(group_id: str, host: str, port: int) -> None:
    """Waits for the group's coordinator: a new broker makes it when asked."""
    reader, writer = await asyncio.open_connection(host, port)
    wire = WireClient(reader, writer)
    request = FindCoordinatorRequest(group_id)
    while (  # noqa: ASYNC110 - brokers say nothing unless asked
        await wire.call("FindCoordinator", 3, request)
    ).error_code:
        await asyncio.sleep(0.2)
    describe = DescribeGroupsRequest([group_id])
    while (  # noqa: ASYNC110 - brokers say nothing unless asked
        (await wire.call("DescribeGroups", 5, describe)).groups[0].error_code
    ):
        await asyncio.sleep(0.2)
    writer.close()


# -- output


def table() -> str:
    """Rebalances, and seconds until all are settled, against the delay: Markdown."""
    heads = [f"delay {delay_ms}" for delay_ms in DELAYS_MS]
    lines = [
        _row(["members", "gap in ms", *heads]),
        _row(["---:"] * (2 + len(heads))),
    ]
    for members, gap_ms in itertools.product(MEMBERS, GAPS_MS):
        cells = []
        for delay_ms in DELAYS_MS:
            outcome = play(Deployment(members, gap_ms, delay_ms))
            seconds = outcome.settled_ms / 1000
            cells.append(f"{outcome.generations} ({seconds:.1f} s)")
        lines.append(_row([str(members), str(gap_ms), *cells]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table, or the result of one deployment."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", help="host:port of a broker, for real time")
    parser.add_argument("--members", type=int)
    parser.add_argument("--gap-ms", type=float, default=500)
    parser.add_argument("--delay-ms", type=int, default=3_000, help="of virtual time")
    parser.add_argument("--rebalance-ms", type=int, default=300_000)
    parser.add_argument("--session-ms", type=int, default=45_000)
    parser.add_argument("--old", action="store_true", help="JoinGroup v3")
    asked = parser.parse_args()
    if asked.members is None:
        print(table())
        return
    deployment = Deployment(asked.members, asked.gap_ms, asked.delay_ms)
    deployment = replace(
        deployment,
        rebalance_ms=asked.rebalance_ms,
        session_ms=asked.session_ms,
        requires_id=not asked.old,
    )
    if asked.bootstrap is None:
        print(play(deployment))
    else:
        host, _, port = asked.bootstrap.rpartition(":")
        print(asyncio.run(play_for_real(deployment, host, int(port))))


if __name__ == "__main__":
    main()
