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

from tests.classic_groups import classic
from tests.fuzz.captured_log import silenced
from tests.manual_clock import ManualClock

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.connection import Connection
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.events.bus import Events
from kohort.broker.ids import Ids
from kohort.broker.log import compaction
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.broker.long_reads import LongReads

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


class Transport(asyncio.Transport):
    """The client's end of a connection.

    Attributes:
        sent: bytes that the client sent and the connection took.
        received: bytes that the client got.
        is_lost: whether the connection is gone.
    """

    def __init__(self, number: int) -> None:
        super().__init__({"peername": (f"10.0.0.{number}", 9000)})
        self.sent = bytearray()
        self.received = bytearray()
        self.is_lost = False
        self._protocol: Connection | LongReads
        self._loop = asyncio.get_running_loop()
        self._high = 64 * 1024
        self._waiting = bytearray()
        self._unread = 0
        self._is_closing = False
        self._is_paused = False
        self._is_read = True
        self._is_blocked = False
        self._has_eof = False

    def connect(self, protocol: Connection) -> None:
        """Opens the connection."""
        self._protocol = protocol
        protocol.connection_made(self)

    # -- calls of a client

    def send(self, data: bytes) -> None:
        """Sends bytes; they wait while the connection does not read."""
        if not self._has_eof:
            self._waiting += data
            self._deliver()

    def send_eof(self) -> None:
        """Sends the end of the stream."""
        if not self._has_eof:
            self._has_eof = True
            self._deliver()

    def lose(self) -> None:
        """Disconnects without a word."""
        self._is_closing = True
        self._lost()

    def read(self, *, goes_on: bool) -> None:
        """Reads received bytes and goes on reading, or stops reading."""
        self._is_read = goes_on
        if goes_on:
            self._unread = 0
            if self._is_blocked and not self.is_lost:
                self._is_blocked = False
                self._protocol.resume_writing()

    def _deliver(self) -> None:
        if self._is_paused or self._is_closing:
            return
        while self._waiting and not self._is_paused and not self._is_closing:
            self._pass_on()
        if self._has_eof and not self._waiting and not self._is_paused:
            keeps_open = self._protocol.eof_received()
            if not keeps_open:
                self.close()

    def _pass_on(self) -> None:
        """Passes waiting bytes on: all, or as many as there is room for."""
        room = None
        if isinstance(self._protocol, LongReads):
            room = self._protocol.get_buffer(-1)
        data = bytes(self._waiting[: None if room is None else len(room)])
        del self._waiting[: len(data)]
        self.sent += data
        if isinstance(self._protocol, Connection):
            self._protocol.data_received(data)
        elif room is not None:
            room[: len(data)] = data
            self._protocol.buffer_updated(len(data))

    def _lost(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._protocol.connection_lost(None)

    # -- calls of the connection

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Passes on everything to another protocol from now on."""
        assert isinstance(protocol, LongReads)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol in use."""
        return self._protocol

    def set_write_buffer_limits(
        self,
        high: int | None = None,
        low: int | None = None,
    ) -> None:
        """Sets the number of bytes that may wait for the client."""
        self._high = self._high if high is None else high

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the client."""
        return self._unread

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Takes bytes for the client."""
        if self._is_closing:
            return
        self.received += data
        if not self._is_read:
            self._unread += len(data)
            if self._unread > self._high and not self._is_blocked:
                self._is_blocked = True
                self._protocol.pause_writing()

    def writelines(self, parts: Any) -> None:
        """Takes bytes for the client."""
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        """Holds back the client's bytes."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Goes on with the client's bytes."""
        self._is_paused = False
        self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        """True while the connection reads."""
        return not self._is_paused

    def is_closing(self) -> bool:
        """True if it is closed, or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Closes the connection in the next turn."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lost)

    def abort(self) -> None:
        """Closes the connection in the next turn."""
        self.close()


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
