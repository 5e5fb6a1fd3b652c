"""One partition of ``__consumer_offsets``, and its coordinator on the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kohort.broker import telemetry
from kohort.broker.clock import ns
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import CommitRecords
from kohort.broker.coordinator.events import (
    CommitInTransaction,
    Offsets,
    TopicsDeleted,
    TransactionEnded,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.load import Loading
from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.partition import Partition
from kohort.broker.log.producers import Verification
from kohort.broker.notice import Notice
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shard import PartitionLog, Shard
from kohort.broker.shards.credit import Credit
from kohort.broker.shards.group_driver import GroupDriver
from kohort.broker.shards.group_records import Decoder, Encoder
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.protocol.errors import ErrorCode

log = telemetry.Logger("shards")


class _CommitLog(PartitionLog):
    """The log of a group coordinator."""

    __slots__ = ("_encoder",)

    def __init__(self, partition: Partition, encoder: Encoder) -> None:
        super().__init__(partition, encoder.encode)
        self._encoder = encoder

    def write_commit(self, group_id: str, offsets: Offsets, now_ms: int) -> bool:
        """Writes a commit without a retention time; see `GroupLog`."""
        encoder, partition = self._encoder, self._partition
        is_plain = not any(offsets.metadata)
        if encoder.codec or not is_plain:
            records = CommitRecords(group_id, offsets, now_ms, -1, is_plain=is_plain)
            batch = encoder.encode(records, now_ms)
            if len(batch) > self.largest:
                return False
            partition.append_own(batch, now_ms=now_ms)
            return True
        body = encoder.framed_commit(group_id, offsets, now_ms)
        return partition.append_framed(body, len(offsets.partitions), now_ms)


class GroupShard(Shard[GroupDriver, Loading]):
    """One partition of ``__consumer_offsets`` and, if it has a leader, its coordinator.

    Args:
        index: the index of the partition.
        partition: its log.
        runtime: the parts of the broker that it runs on.
        make: creates a coordinator without groups.
        encoder: makes batches of records.
        linger_ms: ``group.coordinator.append.linger.ms``.
        credit: decides which members count as heard from while the clock is moved
            ahead.
    """

    __slots__ = ("_credit", "_deleted", "_linger_ms", "_log", "_make")

    def __init__(
        self,
        index: int,
        partition: Partition,
        runtime: Runtime,
        make: Callable[[], Coordinator],
        encoder: Encoder,
        linger_ms: int,
        credit: Credit,
    ) -> None:
        super().__init__(index, partition, runtime)
        self._make = make
        self._log = _CommitLog(partition, encoder)
        self._linger_ms = linger_ms
        self._credit = credit
        # Topics that were deleted while the groups were not loaded.
        self._deleted: list[str] = []

    @property
    def groups(self) -> Mapping[str, Group]:
        """The loaded groups by id."""
        return {} if self.driver is None else self.driver.coordinator.groups

    @property
    def group_count(self) -> int:
        """The number of loaded groups."""
        return len(self.groups)

    # -- loading

    def _begin(self) -> Loading:
        return Loading()

    def _slices(self, read: Loading) -> Iterator[None]:
        decoder = Decoder()
        yield from self._feed(read, decoder.read_in_pieces)
        if decoder.skipped:
            log.warning(
                "records_skipped",
                partition=f"{OFFSETS_TOPIC}-{self.index}",
                count=sum(decoder.skipped.values()),
                reason="they are of groups that are not of the classic protocol",
            )

    def _publish(self, node_id: int, kind: str, **fields: object) -> None:
        node = self._events.of(node_id)
        node.tell(kind, self._clock.now(), partition=self.index, **fields)

    def _new_driver(self, publish: Callable[[Notice, float], None]) -> GroupDriver:
        return GroupDriver(
            self._make(),
            self._clock,
            self._log,
            self._reload,
            publish,
            self._linger_ms,
            self._credit,
        )

    def _loaded(self, read: Loading) -> None:
        duration_ns = ns(self._clock.now()) - ns(self._load_since)
        self._publish(
            self.node_id,
            "shard_loaded",
            groups=len(read.found),
            duration_ns=duration_ns,
        )

    def _start(self, read: Loading) -> None:
        super()._start(read)
        if self._deleted:
            deleted, self._deleted = self._deleted, []
            self.topics_deleted(deleted)

    def _unloaded(self, node_id: int, cause: str) -> None:
        self._publish(node_id, "shard_unloaded", cause=cause)

    # -- transactions

    def verify(self, producer_id: int, epoch: int, *, adds: bool) -> Verification | int:
        """Begins to verify a commit; see `GroupShards.verify`."""
        now_ms = int(self._clock.now() * 1000)
        return self._partition.producers.verify_own(
            producer_id, epoch, now_ms, adds=adds
        )

    def commit_in_transaction(
        self, event: CommitInTransaction, verification: Verification | None
    ) -> int:
        """Hands over a commit, if it may be appended; returns the error code.

        It is written at once, as in Kafka: so there is nothing between the check and
        the append.
        """
        assert self.driver is not None
        error = self._partition.producers.check_own_verified(
            event.producer_id, event.producer_epoch, verification
        )
        if not error:
            driver = self.driver
            driver.submit(event)
            driver.flush_all()
        return error

    def end_transaction(self, end: EndMarker, append: Callable[[], int]) -> int:
        """Writes a marker behind all earlier records; see `GroupShards`."""
        if self.driver is not None:
            self.driver.flush_all()
        # A failed write may have unloaded the coordinator.
        if self.driver is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error = append()
        if not error:
            self.driver.submit(TransactionEnded(end.producer_id, end.is_commit))
        return error

    # -- serving

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Removes the offsets that were committed for deleted topics."""
        if self.driver is None:
            # Removed once the groups are loaded.
            self._deleted += names
        else:
            self.driver.submit(TopicsDeleted(names))
            # A deleted topic stays deleted, with its offsets: no request waits for it.
            self.driver.flush()
