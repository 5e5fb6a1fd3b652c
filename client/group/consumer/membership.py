"""The member's side of the consumer protocol (KIP-848).

See `kohort.client.group.membership`. From a subscription to an assignment:

1. `Subscribed` has the member join: a heartbeat with epoch 0 says everything about it.
   Later heartbeats say what has changed. The coordinator sets their interval.
2. A response brings the member's epoch and, if it has changed, its assignment, with
   the ids of topics. `reconcile.proceed` looks up their names.
3. `reconcile.take_assignment` has the listener revoke partitions that are not in it,
   then owns it. Meanwhile heartbeats continue.
4. A heartbeat acknowledges what the member owns. The coordinator may then assign the
   revoked partitions to others, and partitions that others have revoked to it: 2.

An error may fence the member (`leave.fenced`), which joins again, or end the
membership (`leave.fail`).
"""

from __future__ import annotations

from kohort.client.errors import UnsupportedVersionError
from kohort.client.group import application
from kohort.client.group.consumer import heartbeat, leave, reconcile
from kohort.client.group.consumer.member import ConsumerMember
from kohort.client.group.consumer.state import (
    ACKNOWLEDGING,
    INSIDE,
    LEAVING,
    OUTSIDE,
    RECONCILING,
)
from kohort.client.group.events import (
    Answered,
    CommitRefused,
    Expired,
    Failed,
    MetadataChanged,
    RebalanceEnforced,
    Subscribed,
)
from kohort.client.group.membership import SHARED, Protocol
from kohort.client.group.turn import Turn
from kohort.protocol.errors import ErrorCode

# -- the application


def _subscribed(turn: Turn, member: ConsumerMember, event: Subscribed) -> None:
    """Joins, or sends a changed subscription at once."""
    reason = application.subscribed(turn, member, event)
    is_other = event.pattern != member.pattern
    member.pattern = event.pattern
    if reason is not None or is_other:
        heartbeat.send(turn, member)


def _rebalance_enforced(
    turn: Turn, member: ConsumerMember, event: RebalanceEnforced
) -> None:
    """Only logs it: the coordinator alone decides on rebalances."""
    turn.notice(member, "rebalance_not_enforced", reason=event.reason)


def _metadata_changed(_: Turn, __: ConsumerMember, ___: MetadataChanged) -> None:
    """Leaves the number of partitions to the coordinator."""


# -- the coordinator


def _answered(turn: Turn, member: ConsumerMember, event: Answered) -> None:
    """Handles a response; ignores one that is no longer awaited."""
    api = member.settle(event.token)
    if api is None:
        return
    if api == reconcile.FIND_TOPICS:
        reconcile.topics_found(turn, member, event.response)
    elif member.state is LEAVING:
        leave.left(turn, member)
    elif member.state in INSIDE:
        heartbeat.answered(turn, member, event.response)


def _failed(turn: Turn, member: ConsumerMember, event: Failed) -> None:
    """Handles a request without a response; keeps the membership while possible."""
    api = member.settle(event.token)
    if api is None:
        return
    if api == reconcile.FIND_TOPICS:
        reconcile.topics_found(turn, member, {})
    elif member.state is LEAVING:
        leave.left(turn, member)
    elif member.state not in INSIDE:
        pass  # the coordinator removes a stale member when its session times out
    elif isinstance(event.error, UnsupportedVersionError):
        leave.fail(turn, member, ErrorCode.UNSUPPORTED_VERSION)
    elif not event.is_retriable:
        leave.fail(turn, member, 0, event.error)
    else:
        heartbeat.failed(turn, member)


def _commit_refused(turn: Turn, member: ConsumerMember, event: CommitRefused) -> None:
    """Asks the coordinator at once whether it is still a member."""
    if event.generation_id == member.generation_id:
        heartbeat.send(turn, member)


# -- timers


def _expired(turn: Turn, member: ConsumerMember, event: Expired) -> None:
    if event.key == "heartbeat":
        heartbeat.send(turn, member)
    elif event.key == "poll":
        heartbeat.poll_expired(turn, member)
    elif event.key == "topics":
        member.looks_up_later = False
    elif member.retry_at is not None and turn.now >= member.retry_at:
        member.retry_at = None
        heartbeat.send(turn, member)


def _proceed(turn: Turn, member: ConsumerMember) -> None:
    if member.state is RECONCILING:
        reconcile.proceed(turn, member)
        if member.state is ACKNOWLEDGING:
            heartbeat.send(turn, member)
    elif member.state in OUTSIDE and heartbeat.is_join_due(member):
        heartbeat.join(turn, member)


_CONSUMER: Protocol[ConsumerMember] = Protocol(
    {
        **SHARED,
        Subscribed: _subscribed,
        RebalanceEnforced: _rebalance_enforced,
        MetadataChanged: _metadata_changed,
        Answered: _answered,
        Failed: _failed,
        CommitRefused: _commit_refused,
        Expired: _expired,
    },
    leave.leave,
    reconcile.take_assignment,
    _proceed,
)
handle = _CONSUMER.handle
