"""Power over a consumer group: commands of tests and operators.

A command changes the group through the functions that heartbeats and timers use. It
makes an event ``commanded`` first, then its effects. A command that cannot be performed
changes nothing, and its result says why.
"""

from __future__ import annotations

from typing import Final

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
from kohort.broker.runtime.effects import CommandResult

_DONE = CommandResult()
_ASKED_FOR = "a test asked for it"
"""The reason of a rebalance caused by `Expire`."""
_HOLDABLE: Final = HOLDABLE[ConsumerGroup.type]


def _refuse(turn: Turn, event: Command, why: str) -> None:
    turn.reply(event.token, CommandResult(why))


def _done(turn: Turn, event: Command) -> None:
    """Answers a command when its records are written."""
    turn.reply_after_appends(event.token, _DONE)


# -- members


def kick(turn: Turn, groups: Groups, event: Kick) -> None:
    """Removes a member, which learns of it by its next heartbeat."""
    found = _find(turn, groups, event)
    if found is None:
        return
    group, member = found
    commanded(turn, groups, event, "kick", member.identity, reason=event.reason)
    notices.member_kicked(turn, group, member, "commanded")
    cause = Cause("member_kicked", member.identity, event.reason)
    leave.remove(turn, groups, group, [member], cause)
    _done(turn, event)


def expire(turn: Turn, groups: Groups, event: Expire) -> None:
    """Ends the session of a member."""
    found = _find(turn, groups, event)
    if found is None:
        return
    group, member = found
    commanded(turn, groups, event, "expire", member.identity)
    leave.expire(turn, groups, group, member, _ASKED_FOR)
    _done(turn, event)


def mute(turn: Turn, groups: Groups, event: Mute) -> None:
    """Stops counting a member's heartbeats as signs of life: its session will end."""
    found = _find(turn, groups, event)
    if found is None:
        return
    group, member = found
    if not member.is_muted:
        commanded(turn, groups, event, "mute", member.identity)
        member.is_muted = True
        turn.lasting.mute(group.group_id, member.member_id)
    turn.reply(event.token, _DONE)


def unmute(turn: Turn, groups: Groups, event: Unmute) -> None:
    """Hears a muted member again, as if it had sent a heartbeat now."""
    found = _find(turn, groups, event)
    if found is None:
        return
    group, member = found
    if member.is_muted:
        commanded(turn, groups, event, "unmute", member.identity)
        turn.lasting.unmute(group.group_id, member.member_id)
        member.is_muted = False
        sessions.keep_alive(turn, group, member)
    turn.reply(event.token, _DONE)


def fence(turn: Turn, groups: Groups, event: Fence) -> None:
    """Makes a member's heartbeats fail until it joins again; it keeps its partitions.

    They are its own until it is back: then it is given them anew.
    """
    found = _find(turn, groups, event)
    if found is None:
        return
    _, member = found
    commanded(turn, groups, event, "fence", member.identity)
    member.is_fenced = True
    turn.reply(event.token, _DONE)


def hold_member(turn: Turn, groups: Groups, event: HoldMember) -> None:
    """Keeps a member at its partitions and its epoch; its heartbeats are answered."""
    found = _find(turn, groups, event)
    if found is None:
        return
    group, member = found
    commanded(turn, groups, event, "hold_member", member.identity)
    turn.lasting.hold_member(group.group_id, member.member_id)
    turn.reply(event.token, _DONE)


def release_member(turn: Turn, groups: Groups, event: ReleaseMember) -> None:
    """Lets a member go on with its next heartbeat."""
    found = _find(turn, groups, event)
    if found is None:
        return
    group, member = found
    if turn.lasting.is_reconciled(group.group_id, member.member_id):
        _refuse(turn, event, "the member's reconciliation is not held")
        return
    commanded(turn, groups, event, "release_member", member.identity)
    turn.lasting.release_member(group.group_id, member.member_id)
    turn.reply(event.token, _DONE)


def _find(
    turn: Turn, groups: Groups, event: MemberCommand
) -> tuple[ConsumerGroup, Member] | None:
    """Returns the group and the member of a command; refuses it if one is missing."""
    group = find(groups, event.group_id)
    if group is None and event.group_id in groups:
        _refuse(turn, event, "it is a classic group; its members have no epochs")
        return None
    member = None if group is None else group.members.get(event.member_id)
    if group is None or member is None:
        _refuse(turn, event, f"there is no member {event.member_id!r}")
        return None
    return group, member


# -- the group


def trigger(turn: Turn, groups: Groups, event: TriggerRebalance) -> None:
    """Starts a new group epoch; the next heartbeat computes a new target assignment."""
    group = find(groups, event.group_id)
    if group is None or not group.members:
        _refuse(turn, event, "a group without members cannot rebalance")
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
    limits, max_size = turn.lasting.max_sizes, event.max_size
    if max_size is not None and max_size < 1:
        _refuse(turn, event, f"a limit of {max_size} members: it must be at least 1")
        return
    commanded(turn, groups, event, "limit", max_size=max_size)
    if max_size is None:
        limits.pop(event.group_id, None)
    else:
        limits[event.group_id] = max_size
    turn.reply(event.token, _DONE)


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
        _refuse(turn, event, why)
        return
    commanded(turn, groups, event, "hold", held_in=state.value)
    turn.lasting.holds[event.group_id] = state
    turn.reply(event.token, _DONE)


def release(turn: Turn, groups: Groups, event: ReleaseGroup) -> None:
    """Lets a held group go on with its next heartbeats."""
    before = turn.lasting.holds.pop(event.group_id, None)
    if before is None:
        _refuse(turn, event, "the group is not held")
        return
    commanded(turn, groups, event, "release", held_in=before.value)
    turn.reply(event.token, _DONE)
