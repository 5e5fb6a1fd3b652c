"""Effects of a coordinator, performed in order; and the results its replies carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, overload

from kohort.broker.coordinator.events import (
    CommitInTransaction,
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    FetchOffsets,
    GroupEvent,
    Heartbeat,
    Join,
    Leave,
    Offsets,
    Sync,
)
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Append, Arm, CommandResult, Disarm, Reply
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted

MemberRows = Sequence[tuple[str, str | None, bytes]]
"""(member id, instance id, metadata) of each member, in the coordinator's order."""


class JoinResult(NamedTuple):
    """The answer to `Join`."""

    error_code: int
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: MemberRows = ()
    """All members; for the leader only."""


class SyncResult(NamedTuple):
    """The answer to `Sync`."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@slotted
class HeartbeatResult:
    """The answer to `Heartbeat`."""

    error_code: int


TopicPartitions = Sequence[tuple[bytes, Sequence[int]]]
"""(topic id, partitions)."""


@slotted
class ConsumerHeartbeatResult:
    """The answer to `ConsumerHeartbeat`."""

    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicPartitions | None = None
    """None: it has not changed."""


@slotted
class ConsumerMemberDescription:
    """One member in a `DescribeConsumerGroupResult`.

    `assignment` and `target_assignment` have rows of (topic id, topic, partitions).
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topics: Sequence[str]
    subscribed_regex: str | None
    assignment: Sequence[tuple[bytes, str, Sequence[int]]]
    target_assignment: Sequence[tuple[bytes, str, Sequence[int]]]
    member_type: int
    """1 for a member of the consumer protocol, 0 for one of the classic protocol."""


@slotted
class DescribeConsumerGroupResult:
    """The answer to `DescribeConsumerGroup`."""

    error_code: int
    group_id: str
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[ConsumerMemberDescription] = ()


@slotted
class LeaveResult:
    """The answer to `Leave`: an error for all, or one per member in order."""

    error_code: int
    members: Sequence[tuple[str, str | None, int]] = ()
    """(member id, instance id, error code) as the request named them."""


@slotted
class CommitResult:
    """The answer to a commit: one code for all, or one per offset in order."""

    error_code: int
    codes: Sequence[int] | None = None


FetchedOffset = tuple[int, int, int, str | None, int]
"""(partition, offset, leader epoch, metadata, error code)."""


@slotted
class FetchOffsetsResult:
    """The answer to `FetchOffsets`; an unknown offset is -1 without metadata."""

    error_code: int
    topics: Sequence[tuple[str, Sequence[FetchedOffset]]] = ()


