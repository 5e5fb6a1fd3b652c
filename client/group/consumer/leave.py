"""The end of a membership: the member leaves, is fenced, or fails."""

from __future__ import annotations

from kohort.client.group import ending
from kohort.client.group.consumer.member import ConsumerMember
from kohort.client.group.consumer.state import (
    ENDED,
    FATAL,
    FENCED,
    INSIDE,
    LEAVING,
    STALE,
    UNSUBSCRIBED,
    MemberState,
)
from kohort.client.group.turn import Turn
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kohort.protocol.errors import ErrorCode

API = "ConsumerGroupHeartbeat"

_LEAVES = -1
"""The epoch of a member that leaves."""
_LEAVES_FOR_A_WHILE = -2
"""The epoch of a static member that keeps its place until its session times out."""

_UNSUPPORTED = (
    "the cluster does not support group_protocol=consumer (KIP-848); "
    "set group_protocol=classic"
)
_WITHOUT_PATTERNS = (
    "the cluster does not support a SubscriptionPattern, or group_protocol=consumer "
    "at all (KIP-848); Apache Kafka 4.0 and later do"
)


# -- leaving


def leave(turn: Turn, member: ConsumerMember) -> None:
    """Revokes all partitions, then sends the last heartbeat."""
    if member.state is LEAVING or ending.revokes_all(turn, member):
        return
    leaves = ending.wishes_to_leave(member)
    is_inside = member.state in INSIDE
    turn.cancel(member)
    if leaves is False or not is_inside:
        left(turn, member)
        return
    member.transition(LEAVING)
    _send(turn, member, is_final=leaves is True)


def _send(turn: Turn, member: ConsumerMember, *, is_final: bool = False) -> None:
    config = member.config
    instance_id = config.group_instance_id
    stays = instance_id is not None and not is_final
    epoch = _LEAVES_FOR_A_WHILE if stays else _LEAVES
    request = ConsumerGroupHeartbeatRequest(
        member.group_id, member.member_id, epoch, instance_id
    )
    turn.notice(member, "left")
    turn.send(member, API, request, config.request_timeout_ms)


def left(turn: Turn, member: ConsumerMember) -> None:
    """Ends the membership, even if the last heartbeat was refused."""
    _forget(member)
    member.transition(ENDED if ending.left(turn, member) else UNSUBSCRIBED)


# -- loss and failure


def fenced(turn: Turn, member: ConsumerMember, reason: str) -> None:
    """Loses all partitions, and joins again with the same member id."""
    _lose(turn, member, reason, FENCED)
    turn.retry(member, at_once=True)


def stale(turn: Turn, member: ConsumerMember, reason: str) -> None:
    """Loses all partitions and leaves; joins again at the next poll."""
    _lose(turn, member, reason, STALE)
    # Awaited: it must not arrive after the join of the next poll.
    _send(turn, member)


def fail(
    turn: Turn,
    member: ConsumerMember,
    code: int,
    error: Exception | None = None,
    message: str | None = None,
) -> None:
    """Fails the membership: with an error code, or 0 and an exception."""
    if code == ErrorCode.UNSUPPORTED_VERSION:
        message = _UNSUPPORTED if member.pattern is None else _WITHOUT_PATTERNS
    ending.fail(turn, member, API, code, error, message)
    _lose(turn, member, "the group has refused the member", FATAL)


def _lose(turn: Turn, member: ConsumerMember, reason: str, state: MemberState) -> None:
    ending.lose(turn, member, reason)
    _forget(member)
    member.transition(state)


def _forget(member: ConsumerMember) -> None:
    member.told = member.assigned = member.reconciled = None
    member.taken = {}
