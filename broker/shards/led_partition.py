"""A partition whose leader runs a coordinator: loads it, unloads it, loads it again.

Both kinds of coordinators keep their state in a topic: `shard.Shard` is a partition of
``__consumer_offsets``, `transaction_shard.TransactionShard` one of
``__transaction_state``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from kohort.broker import telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.log.partition import Partition
from kohort.broker.shards.loader import Loader
from kohort.broker.topics.topic import NO_NODE
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer

SLICE_BYTES: Final = 64 * 1024
"""Bytes of a partition that are loaded before other tasks run: some 5 ms."""

log = telemetry.Logger("shards")

D = TypeVar("D")
L = TypeVar("L")
R = TypeVar("R")


class LedPartition(ABC, Generic[D, L]):
    """One partition of a coordinator's topic and, on its leader, the coordinator.

    Args:
        index: the index of the partition.
        partition: its log.
        clock: the source of time and timers.
        loader: reads logs.
        load_delay_ms: ``coordinator.load.delay.ms``: loading takes at least this long.

    Attributes:
        index: see above.
        node_id: the node that leads it, or `NO_NODE`.
        driver: runs the coordinator; None without one.
        is_active: whether the coordinator has its state, and handles events.
    """

    __slots__ = (
        "_clock",
        "_is_failed",
        "_load_delay_ms",
        "_load_since",
        "_loader",
        "_partition",
        "_read",
        "_timer",
        "driver",
        "index",
        "is_active",
        "node_id",
    )

    def __init__(
        self,
        index: int,
        partition: Partition,
        clock: Clock,
        loader: Loader,
        load_delay_ms: int,
    ) -> None:
        self.index = index
        self.node_id = NO_NODE
        self.driver: D | None = None
        self.is_active = False
        self._partition = partition
        self._clock = clock
        self._load_delay_ms = load_delay_ms
        self._loader = loader
        # The state found so far, while the log is read.
        self._read: L | None = None
        self._load_since = 0.0
        self._timer: Timer | None = None
        self._is_failed = False

    # -- the two kinds

    @abstractmethod
    def _begin(self) -> L:
        """Returns the state before any record is read."""

    @abstractmethod
    def _slices(self, read: L) -> Iterator[None]:
        """Reads the log; yields whenever other tasks should run."""

    @abstractmethod
    def _start(self, read: L) -> None:
        """Sets `driver`, which runs a coordinator with this state from now on."""

    @abstractmethod
    def _end(self, driver: D) -> None:
        """Stops a driver and refuses the requests that wait for it."""

    def _unloaded(self, node_id: int, cause: str) -> None:
        """Called when a coordinator is unloaded, or its log cannot be read."""

    # -- leaders

    @property
    def state(self) -> str:
        """State of the shard: unloaded, loading, active or failed."""
        if self._is_failed:
            return "failed"
        if self.is_active:
            return "active"
        return "unloaded" if self._read is None else "loading"

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
        if not self.is_active:
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
        self,
        read_in_pieces: Callable[[Buffer], Iterator[R]],
        feed: Callable[[R], object],
    ) -> Iterator[None]:
        """Reads the log from its start; yields whenever other tasks should run.

        Args:
            read_in_pieces: reads a batch, some records at a time.
            feed: takes these records.
        """
        size = 0
        for batch in self._partition.batches(self._partition.log_start_offset):
            for number, records in enumerate(read_in_pieces(batch)):
                if number:
                    yield
                feed(records)
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
        self.is_active = True
        self._start(read)

    def unload(self, cause: str) -> None:
        """Removes the coordinator; waiting requests are answered NOT_COORDINATOR."""
        node_id, self.node_id = self.node_id, NO_NODE
        self._stop(node_id, cause)

    def _stop(self, node_id: int, cause: str) -> None:
        driver, self.driver = self.driver, None
        self.is_active = False
        self._loader.remove(self)
        self._read = None
        self._is_failed = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if driver is not None:
            self._unloaded(node_id, cause)
            self._end(driver)

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
