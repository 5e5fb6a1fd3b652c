"""The application's side of a member: polls, the listener, the end."""

from __future__ import annotations

from kohort.client.group.effects import CallKind
from kohort.client.group.events import (
    Closed,
    ListenerDone,
    PollBegan,
    PollEnded,
    Subscribed,
    Unsubscribed,
)
from kohort.client.group.member import Member, Partitions
from kohort.client.group.turn import Turn


def subscribed(turn: Turn, member: Member, event: Subscribed) -> str | None:
    """Replaces the subscription; returns the reason to tell the group, None if none."""
    topics = tuple(dict.fromkeys(event.topics))
    before, member.subscription = member.subscription, topics
    if before is None:
        if not member.is_polling:
            turn.restart_poll_timer(member)
        return "the consumer subscribes"
    return None if set(before) == set(topics) else "the subscription has changed"


def unsubscribed(_: Turn, member: Member, __: Unsubscribed) -> None:
    """Has the member leave, as soon as it can."""
    member.subscription = None
    member.unsubscribed = True


def closed(_: Turn, member: Member, event: Closed) -> None:
    """Has the member leave and end; only the first close counts."""
    if member.closed is None:
        member.closed = event


def listener_done(_: Turn, member: Member, event: ListenerDone) -> None:
    """Ends the call; the partitions that were revoked are not owned any more."""
    call = member.call
    if call is None or call.token != event.token:
        return
    member.call = None
    if call.kind is CallKind.REVOKED:
        member.owned -= set(call.partitions)
    if member.is_polling:
        # Even if the call was too slow: the application polls now.
        member.awaits_poll = False


def take_assignment(turn: Turn, member: Member, target: Partitions) -> bool:
    """Revokes partitions that are not in the assignment, then owns it (KIP-429).

    Returns False for a revocation: it is to be called again when that is done.
    """
    revoked = member.owned - target
    if revoked:
        turn.call_listener(member, CallKind.REVOKED, revoked)
        return False
    member.target = None
    added = target - member.owned
    member.owned = target
    turn.call_listener(member, CallKind.ASSIGNED, added)
    return True


# -- max.poll.interval.ms (KIP-62)


def poll_began(turn: Turn, member: Member, _: PollBegan) -> None:
    """Stops the poll timer; a running listener has its own."""
    member.is_polling = True
    member.awaits_poll = False
    if member.call is not None:
        turn.restart_poll_timer(member)


def poll_ended(turn: Turn, member: Member, _: PollEnded) -> None:
    """Starts the poll timer, until the next poll."""
    member.is_polling = False
    turn.restart_poll_timer(member)


def poll_expired(turn: Turn, member: Member) -> str | None:
    """The reason to leave if the application or its listener is stuck, else None."""
    member.poll_armed = False
    is_waiting = member.is_polling and member.call is None
    if is_waiting or member.subscription is None or member.is_leaving:
        return None
    if turn.now < member.poll_deadline:
        member.poll_armed = True
        turn.arm("poll", member.poll_deadline)
        return None
    member.awaits_poll = True
    interval_ms = member.config.max_poll_interval_ms
    what = "the listener took longer than" if member.is_polling else "no poll within"
    return f"{what} max.poll.interval.ms ({interval_ms} ms)"
