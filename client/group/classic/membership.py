"""The member's side of the group protocol: takes events, returns effects.

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

Heartbeats, commits, timers and metadata ask for another join (`Member.rejoin_for`)
or take the membership away (`leave.lose`). After each event `handle` begins the next
step, so that the order is always the same: the running call of the listener, lost
partitions, leaving, a new assignment, a join.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.client.group.classic import heartbeat, join, leave, sync
from kohort.client.group.classic.member import NOTHING, Member
from kohort.client.group.classic.state import COMPLETING_REBALANCE, ENDED, STABLE
from kohort.client.group.effects import CallKind, Effect
from kohort.client.group.events import (
    Answered,
    AssignmentFailed,
    AssignmentMade,
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
from kohort.client.group.turn import Turn
from kohort.protocol.errors import ErrorCode


def handle(member: Member, event: Event, now: float) -> list[Effect]:
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
    elif member.closed is not None or member.unsubscribed or member.has_failed:
        leave.leave(turn, member)
    elif member.target is not None:
        sync.take_assignment(turn, member, member.target)
    elif join.is_due(member):
        join.prepare(turn, member)
    return turn.effects


# -- the application


def _subscribed(turn: Turn, member: Member, event: Subscribed) -> None:
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


def _unsubscribed(_: Turn, member: Member, __: Unsubscribed) -> None:
    member.subscription = None
    member.rejoin_reason = None
    member.unsubscribed = True


def _closed(_: Turn, member: Member, event: Closed) -> None:
    if member.closed is None:
        member.closed = event


def _rebalance_enforced(_: Turn, member: Member, event: RebalanceEnforced) -> None:
    if member.subscription is not None:
        member.rejoin_for(event.reason)


def _metadata_changed(_: Turn, member: Member, event: MetadataChanged) -> None:
    member.partitions = dict(event.partitions)


def _listener_done(_: Turn, member: Member, event: ListenerDone) -> None:
    call = member.call
    if call is None or call.token != event.token:
        return
    member.call = None
    if call.kind is CallKind.REVOKED:
        member.owned -= set(call.partitions)
    if member.is_polling:
        # Even if the call was too slow: the application polls now.
        member.awaits_poll = False


# -- the coordinator


_ANSWERED: dict[str, Callable[[Turn, Member, Any], None]] = {
    "JoinGroup": join.answered,
    "SyncGroup": sync.answered,
    "Heartbeat": heartbeat.answered,
    "LeaveGroup": lambda turn, member, _: leave.left(turn, member),
}


def _answered(turn: Turn, member: Member, event: Answered) -> None:
    """Handles a response; ignores one that is no longer awaited."""
    api = member.settle(event.token)
    if api is not None:
        _ANSWERED[api](turn, member, event.response)


def _failed(turn: Turn, member: Member, event: Failed) -> None:
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


def _commit_refused(turn: Turn, member: Member, event: CommitRefused) -> None:
    """Handles the error of a commit, without waiting for the next heartbeat."""
    is_current = event.generation_id == member.generation_id
    if not is_current or member.state not in (COMPLETING_REBALANCE, STABLE):
        return  # about an earlier generation, or a join is under way
    if event.code != ErrorCode.REBALANCE_IN_PROGRESS:
        leave.expelled(turn, member, "OffsetCommit", event.code)
    elif member.state is STABLE:
        member.rejoin_for("the group rebalances")


# -- timers


def _expired(turn: Turn, member: Member, event: Expired) -> None:
    if event.key == "heartbeat":
        heartbeat.send(turn, member)
    elif event.key == "session":
        heartbeat.session_expired(turn, member)
    elif event.key == "poll":
        heartbeat.poll_expired(turn, member)
    elif member.retry_at is not None and turn.now >= member.retry_at:
        # "retry" and "leave" only need the next step.
        member.retry_at = None


_HANDLERS: dict[type, Callable[[Turn, Member, Any], None]] = {
    Subscribed: _subscribed,
    Unsubscribed: _unsubscribed,
    Closed: _closed,
    RebalanceEnforced: _rebalance_enforced,
    MetadataChanged: _metadata_changed,
    ListenerDone: _listener_done,
    PollBegan: heartbeat.poll_began,
    PollEnded: heartbeat.poll_ended,
    Answered: _answered,
    Failed: _failed,
    CommitRefused: _commit_refused,
    AssignmentMade: sync.assignment_made,
    AssignmentFailed: sync.assignment_failed,
    Expired: _expired,
}
