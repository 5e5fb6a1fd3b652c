"""Effects of a group member: requests to send, timers to arm, calls of the listener."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from kohort.client.assignors.contract import TopicPartition
from kohort.protocol.slotted import slotted


@slotted
class Send:
    """Send a request to the group's coordinator; `Answered` or `Failed` comes back.

    JoinGroup and SyncGroup may wait for long, and a broker reads nothing else
    of their connection meanwhile: heartbeats and leaves take another one.
    """

    token: int
    api: str
    """Kafka's name, such as ``JoinGroup``."""
    request: Any
    timeout_ms: int
    lowest: int = 0
    """The lowest version that can carry the request."""


@slotted
class Cancel:
    """The member no longer needs the result of this token."""

    token: int


@slotted
class Compute:
    """Perform a task of the protocol; `Answered` or `Failed` comes back."""

    token: int
    task: Any


class CallKind(StrEnum):
    """The methods of a listener."""

    REVOKED = "revoked"
    ASSIGNED = "assigned"
    LOST = "lost"


@slotted
class Call:
    """Call the listener, then submit `ListenerDone`; one call at a time.

    Partitions that are revoked are still owned, so that offsets can be
    committed, until the call returns; lost ones are not.
    """

    token: int
    kind: CallKind
    partitions: Sequence[TopicPartition]


@slotted
class ForgetCoordinator:
    """Look up the coordinator again."""


@slotted
class Arm:
    """Submit `Expired(key)` at `deadline`; replaces an earlier timer of the key.

    Timers are not disarmed: the session ignores those that it needs no more.
    """

    key: str
    deadline: float


@slotted
class Fail:
    """The membership has failed, and ends."""

    api: str
    code: int
    """The error code of the response; 0 if there is an exception."""
    error: Exception | None
    message: str | None = None
    """The coordinator's, with a code."""


@slotted
class Ended:
    """The membership has ended. The last effect: no timer is needed any more."""


@slotted
class Notice:
    """A change of the member, for the log."""

    kind: str
    fields: Mapping[str, object]


Effect = (
    Send | Cancel | Compute | Call | ForgetCoordinator | Arm | Fail | Ended | Notice
)
