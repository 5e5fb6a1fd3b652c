"""Power over a consumer group: commands of tests and operators.

A command changes the group through the functions that heartbeats and timers use. It
makes an event ``commanded`` first, then its effects. A command that cannot be performed
changes nothing, and its result says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kohort.broker.coordinator.commands import DONE, refuse, set_limit
from kohort.broker.coordinator.consumer import leave, notices, sessions
from kohort.broker.coordinator.consumer.cause import Cause
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup, find
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.events import (
    Command,
    Expire,
    Fence,
    HoldGroup,
    HoldMember,
    Kick,
    LimitGroup,
    MemberCommand,
    Mute,
    ReleaseGroup,
    ReleaseMember,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.notices import commanded
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.state import ASSIGNING, HOLDABLE
from kohort.broker.coordinator.turn import Turn

E = TypeVar("E", bound=MemberCommand)
_ASKED_FOR = "a test asked for it"
"""The reason of a rebalance caused by `Expire`."""
_HOLDABLE: Final = HOLDABLE[ConsumerGroup.type]


def _done(turn: Turn, event: Command) -> None:
    """Answers a command when its records are written."""
    turn.reply_after_appends(event.token, DONE)


# -- members


def _of_member(
    perform: Callable[[Turn, Groups, E, ConsumerGroup, Member], None],
) -> Callable[[Turn, Groups, E], None]:
    """A command about a member; refused if the group or the member is missing."""

    def command(turn: Turn, groups: Groups, event: E) -> None:
        group = find(groups, event.group_id)
        if group is None and event.group_id in groups:
            refuse(turn, event, "it is a classic group; its members have no epochs")
            return
        member = None if group is None else group.members.get(event.member_id)
        if group is None or member is None:
            refuse(turn, event, f"there is no member {event.member_id!r}")
            return
        perform(turn, groups, event, group, member)

    return command


@_of_member
def kick(
    turn: Turn, groups: Groups, event: Kick, group: ConsumerGroup, member: Member
) -> None:
    """Removes a member, which learns of it by its next heartbeat."""
    commanded(turn, groups, event, "kick", member.identity, reason=event.reason)
    notices.member_kicked(turn, group, member, "commanded")
    cause = Cause("member_kicked", member.identity, event.reason)
    leave.remove(turn, groups, group, [member], cause)
    _done(turn, event)


@_of_member
def expire(
    turn: Turn, groups: Groups, event: Expire, group: ConsumerGroup, member: Member
) -> None:
    """Ends the session of a member."""
    commanded(turn, groups, event, "expire", member.identity)
    leave.expire(turn, groups, group, member, _ASKED_FOR)
    _done(turn, event)


@_of_member
def mute(
    turn: Turn, groups: Groups, event: Mute, group: ConsumerGroup, member: Member
) -> None:
    """Stops counting a member's heartbeats as signs of life: its session will end."""
    if not member.is_muted:
        commanded(turn, groups, event, "mute", member.identity)
        member.is_muted = True
        turn.lasting.mute(group.group_id, member.member_id)
    turn.reply(event.token, DONE)


@_of_member
def unmute(
    turn: Turn, groups: Groups, event: Unmute, group: ConsumerGroup, member: Member
) -> None:
    """Hears a muted member again, as if it had sent a heartbeat now."""
    if member.is_muted:
        commanded(turn, groups, event, "unmute", member.identity)
        turn.lasting.unmute(group.group_id, member.member_id)
        member.is_muted = False
        sessions.keep_alive(turn, group, member)
    turn.reply(event.token, DONE)


@_of_member
def fence(
    turn: Turn, groups: Groups, event: Fence, group: ConsumerGroup, member: Member
) -> None:
    """Makes a member's heartbeats fail until it joins again; it keeps its partitions.

    They are its own until it is back: then it is given them anew.
    """
    del group
    commanded(turn, groups, event, "fence", member.identity)
    member.is_fenced = True
    turn.reply(event.token, DONE)


@_of_member
def hold_member(
    turn: Turn, groups: Groups, event: HoldMember, group: ConsumerGroup, member: Member
) -> None:
    """Keeps a member at its partitions and its epoch; its heartbeats are answered."""
    commanded(turn, groups, event, "hold_member", member.identity)
    turn.lasting.hold_member(group.group_id, member.member_id)
    turn.reply(event.token, DONE)


@_of_member
def release_member(
    turn: Turn,
    groups: Groups,
    event: ReleaseMember,
    group: ConsumerGroup,
    member: Member,
) -> None:
    """Lets a member go on with its next heartbeat."""
    if not turn.lasting.is_member_held(group.group_id, member.member_id):
        refuse(turn, event, "the member is not held")
        return
    commanded(turn, groups, event, "release_member", member.identity)
    turn.lasting.release_member(group.group_id, member.member_id)
    turn.reply(event.token, DONE)


# -- the group


def trigger(turn: Turn, groups: Groups, event: TriggerRebalance) -> None:
    """Starts a new group epoch; the next heartbeat computes a new target assignment."""
    group = find(groups, event.group_id)
    if group is None or not group.members:
        refuse(turn, event, "a group without members cannot rebalance")
        return
    commanded(turn, groups, event, "rebalance", reason=event.reason)
    change = Change(turn, groups, group)
    change.bump(Cause("requested", None, event.reason))
    change.end()
    _done(turn, event)


def limit(turn: Turn, groups: Groups, event: LimitGroup) -> None:
    """Gives a group a limit in place of ``group.consumer.max.size``, or removes it.

    As in Kafka, a group over its limit keeps its members; it admits no others.
    """
    if not set_limit(turn, groups, event):
        return
    turn.reply(event.token, DONE)


# -- holds


def hold(turn: Turn, groups: Groups, event: HoldGroup) -> None:
    """Holds a group in a state: from now on, or as soon as it is in that state.

    In Assigning no target assignment is computed. In Reconciling no member gets or
    gives up partitions. Heartbeats are answered as before, and sessions run.
    """
    group = find(groups, event.group_id)
    state = event.state
    if state is None:
        is_holdable = group is not None and group.state in _HOLDABLE
        state = group.state if group is not None and is_holdable else ASSIGNING
    if state not in _HOLDABLE:
        states = " or ".join(_HOLDABLE)
        why = f"a consumer group can be held in {states}, not in {state}"
        refuse(turn, event, why)
        return
    commanded(turn, groups, event, "hold", held_in=state.value)
    turn.lasting.holds[event.group_id] = state
    turn.reply(event.token, DONE)


def release(turn: Turn, groups: Groups, event: ReleaseGroup) -> None:
    """Lets a held group go on with its next heartbeats."""
    before = turn.lasting.holds.pop(event.group_id, None)
    if before is None:
        refuse(turn, event, "the group is not held")
        return
    commanded(turn, groups, event, "release", held_in=before.value)
    turn.reply(event.token, DONE)
