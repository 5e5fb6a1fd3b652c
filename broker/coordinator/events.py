"""Events that a coordinator handles: requests of members and admins, and timers.

API versions stop at the handlers: where a version changes the meaning of a request,
the event has a capability (`member_id_required`), never a number. A `token` belongs
to the caller; it comes back in `Reply` and is opaque here. Durations are in
milliseconds, as on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.protocol.slotted import slotted

TimerKey = tuple[str, ...]
"""The purpose of a timer: ``("join", group)``, ``("sync", group)``, ``("session",
group, member)`` and so on."""


class Client(NamedTuple):
    """The sender of a request."""

    id: str
    host: str
    connection: int | None = None
    """The number of its connection, unique in a run; None: not known."""


@slotted
class Join:
    """A member wants to be in the next generation (JoinGroup)."""

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
    """A member asks for its assignment; the leader sends those of all (SyncGroup)."""

    token: object
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    protocol_required: bool
    """Protocol type and name have to be there (KIP-559)."""
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


@slotted
class LeavingMember:
    """One member of a `Leave`; an empty member id with an instance id is an admin's."""

    member_id: str
    group_instance_id: str | None
    reason: str | None


@slotted
class Leave:
    """Members leave, or are removed by an admin (LeaveGroup)."""

    token: object
    group_id: str
    members: Sequence[LeavingMember]


OffsetRow = tuple[str, int, int, int, str | None, int | None]
"""(topic, partition, offset, leader epoch, metadata, the log's end).

The log's end, the offset of the next record, is for listeners only: minus the
committed offset it is the lag. None: unknown.
"""


@slotted
class CommitOffsets:
    """Offsets to be stored (OffsetCommit); of a member where generation_id >= 0."""

    token: object
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    client: Client
    unknown_group_is_illegal_generation: bool
    """The error for a generation of an unknown group: ILLEGAL_GENERATION before
    OffsetCommit v9, GROUP_ID_NOT_FOUND from then on."""
    offsets: Sequence[OffsetRow]
    retention_ms: int = -1
    """How long to keep them, as OffsetCommit v2 to v4 may say; -1, and only that,
    for the broker's own retention."""


@slotted
class FetchOffsets:
    """A request for committed offsets (OffsetFetch)."""

    token: object
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    """(topic, partitions); None for all that is committed."""


@slotted
class DescribeGroup:
    """A request for one group's state and members (DescribeGroups)."""

    token: object
    group_id: str


@slotted
class ListGroups:
    """All groups, or those in some states and of some types (ListGroups)."""

    token: object
    states: Sequence[str]
    types: Sequence[str]


@slotted
class DeleteGroup:
    """A group without members is to go, with its offsets (DeleteGroups)."""

    token: object
    group_id: str


@slotted
class DeleteOffsets:
    """Committed offsets of a group are to go (OffsetDelete)."""

    token: object
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]


@slotted
class TopicsDeleted:
    """Topics are gone; offsets that were committed for them go, too."""

    topics: Sequence[str]


@slotted
class Expired:
    """An armed timer fires."""

    key: TimerKey


@slotted
class Appended:
    """All appends up to this one are in the log."""

    append_id: int


@slotted
class AppendFailed:
    """The log refused an append; all before it are `Appended`, none came after it."""

    append_id: int
    error_code: int
    """The error as Kafka's log has it, MESSAGE_TOO_LARGE for one."""
    size_in_bytes: int
    max_size_in_bytes: int
    """The largest batch that the log takes: ``max.message.bytes`` of the topic."""


GroupEvent = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | FetchOffsets
    | DescribeGroup
    | DeleteGroup
    | DeleteOffsets
)
"""Requests about one group."""

Event = GroupEvent | ListGroups | TopicsDeleted | Expired | Appended | AppendFailed