@slotted
class MemberDescription:
    """One member in a `DescribeGroupResult`."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@slotted
class DescribeGroupResult:
    """The answer to `DescribeGroup`; state Dead for an unknown group."""

    error_code: int
    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[MemberDescription] = ()
    why_dead: str | None = None


@slotted
class ListGroupsResult:
    """The answer to `ListGroups`."""

    groups: Sequence[tuple[str, str, str, str]]
    """(group id, protocol type, state, type)."""


@slotted
class DeleteGroupResult:
    """The answer to `DeleteGroup`."""

    error_code: int


@slotted
class DeleteOffsetsResult:
    """The answer to `DeleteOffsets`."""

    error_code: int
    topics: Sequence[tuple[str, Sequence[tuple[int, int]]]] = ()
    """(topic, (partition, error code) each)."""


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | ConsumerHeartbeatResult
    | LeaveResult
    | CommitResult
    | FetchOffsetsResult
    | DescribeGroupResult
    | DescribeConsumerGroupResult
    | ListGroupsResult
    | DeleteGroupResult
    | DeleteOffsetsResult
    | CommandResult
)


# -- results without a coordinator

_NEEDS_GROUP_ID = (
    Join,
    Sync,
    Heartbeat,
    Leave,
    DeleteOffsets,
    DescribeConsumerGroup,
)
"""Events without a group id that Kafka refuses before it looks for a coordinator."""

_ERROR_RESULTS: Final[dict[type, Callable[[int], Result]]] = {
    Heartbeat: HeartbeatResult,
    ConsumerHeartbeat: ConsumerHeartbeatResult,
    Sync: SyncResult,
    Leave: LeaveResult,
    CommitOffsets: CommitResult,
    CommitInTransaction: CommitResult,
    FetchOffsets: FetchOffsetsResult,
    DeleteGroup: DeleteGroupResult,
    DeleteOffsets: DeleteOffsetsResult,
}


def refused(event: GroupEvent, error: ErrorCode, settings: GroupSettings) -> Result:
    """Returns the result of an event that no coordinator handles."""
    if isinstance(event, _NEEDS_GROUP_ID) and not event.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    is_loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if is_loading and isinstance(event, Heartbeat):
        # As in Kafka: the sender may be a member, which loading will show.
        error = ErrorCode.NONE
    if isinstance(event, Join):
        if error == ErrorCode.INVALID_GROUP_ID:
            return JoinResult(error, event.member_id)
        if not settings.allows_session_timeout(event.session_timeout_ms):
            return JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, event.member_id)
        return JoinResult(error, "")
    if isinstance(event, DescribeGroup):
        return DescribeGroupResult(error, event.group_id, "")
    if isinstance(event, DescribeConsumerGroup):
        return DescribeConsumerGroupResult(error, event.group_id)
    return _ERROR_RESULTS[type(event)](error)


# -- effects


class Replies(NamedTuple):
    """Answer several requests; their results are equal but for one value of each.

    All syncs of a rebalance have one of these, and the joins of its followers have two:
    those before and behind the leader's.
    """

    result: JoinResult | SyncResult
    """The result without the value: a join's member id, or a sync's assignment."""
    tokens: Sequence[object]
    values: Sequence[str | bytes]
    """The values, in the order of the tokens."""

    def each(self) -> Iterator[Reply]:
        """Yields the replies one by one."""
        for token, value in zip(self.tokens, self.values, strict=True):
            yield Reply(token, completed(self.result, value))


def completed(result: Result, value: str | bytes) -> Result:
    """The result of a `Replies` with the value of one request."""
    if isinstance(result, JoinResult):
        assert isinstance(value, str)
        return result._replace(member_id=value)
    assert isinstance(result, SyncResult)
    assert isinstance(value, bytes)
    return result._replace(assignment=value)


@slotted
class Forget:
    """No reply will follow for this token: Kafka never answers this request, either."""

    token: object
    why: str


@slotted
class GroupRecord:
    """A group's state that survives a restart.

    Kafka writes it to ``__consumer_offsets`` as GroupMetadataValue.
    """

    group_id: str
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: Sequence[tuple[str, str | None, str, str, int, int, bytes, bytes]]
    """(member id, instance id, client id, client host, rebalance timeout in ms,
    session timeout in ms, subscription, assignment)."""


@slotted
class GroupTombstone:
    """The group was deleted."""

    group_id: str


@slotted
class ConsumerGroupRecord:
    """A consumer group's epoch (ConsumerGroupMetadata, KIP-848)."""

    group_id: str
    value: tuple[int, int] | None
    """(group epoch, hash of its topics); None: deleted."""


ClassicProtocols = tuple[int, Sequence[tuple[str, bytes]]]
"""The session timeout in ms, and the protocols as (name, metadata), of a classic member
in a consumer group."""


class ConsumerMember(NamedTuple):
    """The value of a `ConsumerMemberRecord`."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: Sequence[str]
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicProtocols | None


@slotted
class ConsumerMemberRecord:
    """A member of a consumer group (ConsumerGroupMemberMetadata)."""

    group_id: str
    member_id: str
    value: ConsumerMember | None
    """None: deleted."""


@slotted
class TargetAssignmentRecord:
    """The epoch of a target assignment (ConsumerGroupTargetAssignmentMetadata)."""

    group_id: str
    value: tuple[int, int] | None
    """(assignment epoch, time of the assignment in ms since the epoch); None:
    deleted."""


@slotted
class TargetMemberRecord:
    """A member's target assignment (ConsumerGroupTargetAssignmentMember)."""

    group_id: str
    member_id: str
    value: TopicPartitions | None
    """None: deleted."""


EpochPartitions = Sequence[tuple[bytes, Sequence[int], Sequence[int]]]
"""(topic id, partitions, the epoch at which each was assigned)."""


class CurrentAssignment(NamedTuple):
    """The value of a `CurrentAssignmentRecord`."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """The number of Kafka's MemberState."""
    assigned: EpochPartitions
    pending_revocation: EpochPartitions


