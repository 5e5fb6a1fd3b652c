"""One partition of ``__consumer_offsets``, and its coordinator where it is led."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kohort.broker import telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import Record, Reply
from kohort.broker.coordinator.events import TopicsDeleted
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.load import Loading
from kohort.broker.events.bus import Events
from kohort.broker.events.render import ns
from kohort.broker.log.partition import Partition
from kohort.broker.shards.driver import GroupDriver, answer
from kohort.broker.shards.group_records import Decoder, Encoder
from kohort.broker.shards.loader import Loader
from kohort.broker.topics.topic import NO_NODE, OFFSETS_TOPIC
from kohort.protocol.errors import ErrorCode

SLICE_BYTES: Final = 64 * 1024
"""Bytes of a partition that are loaded before others get their turn: some 5 ms."""

log = telemetry.Logger("shards")


class _PartitionLog:
    """The log of a coordinator: one partition of ``__consumer_offsets``."""

    __slots__ = ("_clock", "_encoder", "_partition")

    def __init__(self, partition: Partition, clock: Clock, encoder: Encoder) -> None:
        self._partition = partition
        self._clock = clock
        self._encoder = encoder

    @property
    def largest(self) -> int:
        return self._partition.config.max_message_bytes

    def encode(self, records: Sequence[Record]) -> bytes:
        return self._encoder.encode(records, int(self._clock.now() * 1000))

    def write(self, batch: bytes) -> None:
        self._partition.append_own(batch, now_ms=int(self._clock.now() * 1000))


class Shard:
    """One partition of ``__consumer_offsets`` and, where it is led, its coordinator.

    Args:
        index: the number of the partition.
        partition: its log.
        clock: the source of time and timers.
        encoder: makes batches of records.
        linger_ms: ``group.coordinator.append.linger.ms``.
        loader: reads logs.
        make: makes a coordinator without groups.
        load_delay_ms: ``coordinator.load.delay.ms``: loading takes at least this long.
        events: the stream of events.

    Attributes:
        index: see above.
        node_id: the node that leads it, or `NO_NODE`.
        driver: runs the coordinator; None if there is none.
        is_active: whether the coordinator has its groups, and takes events.
    """

    __slots__ = (
        "_clock",
        "_deleted",
        "_events",
        "_is_failed",
        "_linger_ms",
        "_load_delay_ms",
        "_load_since",
        "_loader",
        "_log",
        "_make",
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
        encoder: Encoder,
        linger_ms: int,
        loader: Loader,
        make: Callable[[], Coordinator],
        load_delay_ms: int,
        events: Events,
    ) -> None:
        self.index = index
        self.node_id = NO_NODE
        self.driver: GroupDriver | None = None
        self.is_active = False
        self._partition = partition
        self._clock = clock
        self._make = make
        self._log = _PartitionLog(partition, clock, encoder)
        self._linger_ms = linger_ms
        self._load_delay_ms = load_delay_ms
        self._events = events
        self._loader = loader
        # The groups found so far, while the log is read.
        self._read: Loading | None = None
        self._load_since = 0.0
        self._timer: Timer | None = None
        # Topics that were deleted while the groups were not loaded.
        self._deleted: list[str] = []
        self._is_failed = False

    @property
    def state(self) -> str:
        """State of the shard: unloaded, loading, active or failed."""
        if self._is_failed:
            return "failed"
        if self.is_active:
            return "active"
        return "unloaded" if self._read is None else "loading"

    @property
    def groups(self) -> Mapping[str, Group]:
        """The loaded groups by id."""
        return {} if self.driver is None else self.driver.coordinator.groups

    @property
    def group_count(self) -> int:
        """The number of loaded groups."""
        return len(self.groups)

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

    # -- loading

    def _load(self) -> None:
        """Starts loading."""
        self._is_failed = False
        self._load_since = self._clock.now()
        self._read = Loading()
        self._loader.add(self, self._slices(self._read))

    def _slices(self, read: Loading) -> Iterator[None]:
        """Reads the log; yields whenever other work should have its turn."""
        decoder, size = Decoder(), 0
        for batch in self._partition.batches(self._partition.log_start_offset):
            for number, some in enumerate(decoder.read_in_pieces(batch)):
                if number:
                    yield
                read.feed(some)
            size += len(batch)
            if size >= SLICE_BYTES:
                size = 0
                yield
        if decoder.skipped:
            log.warning(
                "records_skipped",
                partition=f"{OFFSETS_TOPIC}-{self.index}",
                count=sum(decoder.skipped.values()),
                reason="they are of groups that are not of the classic protocol",
            )

    def finish_load(self) -> None:
        """The log is read: becomes active as soon as the load delay is over."""
        until = self._load_since + self._load_delay_ms / 1000
        if self._clock.now() < until:
            self._timer = self._clock.call_at(until, self._activate)
        else:
            self._activate()

    def fail_load(self, error: Exception) -> None:
        """The log cannot be read: as in Kafka, only its groups are unavailable."""
        log.error(
            "coordinator_not_loaded",
            partition=f"{OFFSETS_TOPIC}-{self.index}",
            reason=str(error),
        )
        self._read = None
        self._is_failed = True
        self._publish(self.node_id, "shard_unloaded", cause="failed")

    def _publish(self, node_id: int, kind: str, **fields: object) -> None:
        node = self._events.of(node_id)
        node.tell(kind, self._clock.now(), partition=self.index, **fields)

    def _activate(self) -> None:
        read, self._read = self._read, None
        assert read is not None
        self._timer = None
        publish = self._events.of(self.node_id).publish
        self.driver = driver = GroupDriver(
            self._make(), self._clock, self._log, self._reload, publish, self._linger_ms
        )
        self.is_active = True
        duration_ns = ns(self._clock.now()) - ns(self._load_since)
        groups = len(read.found)
        self._publish(
            self.node_id, "shard_loaded", groups=groups, duration_ns=duration_ns
        )
        driver.start(read)
        if self._deleted:
            deleted, self._deleted = self._deleted, []
            driver.submit(TopicsDeleted(deleted))

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
        if driver is None:
            return
        driver.stop()
        self._publish(node_id, "shard_unloaded", cause=cause)
        for effect in driver.coordinator.unload():
            if isinstance(effect, Reply):
                answer(effect.token, effect.result)

    # -- serving

    def _reload(self) -> None:
        """Records could not be written: loads the groups again from the log.

        As in Kafka, waiting requests are answered NOT_COORDINATOR, and clients retry.
        """
        log.error(
            "coordinator_reloads",
            partition=f"{OFFSETS_TOPIC}-{self.index}",
            reason="its records could not be written",
        )
        self._stop(self.node_id, "failed")
        self._load()

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Removes the offsets that were committed for deleted topics."""
        if self.driver is None:
            # They are removed once the groups are loaded.
            self._deleted += names
        else:
            self.driver.submit(TopicsDeleted(names))
            # A deleted topic stays deleted, with its offsets: no request waits for it.
            self.driver.flush()

    def error(self, node_id: int) -> ErrorCode:
        """The error of requests about this shard at a node; NONE if it serves them."""
        if self.node_id != node_id or self._is_failed:
            return ErrorCode.NOT_COORDINATOR
        if not self.is_active:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE
