"""One cell: two members of a library, a broker in this process, and a script.

1. A broker, a topic, two members; records come all the time.
2. Both members are assigned partitions, and have committed.
3. The script of the row.
4. The group is well again, or the limit is over. Well means: it is Stable with both
   members, and they have committed all records fed before, for the row's watch time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.clients_table.evidence import GROUP, MEMBERS, PARTITIONS, TOPIC, Evidence

from kohort.broker.faults.rule import Rule
from kohort.broker.server import Broker
from kohort.control.group import Group, PowerError
from kohort.protocol.records import Record, build_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.clients_table.rows import Row, Step
    from tests.workers.process import Worker

    from kohort.broker.events.seen import Seen

HEARTBEAT_MS = 300
FEED_S = 0.05
JOIN_S = 20.0
STRIKE_S = 10.0
# A client may react late: at its next heartbeat, or next poll.
WATCH_S = 3.0
# Three times the longest of them: a client that is not back then is not waiting.
LIMIT_S = 30.0
# A member's broker is this process: on a busy machine its timers are late, too.
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 3,
    "auto.create.topics.enable": False,
}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Settings of members, in ms; None: the library's own default.

    They are low, so that a client that waits for one of them does not take minutes.

    Attributes:
        session: session.timeout.ms.
        poll: max.poll.interval.ms; the rebalance timeout, in franz-go and kafkajs.
        request: request.timeout.ms; socket.timeout.ms in librdkafka,
            RequestTimeoutOverhead in franz-go.
    """

    session: int = 6_000
    poll: int | None = 10_000
    request: int | None = 5_000


LOW = Timeouts()


class NotStartedError(Exception):
    """The two members did not get to work before the script."""


