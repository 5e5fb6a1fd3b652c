"""Effects of a coordinator, performed in order; and the results its replies carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kohort.broker.coordinator.events import (
    Client,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    GroupEvent,
    Heartbeat,
    Join,
    Leave,
    Sync,
    TimerKey,
)
from kohort.broker.coordinator.settings import GroupSettings
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted

MemberRows = Sequence[tuple[str, str | None, bytes]]
"""(member id, instance id, metadata) of each member, in the coordinator's order."""


@slotted
class JoinResult:
    """The answer to `Join`."""

    error_code: int
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: MemberRows = ()
    """All members; for the leader only."""


@slotted
class SyncResult:
    """The answer to `Sync`."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@slotted
class HeartbeatResult:
    """The answer to `Heartbeat`."""

    error_code: int


@slotted
class LeaveResult:
    """The answer to `Leave`: an error for all, or one per member in order."""

    error_code: int
    members: Sequence[tuple[str, str | None, int]] = ()
    """(member id, instance id, error code) as the request named them."""


@slotted
class CommitResult:
    """The answer to `CommitOffsets`: one code for all, or one per offset in order."""

    error_code: int
    codes: Sequence[int] | None = None


@slotted
class FetchOffsetsResult:
    """The answer to `FetchOffsets`; an unknown offset is -1 without metadata."""

    error_code: int
    topics: Sequence[tuple[str, Sequence[tuple[int, int, int, str | None]]]] = ()
    """(topic, (partition, offset, leader epoch, metadata) each)."""


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
    | LeaveResult
    | CommitResult
    | FetchOffsetsResult
    | DescribeGroupResult
    | ListGroupsResult
    | DeleteGroupResult
    | DeleteOffsetsResult
)


# -- results without a coordinator

_NEEDS_GROUP_ID = (Join, Sync, Heartbeat, Leave, DeleteOffsets)
"""Events that Kafka refuses without a group id before it looks for a coordinator."""

_ERROR_RESULTS: Final[dict[type, Callable[[int], Result]]] = {
    Heartbeat: HeartbeatResult,
    Sync: SyncResult,
    Leave: LeaveResult,
    CommitOffsets: CommitResult,
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
    return _ERROR_RESULTS[type(event)](error)


def reverted(result: Result, error: int = ErrorCode.NOT_COORDINATOR) -> Result:
    """Returns the error in place of a result whose records were not written."""
    match result:
        case JoinResult():
            return JoinResult(error, result.member_id)
        case DescribeGroupResult():
            return DescribeGroupResult(error, result.group_id, "")
        case _:
            return type(result)(error)  # type: ignore[arg-type]


# -- effects


@slotted
class Reply:
    """Answer the request that brought this token; at most once per token."""

    token: object
    result: Result


@slotted
class Forget:
    """No reply will come for this token. Kafka, too, never answers its request."""

    token: object
    why: str


@slotted
class Arm:
    """Hand `Expired(key)` back at `deadline`; replaces an earlier timer of the key."""

    key: TimerKey
    deadline: float
    """Seconds since the epoch, on the driver's clock."""


@slotted
class Disarm:
    """The timer of this key is no longer needed."""

    key: TimerKey


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
    """The group is gone."""

    group_id: str


@slotted
class OffsetRecord:
    """A committed offset; None in place of the entry where it is gone."""

    group_id: str
    topic: str
    partition: int
    entry: tuple[int, int, str, int] | None
    """(offset, leader epoch, metadata, commit time in ms since the epoch)."""
    expire_timestamp_ms: int = -1
    """When it is to go, where the commit said so itself; else -1."""


Record = GroupRecord | GroupTombstone | OffsetRecord


@slotted
class Append:
    """Write these records, after all that were appended before.

    `Appended` or `AppendFailed` follows. An append is written or refused as a whole.
    """

    records: Sequence[Record]
    append_id: int
    """Ids ascend."""
    is_atomic: bool = True
    """All of them have to fit into one batch."""
    opens_window: bool = False
    """Requests that come before it is written may change what follows from it. For
    others it makes no difference whether they come before or after."""


class Who(NamedTuple):
    """The member that a notice is about, or a client that is no member."""

    member_id: str | None
    group_instance_id: str | None = None
    client: Client | None = None
    """The sender of the member's JoinGroup, or of the request; None: not known."""


class Notice(NamedTuple):
    """Something happened: an event of `kohort.broker.events.schema`, still raw.

    Readers render it as an event by `kohort.broker.events.render`. Objects in its
    fields never change afterwards.

    A tuple, because each member of a rebalance makes some: see `make`.
    """

    kind: str
    """As in ``rebalance_started``."""
    group_id: str | None
    """None: it is about no group."""
    generation: int | None
    """The group's, afterwards."""
    who: Who | None
    fields: Mapping[str, Any]
    """Those of the kind, and ``cause`` and ``reason``; raw where `render` says so."""
    weight: int = 1
    """Rows that it keeps in memory: members, partitions, or offsets."""


make = tuple.__new__
"""``make(Notice, (...))``, of all fields: in C, in a third of the time."""


Effect = Reply | Forget | Arm | Disarm | Append | Notice
