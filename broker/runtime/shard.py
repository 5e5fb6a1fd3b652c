"""A partition whose leader runs a coordinator: loads it, unloads it, loads it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from kohort.broker import telemetry
from kohort.broker.clock import Timer
from kohort.broker.log.partition import Partition
from kohort.broker.notice import Notice
from kohort.broker.runtime.driver import Driver, answer
from kohort.broker.runtime.machine import Loading
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.topics.topic import NO_NODE
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer

SLICE_BYTES: Final = 64 * 1024
"""Bytes of a partition that are loaded before other tasks run: some 5 ms."""

log = telemetry.Logger("shards")

D = TypeVar("D", bound="Driver[Any]")
L = TypeVar("L", bound=Loading)


class PartitionLog:
    """The log of a coordinator: one partition of its topic.

    Args:
        partition: the partition.
        encode: makes a batch of records, at a time in ms since the epoch.
    """

    __slots__ = ("_encode", "_partition")

    def __init__(
        self, partition: Partition, encode: Callable[[Sequence[Any], int], bytes]
    ) -> None:
        self._partition = partition
        self._encode = encode

    @property
    def largest(self) -> int:
        """Bytes of the largest batch that it accepts."""
        return self._partition.config.max_message_bytes

    def encode(self, records: Sequence[Any], now: float) -> bytes:
        """Returns a batch of records; see `Log`."""
        return self._encode(records, int(now * 1000))

    def write(self, batch: bytes, now: float) -> None:
        """Writes a batch; see `Log`."""
        error = self._partition.append_own(batch, now_ms=int(now * 1000))
        assert not error, "`GroupShard.commit_in_transaction` has checked it"


class Shard(ABC, Generic[D, L]):
    """One partition of a coordinator's topic and, on its leader, the coordinator.

    Args:
        index: the index of the partition.
        partition: its log.
        runtime: the parts of the broker that it runs on.

    Attributes:
        index: see above.
        node_id: the node that leads it, or `NO_NODE`.
        serves: the same if the coordinator has its state and handles events; otherwise
            `NO_NODE`.
        driver: runs the coordinator; None without one.
    """

    __slots__ = (
        "_clock",
        "_events",
        "_is_failed",
        "_load_delay_ms",
        "_load_since",
        "_loader",
        "_partition",
        "_read",
        "_timer",
        "driver",
        "index",
        "node_id",
        "serves",
    )

    def __init__(self, index: int, partition: Partition, runtime: Runtime) -> None:
        self.index = index
        self.node_id = self.serves = NO_NODE
        self.driver: D | None = None
        self._partition = partition
        self._clock = runtime.clock
        self._load_delay_ms = runtime.load_delay_ms
        self._loader = runtime.loader
        self._events = runtime.events
        # The state found so far, while the log is read.
        self._read: L | None = None
        self._load_since = 0.0
        self._timer: Timer | None = None
        self._is_failed = False

    # -- what each coordinator declares

    @abstractmethod
    def _begin(self) -> L:
        """Returns the state before any record is read."""

    @abstractmethod
    def _slices(self, read: L) -> Iterator[None]:
        """Reads the log by `_feed`; yields whenever other tasks should run."""

    @abstractmethod
    def _new_driver(self, publish: Callable[[Notice, float], None]) -> D:
        """Returns a driver of a coordinator without state."""

    def _loaded(self, read: L) -> None:
        """Called when the log is read, before the coordinator starts."""

    def _unloaded(self, node_id: int, cause: str) -> None:
        """Called when a coordinator is unloaded, or its log cannot be read."""

    # -- leaders

    @property
    def state(self) -> str:
        """State of the shard: unloaded, loading, active or failed."""
        if self._is_failed:
            return "failed"
        if self.driver is not None:
            return "active"
        return "unloaded" if self._read is None else "loading"

    @property
    def refusal(self) -> str | None:
        """The reason why it accepts no commands, in one sentence; None if it does."""
        if self.driver is not None:
            return None
        return f"it has no coordinator now: its shard is {self.state}"

    def lead(self, node_id: int, cause: str = "moved") -> None:
        """Sets the leader of the partition; `NO_NODE` for none.

        Args:
            node_id: the leader.
            cause: why the previous leader was replaced; see `shard_unloaded`.
        """
        self.unload(cause)
        self.node_id = node_id
        if node_id != NO_NODE:
            self._load()

    def error(self, node_id: int) -> ErrorCode:
        """The error of requests for this shard at a node; NONE if it serves them."""
        if self.node_id != node_id or self._is_failed:
            return ErrorCode.NOT_COORDINATOR
        if self.driver is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    # -- loading

    def _load(self) -> None:
        """Starts loading."""
        self._is_failed = False
        self._load_since = self._clock.now()
        self._read = self._begin()
        self._loader.add(self, self._slices(self._read))

    def _feed(
        self, read: L, read_in_pieces: Callable[[Buffer], Iterator[Sequence[Any]]]
    ) -> Iterator[None]:
        """Reads the log from its start; yields whenever other tasks should run.

        Args:
            read: takes the records.
            read_in_pieces: reads a batch, some records at a time.
        """
        size = 0
        for batch in self._partition.batches(self._partition.log_start_offset):
            for number, records in enumerate(read_in_pieces(batch)):
                if number:
                    yield
                read.feed(records)
            size += len(batch)
            if size >= SLICE_BYTES:
                size = 0
                yield

    def finish_load(self) -> None:
        """Becomes active as soon as the load delay is over, as the log is read."""
        until = self._load_since + self._load_delay_ms / 1000
        if self._clock.now() < until:
            self._timer = self._clock.call_at(until, self._activate)
        else:
            self._activate()

    def fail_load(self, error: Exception) -> None:
        """Notes an unreadable log: as in Kafka, only its state is unavailable."""
        log.error(
            "coordinator_not_loaded", partition=self._partition.name, reason=str(error)
        )
        self._read = None
        self._is_failed = True
        self._unloaded(self.node_id, "failed")

    def _activate(self) -> None:
        read, self._read = self._read, None
        assert read is not None
        self._timer = None
        self.serves = self.node_id
        self._start(read)

    def _start(self, read: L) -> None:
        self.driver = self._new_driver(self._events.of(self.node_id).publish)
        self._loaded(read)
        self.driver.start(read)

    def unload(self, cause: str) -> None:
        """Removes the coordinator; waiting requests are answered NOT_COORDINATOR."""
        node_id, self.node_id = self.node_id, NO_NODE
        self._stop(node_id, cause)

    def _stop(self, node_id: int, cause: str) -> None:
        driver, self.driver = self.driver, None
        self.serves = NO_NODE
        self._loader.remove(self)
        self._read = None
        self._is_failed = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if driver is not None:
            self._unloaded(node_id, cause)
            driver.stop()
            for reply in driver.coordinator.unload():
                answer(*reply)

    def _reload(self) -> None:
        """Loads the state again from the log, after a failed write.

        As in Kafka, waiting requests are answered NOT_COORDINATOR, and clients retry.
        """
        log.error(
            "coordinator_reloads",
            partition=self._partition.name,
            reason="its records could not be written",
        )
        self._stop(self.node_id, "failed")
        self._load()
