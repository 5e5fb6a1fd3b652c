"""Effects of a group member: requests to send, timers to arm, calls of the listener."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from kohort.client.assignors.contract import Subscriptions, TopicPartition
from kohort.protocol.slotted import slotted


@slotted
class Send:
    """Send a request to the group's coordinator; `Answered` or `Failed` comes back.

    JoinGroup and SyncGroup may wait for long, and a broker reads nothing else
    of their connection meanwhile: heartbeats and leaves take another one.
    """

    token: int
    api: str
    """As in ``JoinGroup``."""
    request: Any
    timeout_ms: int


@slotted
class Cancel:
    """The member no longer needs the result of this token."""

    token: int


@slotted
class MakeAssignment:
    """Assign partitions to all members; `AssignmentMade` comes back."""

    token: int
    protocol_name: str
    subscriptions: Subscriptions
    """A member whose subscription cannot be read is left out, and gets nothing."""
    topics: Sequence[str]
    """The subscribed topics of all members, to be watched from now on."""
    is_skipped: bool
    """Only the partitions are to be looked up: nothing is assigned (KIP-814)."""


class CallKind(StrEnum):
    """The methods of a listener."""

    REVOKED = "revoked"
    ASSIGNED = "assigned"
    LOST = "lost"


@slotted
class Call:
    """Call the listener, and say `ListenerDone`; there is one at a time.

    Partitions that are revoked are still owned, so that offsets can be
    committed, until the call returns; lost ones are not.
    """

    token: int
    kind: CallKind
    partitions: Sequence[TopicPartition]


@slotted
class ForgetCoordinator:
    """The coordinator has to be looked up again."""


@slotted
class Arm:
    """Hand `Expired(key)` back at `deadline`; replaces an earlier timer of the key.

    Timers are not disarmed: the session ignores those that it needs no more.
    """

    key: str
    deadline: float


@slotted
class Fail:
    """The membership has failed for good; the session ends."""

    api: str
    code: int
    """The error code of the response; 0 if there is an exception."""
    error: Exception | None


@slotted
class Ended:
    """The session is over: the last effect of all. No timer is needed any more."""


@slotted
class Notice:
    """Something happened to the member, for logs."""

    kind: str
    fields: Mapping[str, object]


Effect = (
    Send
    | Cancel
    | MakeAssignment
    | Call
    | ForgetCoordinator
    | Arm
    | Fail
    | Ended
    | Notice
)