class Cell:
    """The play of one cell; `evidence` has its observations.

    Args:
        row: the power or fault.
        workers: two of the library, by client id.
        assignor: the library's.
        timeouts: settings of the members.
        limit_s: time for the group to be well again.
        watch_s: minimum watch time after the script.
        is_plain: whether workers do without their workarounds for defects.
    """

    def __init__(
        self,
        row: Row,
        workers: dict[str, Worker],
        assignor: str,
        timeouts: Timeouts = LOW,
        limit_s: float = LIMIT_S,
        watch_s: float = WATCH_S,
        *,
        is_plain: bool = True,
    ) -> None:
        self.row = row
        self.workers = workers
        self.assignor = assignor
        self.timeouts = timeouts
        self.watch_s = watch_s
        self.is_plain = is_plain
        self.evidence = Evidence({}, limit_s=limit_s)
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self.broker = Broker(CONFIG, nodes=row.nodes)
        self.group = Group(self.broker, GROUP)
        self._changed = asyncio.Event()
        self._seen: list[Seen] = []
        self._nodes: dict[str, int] = {}

    async def play(self) -> Evidence:
        """Plays it.

        Raises:
            NotStartedError: the library's members do not work without a fault.
        """
        async with self.broker as broker:
            broker.cluster.create_topic(TOPIC, PARTITIONS, self.row.nodes, {})
            broker.events.listen(self._hear)
            broker.requests.record(True)
            for name, worker in self.workers.items():
                worker.begin(self._wake())
                self._join(name, worker)
            feeding = asyncio.create_task(self._feed())
            try:
                await self._start()
                self.evidence.done_ns = time.time_ns()
                for step in self.row.steps:
                    await self._perform(step)
                self.evidence.undone_ns = time.time_ns()
                await self._recover()
            finally:
                feeding.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feeding
                await self._conclude()
        return self.evidence

    def _join(self, name: str, worker: Worker) -> None:
        worker.send(
            "join",
            bootstrap=self.broker.bootstrap_servers,
            topic=TOPIC,
            group=GROUP,
            client=name,
            assignor=self.assignor,
            heartbeat=HEARTBEAT_MS,
            plain=1 if self.is_plain else None,
            **asdict(self.timeouts),
        )

    # -- observing

    def _wake(self) -> Callable[[], object]:
        """Returns a function that a worker's reading thread calls after each line."""
        wake = asyncio.get_running_loop().call_soon_threadsafe
        return partial(wake, self._changed.set)

    def _hear(self, seen: Seen) -> None:
        self._seen.append(seen)
        if seen.notice.kind == "offsets_committed":
            event = seen.event
            assert event["kind"] == "offsets_committed"
            for row in event["offsets"]:
                self.committed[row["partition"]] = row["offset"]
        self._changed.set()

    async def _until(self, holds: Callable[[], bool], limit_s: float) -> bool:
        """Waits for events until it holds; False if the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
                return True
        return holds()

    def _is_whole(self) -> bool:
        if self.group.state != "Stable":
            return False
        return sorted(each.client_id for each in self.group.members) == [*MEMBERS]

    def _have_failed(self) -> bool:
        return any(worker.error is not None for worker in self.workers.values())

    # -- the script

    async def _feed(self) -> None:
        partitions = self.broker.cluster.topics.by_name[TOPIC].partitions
        while True:
            now_ms = time.time_ns() // 1_000_000
            for index, end in self.ends.items():
                record = Record(timestamp_ms=now_ms, value=b"%d:%d" % (index, end))
                partitions[index].append_own(build_batch([record]), now_ms=now_ms)
                self.ends[index] += 1
            self._changed.set()
            await asyncio.sleep(FEED_S)

    async def _start(self) -> None:
        def work() -> bool:
            return (
                self._is_whole()
                and all(self.committed.values())
                and all(
                    any(line.kind == "committed" for line in worker.lines)
                    for worker in self.workers.values()
                )
            )

        if not await self._until(lambda: work() or self._have_failed(), JOIN_S):
            raise NotStartedError(self._state())
        if not work():
            raise NotStartedError(str([w.error for w in self.workers.values()]))
        cluster = self.broker.cluster
        self._nodes = {
            "coordinator": self.broker.coordinator_of(GROUP),
            "leader": cluster.topics.by_name[TOPIC].leaders[0],
        }

    async def _perform(self, step: Step) -> None:
        verb, words = step
        words = {**words, **self._node_of(words)}
        verbs: dict[str, Callable[..., Awaitable[object]]] = {
            "pause": asyncio.sleep,
            "stop": self.broker.stop_node,
            "start": self.broker.start_node,
            "restart": self.broker.restart_node,
        }
        if verb in verbs:
            await verbs[verb](*words.values())
        elif verb == "fault":
            self.broker.faults.add(Rule.from_dict(words))
        elif verb == "clear":
            self._count_strikes()
            self.broker.faults.clear()
        elif verb == "struck":
            await self._until(lambda: self._strikes() >= words["times"], STRIKE_S)
        elif verb == "wait":
            await self._until(lambda: self.group.state == words["state"], STRIKE_S)
        else:
            # It may already have been removed, or be about to rejoin.
            with contextlib.suppress(LookupError, PowerError):
                getattr(self.group, verb)(**words)

    def _node_of(self, words: dict[str, Any]) -> dict[str, Any]:
        named = words.get("node")
        return {} if named is None else {"node": self._nodes.get(named, named)}

    def _strikes(self) -> int:
        """Strikes of the first rule: further ones exist to prompt it."""
        rules = self.broker.faults.rules
        return rules[0].strikes if rules else 0

    def _count_strikes(self) -> None:
        self.evidence.strikes += self._strikes()
        for rule in self.broker.faults.rules[:1]:
            self.evidence.notes = [*rule.notes]

    async def _recover(self) -> None:
        """Waits until the group is well, and stays so while it is watched."""
        deadline = time.monotonic() + max(
            self.evidence.limit_s,
            self.row.watch_s + LIMIT_S / 2,
        )

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        # Since when it is well, according to the events so far.
        since = None
        while left() and not self._have_failed():
            if not self._is_whole():
                since = None
                await self._until(
                    lambda: self._is_whole() or self._have_failed(), left()
                )
            mark, began = dict(self.ends), time.time_ns()
            is_over = partial(self._is_over, mark)
            await self._until(is_over, left())
            if self._is_unwell() or not self._is_done(mark):
                continue
            since = since or began
            rest_s = self._rest_s()
            if rest_s <= 0:
                self.evidence.back_ns = since
                return
            await self._until(self._is_unwell, min(rest_s, left()))
        if self._have_failed():
            await self._let_the_other_go_on()

    def _rest_s(self) -> float:
        """The remaining watch time."""
        now_ns, seen = time.time_ns(), self.evidence
        return max(
            self.row.watch_s - (now_ns - seen.done_ns) / 1e9,
            self.watch_s - (now_ns - seen.undone_ns) / 1e9,
        )

    def _is_unwell(self) -> bool:
        return not self._is_whole() or self._have_failed()

    def _is_over(self, mark: dict[int, int]) -> bool:
        return self._is_done(mark) or self._is_unwell()

    async def _let_the_other_go_on(self) -> None:
        """After a member has given up, waits until the other one has all partitions."""
        alone = [n for n, w in self.workers.items() if w.error is None]

        def is_alone() -> bool:
            members = [each.client_id for each in self.group.members]
            return self.group.state == "Stable" and members == alone

        await self._until(is_alone, self.timeouts.session / 1000 + 4)

    def _is_done(self, mark: dict[int, int]) -> bool:
        return all(self.committed[each] >= end for each, end in mark.items())

    async def _conclude(self) -> None:
        """Gathers the observations; all workers' lines have been read by then."""
        evidence = self.evidence
        self._count_strikes()
        self.broker.faults.clear()
        evidence.ended_ns = time.time_ns()
        evidence.last = self._state()
        evidence.errors = {name: w.error for name, w in self.workers.items()}
        for worker in self.workers.values():
            worker.is_reusable = await asyncio.to_thread(worker.leave)
            if not worker.is_reusable:
                await asyncio.to_thread(worker.stop)
        self.broker.events.unlisten(self._hear)
        evidence.lines = {name: [*w.lines] for name, w in self.workers.items()}
        evidence.events = [seen.event for seen in self._seen]
        evidence.requests = [
            (row.time_ns, row.client_id or "", row.api, row.connection)
            for row in self.broker.requests.find()
        ]
        evidence.ends = dict(self.ends)

    def _state(self) -> str:
        lag = {
            each: end - self.committed[each]
            for each, end in self.ends.items()
            if end - self.committed[each] > 50
        }
        rows = [
            f"{each.client_id} {each.waits_for or ''}".strip()
            for each in self.group.members
        ]
        return f"{self.group.state}; members {rows}; lag {lag}"
