"""The member's side of the classic protocol, see `kohort.client.group.membership`.

From a subscription to an assignment:

1. `Subscribed` asks for a join. `join.prepare` has the listener revoke partitions
   that cannot be kept, then sends JoinGroup.
2. The response puts the member into a generation. The leader asks for an assignment
   (`sync.lead`), a follower sends SyncGroup without one; heartbeats begin.
3. The response to SyncGroup brings the target. `sync.take_assignment` has the
   listener revoke partitions that are not in it, then owns it. After a revocation it
   goes back to 1.

Heartbeats, commits, timers and metadata ask for another join (`rejoin_for`) or take
the membership away (`leave.lose`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.client.group import application
from kohort.client.group.classic import heartbeat, join, leave, sync
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import COMPLETING_REBALANCE, STABLE
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


def _subscribed(turn: Turn, member: ClassicMember, event: Subscribed) -> None:
    reason = application.subscribed(turn, member, event)
    if reason is not None:
        member.rejoin_for(reason)
    if not member.is_leader:
        member.topics = frozenset(event.topics)


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


def _proceed(turn: Turn, member: ClassicMember) -> None:
    if join.is_due(member):
        join.prepare(turn, member)


_CLASSIC: Protocol[ClassicMember] = Protocol(
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
    sync.take_assignment,
    _proceed,
)
handle = _CLASSIC.handle
