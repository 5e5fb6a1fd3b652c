"""Events that a coordinator handles: requests of members and admins, and timers.

API versions stop at the handlers: if a version changes the meaning of a request, the
event has a capability (`member_id_required`), never a number. A `token` belongs to the
caller; it comes back in `Reply` and is opaque here. Durations are in milliseconds, as
on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

from kohort.broker.coordinator.state import GroupState
from kohort.broker.notice import Client
from kohort.broker.runtime.events import Appended, AppendFailed, Expired
from kohort.protocol.slotted import slotted


@slotted
class Join:
    """A member wants to join the next generation (JoinGroup)."""

    token: object
    group_id: str
    member_id: str
    group_instance_id: str | None
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    """(name, metadata) in order of preference."""
    reason: str | None
    member_id_required: bool
    """The client understands MEMBER_ID_REQUIRED (KIP-394)."""
    can_skip_assignment: bool
    """The client understands skip_assignment (KIP-814)."""


@slotted
class Sync:
    """A member requests its assignment; the leader sends all of them (SyncGroup)."""

    token: object
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    protocol_required: bool
    """Protocol type and name are required (KIP-559)."""
    assignments: Sequence[tuple[str, bytes]]
    """(member id, assignment)."""


@slotted
class Heartbeat:
    """A member's sign of life."""

    token: object
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    client: Client | None = None


@slotted
class LeavingMember:
    """One member in a `Leave`. An admin names a static member by instance id alone."""

    member_id: str
    group_instance_id: str | None
    reason: str | None


@slotted
class Leave:
    """Members leave, or are removed by an admin (LeaveGroup)."""

    token: object
    group_id: str
    members: Sequence[LeavingMember]


OwnedPartitions = Sequence[tuple[bytes, Sequence[int]]]
"""(topic id, partitions)."""


@slotted
class ConsumerHeartbeat:
    """A member joins, stays in, or leaves a consumer group (ConsumerGroupHeartbeat).

    Null fields have not changed since the member's last heartbeat (KIP-848).
    """

    token: object
    group_id: str
    member_id: str
    member_epoch: int
    """0 joins, -1 leaves, -2 leaves as a static member that will come back."""
    group_instance_id: str | None
    client: Client
    rack_id: str | None
    rebalance_timeout_ms: int
    """-1: unchanged."""
    subscribed_topics: Sequence[str] | None
    subscribed_regex: str | None
    """A pattern of RE2; empty: none any more."""
    server_assignor: str | None
    owned: OwnedPartitions | None
    member_id_required: bool
    """The client makes its member id (version 1)."""


@slotted
class DescribeConsumerGroup:
    """A request for a consumer group's epochs and members (ConsumerGroupDescribe)."""

    token: object
    group_id: str


OffsetRow = tuple[str, int, int, int, str | None, int | None]
"""One row of `Offsets`."""


@slotted
class Offsets:
    """The offsets of a commit as columns of the same length, one row per partition."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    metadata: tuple[str | None, ...]
    log_ends: tuple[int | None, ...]
    """The offset of the next record, only for listeners: minus the committed offset it
    is the lag. None if unknown."""

    def __len__(self) -> int:
        return len(self.partitions)

    @staticmethod
    def of(rows: Iterable[OffsetRow]) -> Offsets:
        """Makes the columns of some rows."""
        columns = [*zip(*rows, strict=True)]
        return Offsets(*columns) if columns else NO_OFFSETS

    def columns(self) -> tuple[tuple[Any, ...], ...]:
        """The columns, in their order."""
        return (
            self.topics,
            self.partitions,
            self.offsets,
            self.leader_epochs,
            self.metadata,
            self.log_ends,
        )

    def rows(self) -> Iterator[OffsetRow]:
        """Yields the rows."""
        return zip(*self.columns(), strict=True)

    def only(self, wanted: Sequence[object]) -> Offsets:
        """The rows for which `wanted` is true."""
        return Offsets(*(tuple(compress(each, wanted)) for each in self.columns()))


NO_OFFSETS = Offsets((), (), (), (), (), ())


@slotted
class CommitOffsets:
    """Offsets to be stored (OffsetCommit); from a member if generation_id >= 0."""

    token: object
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    client: Client
    unknown_group_is_illegal_generation: bool
    """The error for a generation of an unknown group: ILLEGAL_GENERATION before
    OffsetCommit v9, GROUP_ID_NOT_FOUND from then on."""
    offsets: Offsets
    retention_ms: int = -1
    """Retention that OffsetCommit v2 to v4 may set, in ms; exactly -1 means the
    broker's own retention."""


