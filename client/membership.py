"""What a session is told, what it wants done, and the states that it goes through.

Requests and responses are the messages of `kohort.protocol.apis`, so that a
driver only has to carry them. Tokens are the session's own: whoever performs an
effect hands the token back with what came of it. Durations are in milliseconds,
points in time in seconds on the driver's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from kohort.protocol.consumer import Subscription
from kohort.protocol.slotted import slotted

TopicPartition = tuple[str, int]

UserData = Callable[[Sequence[TopicPartition] | None, int], bytes | None]
"""Makes an assignor's user data of the last assignment and its generation; of None
and -1 where there was none."""


@slotted
class Offer:
    """One protocol that the member supports, that is an assignor."""

    name: str
    """As in ``range``."""
    is_cooperative: bool
    """Whether partitions may be kept while the group rebalances (KIP-429)."""
    user_data: UserData


@slotted
class SessionSettings:
    """Settings of a member, under Kafka's names, with the Java client's defaults."""

    group_id: str
    offers: Sequence[Offer]
    """In order of preference. The member works cooperatively if all of them do;
    else eagerly, which is the first step of the way from one to the other."""
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """Also the rebalance timeout of JoinGroup."""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    client_rack: str | None = None


class MemberState(StrEnum):
    """Where a member stands, under the Java client's names.

    Listener calls may run in any state but LEAVING and ENDED; nothing new is
    begun until they are answered.
    """

    UNJOINED = "unjoined"
    """In no generation that counts. Joins as soon as it may.

    May have an id, and, where a cooperative join or sync failed, partitions.
    Ends when: JoinGroup is sent; it leaves; it ends.
    """

    PREPARING_REBALANCE = "preparing_rebalance"
    """JoinGroup waits for its answer, and is the sign of life.

    Ends when: it is answered, or fails; the member leaves.
    """

    COMPLETING_REBALANCE = "completing_rebalance"
    """In a new generation, without its assignment. Sends heartbeats.

    The leader assigns; then everybody's SyncGroup waits for its answer.
    Ends when: SyncGroup is answered, or fails; membership is lost; it leaves.
    """

    STABLE = "stable"
    """Has an assignment. Sends heartbeats.

    Ends when: it joins again; membership is lost; it leaves.
    """

    LEAVING = "leaving"
    """LeaveGroup waits for its answer.

    Ends when: it is answered, or fails.
    """

    ENDED = "ended"
    """Closed or failed. Takes no more events."""


UNJOINED = MemberState.UNJOINED
PREPARING_REBALANCE = MemberState.PREPARING_REBALANCE
COMPLETING_REBALANCE = MemberState.COMPLETING_REBALANCE
STABLE = MemberState.STABLE
LEAVING = MemberState.LEAVING
ENDED = MemberState.ENDED

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = {
    UNJOINED: frozenset({UNJOINED, PREPARING_REBALANCE, LEAVING, ENDED}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, UNJOINED, LEAVING, ENDED}),
    COMPLETING_REBALANCE: frozenset({STABLE, UNJOINED, LEAVING, ENDED}),
    STABLE: frozenset({PREPARING_REBALANCE, UNJOINED, LEAVING, ENDED}),
    LEAVING: frozenset({UNJOINED, ENDED}),
    ENDED: frozenset(),
}


# -- events


@slotted
class Subscribed:
    """The topics that are wanted from now on; the first ones begin the membership."""

    topics: Sequence[str]


@slotted
class Unsubscribed:
    """Nothing is wanted any more: the member leaves, and may subscribe again."""


@slotted
class Closed:
    """The member is to leave, and the session to end."""

    leaves: bool | None = None
    """Whether LeaveGroup is sent; None for dynamic members only (KIP-345)."""
    reason: str = "the consumer is being closed"
    """What the group is told (KIP-800)."""


@slotted
class PollBegan:
    """The application waits for records."""


@slotted
class PollEnded:
    """The application has records to work on; max.poll.interval.ms counts (KIP-62)."""


@slotted
class MetadataChanged:
    """How many partitions topics have; 0 for one that is gone."""

    partitions: Mapping[str, int]


@slotted
class RebalanceEnforced:
    """The application wants a rebalance."""

    reason: str


@slotted
class Answered:
    """The response to a `Send`."""

    token: int
    response: Any


@slotted
class Failed:
    """A `Send` got no response."""

    token: int
    error: Exception
    is_retriable: bool = True
    was_waiting: bool = False
    """Whether the connection broke when the request had been sent on it."""


@slotted
class CommitRefused:
    """A commit of the member's was answered with an error that is about it."""

    generation_id: int
    """That the commit came with."""
    code: int


@slotted
class AssignmentMade:
    """The answer to `MakeAssignment`."""

    token: int
    assignments: Mapping[str, Sequence[TopicPartition]]
    """By member id."""
    partitions: Mapping[str, int]
    """What it went by: partitions per topic; 0 for a topic that is not there."""


@slotted
class AssignmentFailed:
    """The assignor failed; so does the member."""

    token: int
    error: Exception


@slotted
class ListenerDone:
    """A `Call` has returned."""

    token: int


@slotted
class Expired:
    """A timer that was armed has come."""

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
    | AssignmentMade
    | AssignmentFailed
    | ListenerDone
    | Expired
)


# -- effects


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
    """Nobody waits for what comes of this token any more."""

    token: int


@slotted
class MakeAssignment:
    """Assign partitions to everybody; `AssignmentMade` comes back."""

    token: int
    protocol_name: str
    members: Sequence[tuple[str, str | None, Subscription]]
    """(member id, instance id, subscription); who sent none that can be read is
    left out, and gets nothing."""
    topics: Sequence[str]
    """All that anybody subscribes to: to be watched from now on."""
    is_skipped: bool
    """Only the partitions are to be looked up: nothing is assigned (KIP-814)."""


class CallKind(StrEnum):
    """Which of a listener's methods."""

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
    """Of the response; 0 where an exception says what happened."""
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
