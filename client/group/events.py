"""Events of a group member, from the application, the coordinator and timers.

Requests and responses are the messages of `kohort.protocol.apis`, so that a driver
only has to carry them. Tokens are made by the member; the code that performs an effect
hands its token back with the result. Durations are in milliseconds, points in time
in seconds on the driver's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.protocol.slotted import slotted


@slotted
class Subscribed:
    """The application subscribes to topics; the first time starts the membership."""

    topics: Sequence[str]
    pattern: str | None = None
    """For the coordinator, in place of topics; the classic protocol has none."""


@slotted
class Unsubscribed:
    """The application unsubscribes: the member leaves, and may subscribe again."""


@slotted
class Closed:
    """The application closes the consumer: the member leaves and ends."""

    leaves: bool | None = None
    """True if LeaveGroup is sent; None for dynamic members only (KIP-345)."""
    reason: str = "the consumer is being closed"
    """The reason for the broker's log (KIP-800)."""


@slotted
class PollBegan:
    """The application waits for records."""


@slotted
class PollEnded:
    """The application processes records, within max.poll.interval.ms (KIP-62)."""


@slotted
class MetadataChanged:
    """Partitions per topic; 0 for a deleted topic."""

    partitions: Mapping[str, int]


@slotted
class RebalanceEnforced:
    """The application asks for a rebalance."""

    reason: str


@slotted
class Answered:
    """The response to a `Send`, or the result of a `Compute`."""

    token: int
    response: Any


@slotted
class Failed:
    """A `Send` got no response, or a `Compute` has failed."""

    token: int
    error: Exception
    is_retriable: bool = True
    was_waiting: bool = False
    """True if the connection broke after the request was sent."""


@slotted
class CommitRefused:
    """A commit was refused with an error about the member."""

    generation_id: int
    """Generation of the commit."""
    code: int


@slotted
class ListenerDone:
    """A `Call` has returned."""

    token: int


@slotted
class Expired:
    """A timer has fired."""

    key: str


Event = (
    Subscribed
    | Unsubscribed
    | Closed
    | PollBegan
    | PollEnded
    | MetadataChanged
    | RebalanceEnforced
    | Answered
    | Failed
    | CommitRefused
    | ListenerDone
    | Expired
)
