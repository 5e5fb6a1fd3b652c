"""A cluster without sockets: connections in memory, and a clock that is moved by hand.

The same steps have the same results every time: ids are numbers, and time passes only
when a scene moves it.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.captured_log import silenced
from tests.manual_clock import ManualClock
from tests.wire.memory import Transport

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.connection import Connection
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.events.bus import Events
from kohort.broker.ids import Ids
from kohort.broker.log import compaction
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.simulation.checking.groups import classic

MOST_FIRED = 20_000
"""Timers that one step may fire: more means that some are armed endlessly."""
MOST_TURNS = 200_000
"""Turns of the loop that a step may take."""
IDLE_TURNS = 4
"""Turns without long work after which none will follow: a response leads to the next
request of its connection within two."""
FAULTS = ("request_failed", "reply_failed", "timer_failed", "Traceback")
"""Log lines that show a defect of kohort."""


class NumberedIds(Ids):
    """Ids that a fuzzer can guess: members are m1, m2, ..."""

    __slots__ = ("_members", "_sessions", "_topics")

    def __init__(self) -> None:
        super().__init__(0)
        self._members = itertools.count(1)
        self._topics = itertools.count(1)
        self._sessions = itertools.count(1)

    def member_id(self, prefix: str) -> str:
        """The next member id."""
        return f"m{next(self._members)}"

    def topic_id(self) -> bytes:
        """The next topic id."""
        return topic_id(next(self._topics))

    def fetch_session_id(self) -> int:
        """The next fetch session id."""
        return next(self._sessions)


def topic_id(number: int) -> bytes:
    """The id of the topic that is created as number `number`, from 1 on."""
    return number.to_bytes(16, "big")


class World:
    """A cluster of two nodes, the connections to it, and its log.

    Args:
        config: configuration that differs from `BASE`.
        log: its lines.
        data_dir: folder of topics and records; None for memory.
        is_hasty: whether steps follow one another during long work.
    """

    BASE: Mapping[str, object] = {
        "offsets.topic.num.partitions": 2,
        "num.partitions": 2,
        "group.initial.rebalance.delay.ms": 0,
        # So that a month takes few steps.
        "offsets.retention.check.interval.ms": 2**31 - 1,
        "transaction.state.log.num.partitions": 2,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 2**31 - 1,
    }

    def __init__(
        self,
        config: Mapping[str, object],
        log: io.StringIO,
        *,
        data_dir: Path | None = None,
        is_hasty: bool = False,
    ) -> None:
        self.log = log
        self._is_hasty = is_hasty
        self._cleanings: dict[Partition, Iterator[None]] = {}
        self.clock = ManualClock()
        settings = Config(dict(self.BASE) | dict(config))
        events = Events(None)
        events.begin("fuzz")
        self.cluster = Cluster(
            settings,
            self.clock,
            NumberedIds(),
            data_dir=data_dir,
            nodes=2,
            events=events,
        )
        for node in self.cluster.nodes.values():
            node.addresses, node.is_open = [("host", 9092 + node.id)], True
        self.connections: set[Connection] = set()
        self._generations: dict[str, int] = {}
        self._limit: int = settings["group.max.size"]
        self._has_limit = True
        self.cluster.load_coordinators()

    def connect(self, number: int) -> Transport:
        """A new connection, to a node by its number."""
        nodes = [*self.cluster.nodes.values()]
        transport = Transport(number)
        transport.connect(Connection(nodes[number % 2], self.connections))
        return transport

    async def settle(self) -> None:
        """Runs the loop until long work is done; then checks the invariants."""
        await self._turn(waits=not self._is_hasty)
        if not self.cluster.loader.is_busy:
            # A log must not change while it is being loaded.
            self._clean_on()
        self.check()

    async def finish(self) -> None:
        """Finishes all long work."""
        await self._turn()
        self.check()

    async def _turn(self, *, waits: bool = True) -> None:
        idle = 0
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            # Finished work makes room for the next request of its connection.
            idle = 0 if waits and len(self.cluster.long_work) else idle + 1
            if idle >= IDLE_TURNS:
                return
        raise AssertionError("long work never ends")

    async def sleep(self, seconds: float) -> None:
        """Lets time pass; the loop turns after each timer."""
        until = self.clock.now() + seconds
        fired = 0
        while self.clock.fire(until):
            fired += 1
            assert fired <= MOST_FIRED, "timers are armed again and again"
            await self._turn()
        await self.settle()

    # -- operations

    def operate(self, what: int) -> None:
        """Cleans logs, expires records, moves coordinators, stops or starts a node."""
        nodes = [*self.cluster.nodes.values()]
        node = nodes[what >> 4 & 1]
        if what & 3 == 0:
            self._clean()
        elif what & 3 == 1:
            for partition in self._partitions():
                partition.expire(self.cluster.now_ms())
                partition.expire_producers(self.cluster.now_ms())
        elif what & 3 == 2:
            if node.is_running:
                for shard in self.cluster.shards:
                    name = "__consumer_offsets"
                    self.cluster.move_partition(name, shard.index, node.id)
        elif not node.is_running:
            node.is_open = True
            self.cluster.node_started(node)
        elif len(self.cluster.running) > 1:
            node.is_open = False
            self.cluster.node_stopped(node)
            for connection in [c for c in self.connections if c.node is node]:
                connection.close()

    def _partitions(self) -> Iterator[Partition]:
        for topic in self.cluster.topics.by_name.values():
            yield from topic.partitions

    def _clean(self) -> None:
        """Begins to compact the partitions that are not being compacted."""
        for partition in self._partitions():
            if "compact" in partition.config.cleanup_policy:
                self._cleanings.setdefault(
                    partition,
                    compaction.clean(
                        partition, self.cluster.now_ms(), records_per_step=1
                    ),
                )

    def _clean_on(self) -> None:
        """Compacts a slice of each; other requests run in between."""
        for partition, slices in [*self._cleanings.items()]:
            try:
                next(slices)
            except (StopIteration, compaction.UncleanableError, StorageError):
                del self._cleanings[partition]

    def facts(self) -> dict[str, object]:
        """The state that a restart has to restore."""
        return {
            topic.name: (
                topic.id,
                dict(topic.overrides),
                [(p.log_start_offset, p.log_end_offset) for p in topic.partitions],
            )
            for topic in self.cluster.topics.by_name.values()
        }

    async def stop(self) -> None:
        """Ends current work, and closes all files."""
        await self.finish()
        while self._cleanings:
            self._clean_on()
        self.cluster.close()

    # -- invariants

    def check(self) -> None:
        """Checks the invariants after every step."""
        text = self.log.getvalue()
        assert not any(fault in text for fault in FAULTS), text
        # A request may have changed it: earlier groups may be larger.
        self._has_limit &= self.cluster.config["group.max.size"] == self._limit
        known = set()
        for group in classic(self.cluster.shards.groups()).values():
            known.add(group.group_id)
            self._check_group(group)
        for group_id in self._generations.keys() - known:
            del self._generations[group_id]

    def _check_group(self, group: ClassicGroup) -> None:
        members = group.members.values()
        joins = sum(m.join_token is not None for m in members)
        assert group.awaiting_join == joins, "counters count right"
        if joins:
            assert group.state == "PreparingRebalance"
        if any(m.sync_token is not None for m in members):
            assert group.state == "CompletingRebalance"
        assert not group.members or group.leader in group.members
        for instance, member_id in group.static_members.items():
            assert group.members[member_id].group_instance_id == instance
        known = self._generations.get(group.group_id, 0)
        if group.generation_id > known and self._has_limit:
            assert len(group.members) <= self._limit, "a generation is not too large"
        self._generations[group.group_id] = group.generation_id


_loop: list[asyncio.AbstractEventLoop] = []


def play(scene: Callable[[io.StringIO], Any]) -> None:
    """Runs a scene, a coroutine function, on the only loop of this process."""
    if not _loop:
        _loop.append(asyncio.new_event_loop())
    with silenced() as log:
        _loop[0].run_until_complete(scene(log))
