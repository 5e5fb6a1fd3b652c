"""One partition of ``__consumer_offsets``, and its coordinator on the leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.broker import telemetry
from kohort.broker.clock import ns
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
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shard import Kind, PartitionLog, Shard
from kohort.broker.shards.group_driver import GroupDriver
from kohort.broker.shards.group_records import Encoder
from kohort.protocol.errors import ErrorCode

log = telemetry.Logger("shards")


class CommitLog(PartitionLog):
    """The log of a group coordinator."""

    __slots__ = ("_encoder",)

    def __init__(self, partition: Partition, encoder: Encoder) -> None:
        super().__init__(partition, encoder.encode)
        self._encoder = encoder

    def write_commit(self, group_id: str, offsets: Offsets, now_ms: int) -> bool:
        """Writes a commit without metadata and retention time; see `GroupLog`."""
        encoder = self._encoder
        if encoder.codec:
            return False
        body = encoder.framed_commit(group_id, offsets, now_ms)
        return self._partition.append_framed(body, len(offsets.partitions), now_ms)


class GroupShard(Shard[GroupDriver]):
    """One partition of ``__consumer_offsets`` and, if it has a leader, its coordinator.

    See `Shard`.
    """

    __slots__ = ("_deleted",)

    def __init__(
        self, index: int, partition: Partition, runtime: Runtime, kind: Kind
    ) -> None:
        super().__init__(index, partition, runtime, kind)
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

    def _publish(self, node_id: int, kind: str, **fields: object) -> None:
        node = self._events.of(node_id)
        node.tell(kind, self._clock.now(), partition=self.index, **fields)

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
        return self.partition.producers.verify_own(
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
        error = self.partition.producers.check_own_verified(
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