@slotted
class CommitInTransaction:
    """Offsets that count once a transaction is committed (TxnOffsetCommit).

    The transaction coordinator has confirmed that the group's partition of
    ``__consumer_offsets`` belongs to the transaction.
    """

    token: object
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    client: Client
    producer_id: int
    producer_epoch: int
    offsets: Offsets


@slotted
class FetchOffsets:
    """A request for committed offsets (OffsetFetch)."""

    token: object
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    """(topic, partitions); None for all committed offsets."""
    require_stable: bool = False
    """No offsets that an open transaction may change (KIP-447)."""
    member_id: str | None = None
    """The sender, if it is a member of a consumer group (KIP-848)."""
    member_epoch: int = -1
    """Its epoch; -1: not a member."""


@slotted
class DescribeGroup:
    """A request for one group's state and members (DescribeGroups)."""

    token: object
    group_id: str


@slotted
class ListGroups:
    """A request for all groups, or those of some states and types (ListGroups)."""

    token: object
    states: Sequence[str]
    types: Sequence[str]


@slotted
class DeleteGroup:
    """Deletes a group without members, with its offsets (DeleteGroups)."""

    token: object
    group_id: str


@slotted
class DeleteOffsets:
    """Deletes committed offsets of a group (OffsetDelete)."""

    token: object
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]


@slotted
class TopicsDeleted:
    """Topics were deleted; offsets committed for them are deleted, too."""

    topics: Sequence[str]


@slotted
class TopicsChanged:
    """Topics were created or deleted, or have more partitions or other racks."""

    topics: Sequence[str]


@slotted
class TransactionEnded:
    """The marker that ends a producer's transaction is in the log of these groups.

    All appends before it are `Appended`.
    """

    producer_id: int
    is_commit: bool


# -- commands: power over a group


@slotted
class Kick:
    """Removes a member, or a pending member.

    Its waiting request is answered UNKNOWN_MEMBER_ID.
    """

    token: object
    group_id: str
    member_id: str
    reason: str | None = None


@slotted
class Expire:
    """Ends the session of a member, or of a pending member, now."""

    token: object
    group_id: str
    member_id: str


@slotted
class Mute:
    """Stops counting anything that a member sends as a sign of life."""

    token: object
    group_id: str
    member_id: str


@slotted
class Unmute:
    """Ends a mute."""

    token: object
    group_id: str
    member_id: str


@slotted
class TriggerRebalance:
    """Starts a rebalance of a group."""

    token: object
    group_id: str
    reason: str | None = None


@slotted
class HoldGroup:
    """Holds a group in a state, from the moment it is in that state.

    Its timers stand still, its requests wait, and the sessions of members with a
    waiting request do not expire.
    """

    token: object
    group_id: str
    state: GroupState | None = None
    """PreparingRebalance or CompletingRebalance, in a consumer group Assigning or
    Reconciling; None: the one of them that the group is in, else the first."""


@slotted
class ReleaseGroup:
    """Lets a held group go on."""

    token: object
    group_id: str


@slotted
class LimitGroup:
    """Gives a group a limit in place of ``group.max.size`` (KIP-389)."""

    token: object
    group_id: str
    max_size: int | None
    """Members; None: ``group.max.size`` applies again."""


@slotted
class Fence:
    """Fences a member of a consumer group: its next heartbeat fails (KIP-848).

    The error is FENCED_MEMBER_EPOCH, until it joins with epoch 0.
    """

    token: object
    group_id: str
    member_id: str


@slotted
class HoldMember:
    """Holds a member of a consumer group at its present partitions and epoch."""

    token: object
    group_id: str
    member_id: str


@slotted
class ReleaseMember:
    """Lets a member's next heartbeat go on to its target assignment."""

    token: object
    group_id: str
    member_id: str


MemberCommand = Kick | Expire | Mute | Unmute | Fence | HoldMember | ReleaseMember
Command = MemberCommand | TriggerRebalance | HoldGroup | ReleaseGroup | LimitGroup
"""Commands of tests and operators; they are not part of Kafka's protocol."""


@slotted
class Credited:
    """Members count as heard from, until a time that the clock is moved to."""

    group_id: str
    member_ids: Sequence[str]
    until: float
    """Seconds since the epoch."""


GroupEvent = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | ConsumerHeartbeat
    | CommitOffsets
    | CommitInTransaction
    | FetchOffsets
    | DescribeGroup
    | DescribeConsumerGroup
    | DeleteGroup
    | DeleteOffsets
)
"""Requests about one group."""

Event = (
    GroupEvent
    | Command
    | ListGroups
    | TopicsDeleted
    | TopicsChanged
    | TransactionEnded
    | Expired
    | Credited
    | Appended
    | AppendFailed
)
