"""The member's side of the classic protocol: takes events, returns effects.

Pure: no clock, no socket, no randomness, no futures. Each event comes with the time,
and the driver that performs the effects adds jitter to timers. The member acts as
the Java client does.

From a subscription to an assignment:

1. `Subscribed` asks for a join. `join.prepare` has the listener revoke partitions
   that cannot be kept, then sends JoinGroup.
2. The response puts the member into a generation. The leader asks for an assignment
   (`sync.lead`), a follower sends SyncGroup without one; heartbeats begin.
3. The response to SyncGroup brings the target. `sync.take_assignment` has the
   listener revoke partitions that are not in it, then owns it. After a revocation it
   goes back to 1.

Heartbeats, commits, timers and metadata ask for another join (`rejoin_for`) or take
the membership away (`leave.lose`). After each event `handle` begins the next step, so
that the order is always the same: the running call of the listener, lost partitions,
leaving, a new assignment, a join.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.client.group import application
from kohort.client.group.classic import heartbeat, join, leave, sync
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import COMPLETING_REBALANCE, ENDED, STABLE
from kohort.client.group.effects import CallKind, Effect
from kohort.client.group.events import (
    Answered,
    Closed,
    CommitRefused,
    Event,
    Expired,
    Failed,
    ListenerDone,
    MetadataChanged,
    PollBegan,
    PollEnded,
    RebalanceEnforced,
    Subscribed,
    Unsubscribed,
)
from kohort.client.group.member import NOTHING
from kohort.client.group.turn import Turn
from kohort.protocol.errors import ErrorCode


def handle(member: ClassicMember, event: Event, now: float) -> list[Effect]:
    """Takes an event, then begins the next step.

    Args:
        member: the member, which changes.
        event: from the application, the coordinator or a timer.
        now: seconds on the driver's clock, never less than before.

    Returns:
        Effects, to be performed in order.
    """
    if member.state is ENDED:
        return []
    turn = Turn()
    turn.now, turn.effects = now, []
    _HANDLERS[type(event)](turn, member, event)
    if member.call is not None or member.state is ENDED:
        pass
    elif member.lost:
        lost, member.lost = member.lost, NOTHING
        turn.call_listener(member, CallKind.LOST, lost)
    elif member.is_leaving:
        leave.leave(turn, member)
    elif member.target is not None:
        sync.take_assignment(turn, member, member.target)
    elif join.is_due(member):
        join.prepare(turn, member)
    return turn.effects


# -- the application


def _subscribed(turn: Turn, member: ClassicMember, event: Subscribed) -> None:
    topics = tuple(dict.fromkeys(event.topics))
    before, member.subscription = member.subscription, topics
    if before is None:
        member.rejoin_for("the consumer subscribes")
        if not member.is_polling:
            turn.restart_poll_timer(member)
    elif set(before) != set(topics):
        member.rejoin_for("the subscription has changed")
    if not member.is_leader:
        member.topics = frozenset(topics)


def _rebalance_enforced(
    _: Turn, member: ClassicMember, event: RebalanceEnforced
) -> None:
    if member.subscription is not None:
        member.rejoin_for(event.reason)


def _metadata_changed(_: Turn, member: ClassicMember, event: MetadataChanged) -> None:
    member.partitions = dict(event.partitions)


# -- the coordinator


_ANSWERED: dict[str, Callable[[Turn, ClassicMember, Any], None]] = {
    "JoinGroup": join.answered,
    "SyncGroup": sync.answered,
    "Heartbeat": heartbeat.answered,
    "MakeAssignment": sync.assignment_made,
    "LeaveGroup": lambda turn, member, _: leave.left(turn, member),
}


def _answered(turn: Turn, member: ClassicMember, event: Answered) -> None:
    """Handles a response; ignores one that is no longer awaited."""
    api = member.settle(event.token)
    if api is not None:
        _ANSWERED[api](turn, member, event.response)


def _failed(turn: Turn, member: ClassicMember, event: Failed) -> None:
    """Handles a request without a response; keeps the membership while possible."""
    api = member.settle(event.token)
    if api is None:
        return
    if api == "LeaveGroup":
        leave.left(turn, member)
    elif not event.is_retriable:
        leave.fail(turn, member, api, 0, event.error)
    elif api == "Heartbeat":
        heartbeat.failed(turn, member)
    elif api == "JoinGroup":
        join.failed(turn, member, was_waiting=event.was_waiting)
    else:
        sync.failed(turn, member)


def _commit_refused(turn: Turn, member: ClassicMember, event: CommitRefused) -> None:
    """Handles the error of a commit, without waiting for the next heartbeat."""
    is_current = event.generation_id == member.generation_id
    if not is_current or member.state not in (COMPLETING_REBALANCE, STABLE):
        return  # about an earlier generation, or a join is under way
    if event.code != ErrorCode.REBALANCE_IN_PROGRESS:
        leave.expelled(turn, member, "OffsetCommit", event.code)
    elif member.state is STABLE:
        member.rejoin_for("the group rebalances")


# -- timers


def _expired(turn: Turn, member: ClassicMember, event: Expired) -> None:
    if event.key == "heartbeat":
        heartbeat.send(turn, member)
    elif event.key == "session":
        heartbeat.session_expired(turn, member)
    elif event.key == "poll":
        heartbeat.poll_expired(turn, member)
    elif member.retry_at is not None and turn.now >= member.retry_at:
        # "retry" and "leave" only need the next step.
        member.retry_at = None


_HANDLERS: dict[type, Callable[[Turn, ClassicMember, Any], None]] = {
    Subscribed: _subscribed,
    Unsubscribed: application.unsubscribed,
    Closed: application.closed,
    RebalanceEnforced: _rebalance_enforced,
    MetadataChanged: _metadata_changed,
    ListenerDone: application.listener_done,
    PollBegan: application.poll_began,
    PollEnded: application.poll_ended,
    Answered: _answered,
    Failed: _failed,
    CommitRefused: _commit_refused,
    Expired: _expired,
}