@slotted
class CurrentAssignmentRecord:
    """A member's state (ConsumerGroupCurrentMemberAssignment)."""

    group_id: str
    member_id: str
    value: CurrentAssignment | None
    """None: deleted."""


@slotted
class RegularExpressionRecord:
    """The topics that a pattern matches (ConsumerGroupRegularExpression)."""

    group_id: str
    regex: str
    value: tuple[Sequence[str], int, int] | None
    """(topics, version of the cluster's metadata, time in ms since the epoch); None:
    no member has the pattern any more."""


@slotted
class PartitionMetadataTombstone:
    """Deletes a record of Kafka before 4.1 (ConsumerGroupPartitionMetadata).

    It goes with every consumer group, as in Kafka.
    """

    group_id: str
    value: None = None


ConsumerRecord = (
    ConsumerGroupRecord
    | ConsumerMemberRecord
    | TargetAssignmentRecord
    | TargetMemberRecord
    | CurrentAssignmentRecord
    | RegularExpressionRecord
    | PartitionMetadataTombstone
)
"""Records of a consumer group."""


@slotted
class OffsetRecord:
    """A committed offset; the entry is None if the offset was deleted."""

    group_id: str
    topic: str
    partition: int
    entry: tuple[int, int, str, int] | None
    """(offset, leader epoch, metadata, commit time in ms since the epoch)."""
    expire_timestamp_ms: int = -1
    """Expiry time if the commit set one; else -1."""


@slotted
class PendingOffset:
    """A committed offset that counts once its producer's transaction is committed."""

    producer_id: int
    offset: OffsetRecord

    @property
    def group_id(self) -> str:
        """The group of the offset."""
        return self.offset.group_id


@slotted
class TransactionEnd:
    """A marker: the end of a producer's transaction in this partition (KIP-98).

    It is read from the log; the partition's leader writes it, not the coordinator.
    """

    producer_id: int
    is_commit: bool


class CommitRecords(Sequence["OffsetRecord | PendingOffset"]):
    """The records of a commit; each is made when it is read.

    Commits are frequent: their columns go from the request to the log as they are.

    Args:
        group_id: the group.
        offsets: the offsets to be stored.
        commit_ms: the time of the commit, ms since the epoch.
        expire_ms: the expiry time if the commit set one; else -1.
        producer: id and epoch of the producer if they are pending; else None.

    Attributes:
        is_plain: whether there is neither metadata nor an expiry time.
        group_id, offsets, commit_ms, expire_ms, producer: see Args.
    """

    __slots__ = (
        "commit_ms",
        "expire_ms",
        "group_id",
        "is_plain",
        "offsets",
        "producer",
    )

    def __init__(
        self,
        group_id: str,
        offsets: Offsets,
        commit_ms: int,
        expire_ms: int,
        *,
        is_plain: bool,
        producer: tuple[int, int] | None = None,
    ) -> None:
        self.is_plain = is_plain
        self.producer = producer
        self.group_id = group_id
        self.offsets = offsets
        self.commit_ms = commit_ms
        self.expire_ms = expire_ms

    def __len__(self) -> int:
        return len(self.offsets.partitions)

    def __iter__(self) -> Iterator[OffsetRecord | PendingOffset]:
        commit_ms, expire_ms = self.commit_ms, self.expire_ms
        producer = self.producer
        for topic, partition, offset, epoch, metadata, _ in self.offsets.rows():
            entry = offset, epoch, metadata or "", commit_ms
            record = OffsetRecord(self.group_id, topic, partition, entry, expire_ms)
            yield record if producer is None else PendingOffset(producer[0], record)

    @overload
    def __getitem__(self, index: int) -> OffsetRecord | PendingOffset: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[OffsetRecord | PendingOffset]: ...

    def __getitem__(
        self, index: int | slice
    ) -> OffsetRecord | PendingOffset | Sequence[OffsetRecord | PendingOffset]:
        return [*self][index]


Written = GroupRecord | GroupTombstone | ConsumerRecord | OffsetRecord | PendingOffset
"""Records that a coordinator writes."""
Record = Written | TransactionEnd
"""Records that a coordinator reads."""


Effect = Reply | Replies | Forget | Arm | Disarm | Append | Notice
