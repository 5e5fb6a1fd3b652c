"""A partition whose leader runs a coordinator: loads it, unloads it, loads it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

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


class Kind(Protocol):
    """The declaration of a coordinator: `kohort.broker.runtime.shards.Shards`."""

    @property
    def noun(self) -> str:
        """The noun for its ids in a sentence."""

    def begin(self) -> Any:
        """Returns a `Loading` before any record is read."""

    def slices(self, shard: Any, read: Any) -> Iterator[None]:
        """Reads a shard's log by `Shard.feed`; yields whenever others should run."""

    def new_driver(self, shard: Any, publish: Callable[[Notice, float], None]) -> Any:
        """Returns a driver of a coordinator without state."""


class Shard(Generic[D]):
    """One partition of a coordinator's topic and, on its leader, the coordinator.

    Args:
        index: the index of the partition.
        partition: its log.
        runtime: the parts of the broker that it runs on.
        kind: declares its coordinator.

    Attributes:
        index: see above.
        partition: see above.
        node_id: the node that leads it, or `NO_NODE`.
        serves: the same if the coordinator has its state and handles events; otherwise
            `NO_NODE`.
        driver: runs the coordinator; None without one.
    """

    __slots__ = (
        "_clock",
        "_events",
        "_is_failed",
        "_kind",
        "_load_delay_ms",
        "_load_since",
        "_loader",
        "_read",
        "_timer",
        "driver",
        "index",
        "node_id",
        "partition",
        "serves",
    )

    def __init__(
        self, index: int, partition: Partition, runtime: Runtime, kind: Kind
    ) -> None:
        self.index = index
        self.node_id = self.serves = NO_NODE
        self.driver: D | None = None
        self.partition = partition
        self._kind = kind
        self._clock = runtime.clock
        self._load_delay_ms = runtime.load_delay_ms
        self._loader = runtime.loader
        self._events = runtime.events
        # The state found so far, while the log is read.
        self._read: Loading | None = None
        self._load_since = 0.0
        self._timer: Timer | None = None
        self._is_failed = False

    # -- for groups

    def _loaded(self, read: Any) -> None:
        """Called when the log is read, before the coordinator starts."""

    def _unloaded(self, node_id: int, cause: str) -> None:
        """Called when a coordinator is unloaded, or its log cannot be read."""

    # -- leaders

    @property
    def states(self) -> Mapping[str, Any]:
        """The loaded states by id."""
        return {} if self.driver is None else self.driver.coordinator.states

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
        noun = self._kind.noun
        return f"the {noun} has no coordinator now: its shard is {self.state}"

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
        self._read = read = self._kind.begin()
        self._loader.add(self, self._kind.slices(self, read))

    def feed(
        self, read: Loading, read_in_pieces: Callable[[Buffer], Iterator[Sequence[Any]]]
    ) -> Iterator[None]:
        """Reads the log from its start; yields whenever other tasks should run.

        Args:
            read: takes the records.
            read_in_pieces: reads a batch, some records at a time.
        """
        size = 0
        for batch in self.partition.batches(self.partition.log_start_offset):
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
            "coordinator_not_loaded", partition=self.partition.name, reason=str(error)
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

    def _start(self, read: Any) -> None:
        publish = self._events.of(self.node_id).publish
        self.driver = driver = self._kind.new_driver(self, publish)
        driver.coordinator.listening = self._events.listening
        self._loaded(read)
        driver.start(read)

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

    def reload(self) -> None:
        """Loads the state again from the log, after a failed write.

        As in Kafka, waiting requests are answered NOT_COORDINATOR, and clients retry.
        """
        log.error(
            "coordinator_reloads",
            partition=self.partition.name,
            reason="its records could not be written",
        )
        self._stop(self.node_id, "failed")
        self._load()
