"""Power over a group: commands of tests and operators.

A command changes the group through the functions that requests and timers use. It makes
an event ``commanded`` first, then its effects. A command that cannot be performed
changes nothing, and its result says why.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from kohort.broker.coordinator.classic import (
    leave,
    notices,
    rebalance,
    sessions,
    sync,
    waiting,
)
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup, find
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.classic.removal import remove, remove_pending
from kohort.broker.coordinator.commands import DONE, refuse, set_limit
from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import (
    Expire,
    HoldGroup,
    Kick,
    LimitGroup,
    MemberCommand,
    Mute,
    ReleaseGroup,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.notices import commanded
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    HOLDABLE,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Who
from kohort.protocol.errors import ErrorCode

_UNKNOWN = SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)

_HOLDABLE: Final = HOLDABLE[ClassicGroup.type]
_ASKED_FOR = "a test asked for it"
"""The reason of a rebalance caused by `Expire`."""


# -- members


def kick(turn: Turn, groups: Groups, event: Kick) -> None:
    """Removes a member, or a pending member, and rebalances."""
    group, who = _find(turn, groups, event)
    if group is None or who is None:
        return
    commanded(turn, groups, event, "kick", who, reason=event.reason)
    member = group.members.get(event.member_id)
    heard = turn.now if member is None else sessions.last_heard(turn, member)
    notices.member_kicked(
        turn, group, who, "commanded", heard, was_pending=member is None
    )
    if member is None:
        turn.disarm(("session", group.group_id, event.member_id))
        remove_pending(turn, group, event.member_id)
    else:
        waiting.answer_sync(turn, member, _UNKNOWN)
        remove(turn, group, member)
    if group.state is not EMPTY:
        cause = Cause("member_kicked", who, event.reason)
        rebalance.prepare_or_complete(turn, group, cause)
    turn.reply(event.token, DONE)


def expire(turn: Turn, groups: Groups, event: Expire) -> None:
    """Ends the session of a member, or of a pending member."""
    group, who = _find(turn, groups, event)
    if group is None or who is None:
        return
    commanded(turn, groups, event, "expire", who)
    member = group.members.get(event.member_id)
    if member is None:
        turn.disarm(("session", group.group_id, event.member_id))
        leave.expire_pending(turn, group, who)
    else:
        waiting.answer_sync(turn, member, _UNKNOWN)
        leave.expire(turn, group, member, _ASKED_FOR)
    turn.reply(event.token, DONE)


def mute(turn: Turn, groups: Groups, event: Mute) -> None:
    """Stops counting anything that a member sends as a sign of life.

    A waiting join or sync of it does not count either: the group goes on waiting for
    this member, until its session ends.
    """
    group, who = _find(turn, groups, event)
    if group is None or who is None:
        return
    member = group.members.get(event.member_id)
    if member is None:
        refuse(turn, event, "a pending member cannot be muted: it has no session")
        return
    if not member.is_muted:
        commanded(turn, groups, event, "mute", who)
        _mute(turn, group, member)
    turn.reply(event.token, DONE)


def _mute(turn: Turn, group: ClassicGroup, member: Member) -> None:
    if member.satisfies_heartbeat:
        # It was alive until now; its timer may have fired and been ignored.
        sessions.keep_alive(turn, member, member.session_timeout)
    elif member.has_joined:
        _keep_newcomer(turn, member)
    if member.join_token is not None:
        group.awaiting_join -= 1
    if member.sync_token is not None:
        rebalance.wait_for_sync(turn, group, member)
    member.is_muted = True
    turn.lasting.mute(group.group_id, member.member_id)


def unmute(turn: Turn, groups: Groups, event: Unmute) -> None:
    """Hears a muted member again, as if it had given a sign of life now."""
    group, who = _find(turn, groups, event)
    if group is None or who is None:
        return
    member = group.members.get(event.member_id)
    if member is not None and member.is_muted:
        commanded(turn, groups, event, "unmute", who)
        turn.lasting.unmute(group.group_id, member.member_id)
        member.is_muted = False
        if not member.is_new:
            sessions.keep_alive(turn, member, member.session_timeout)
        if member.join_token is not None:
            group.awaiting_join += 1
        if member.sync_token is not None or group.state is STABLE:
            # In Stable it may have got its assignment while it was muted.
            sync.has_synced(turn, group, member.member_id)
        _go_on(turn, group)
    turn.reply(event.token, DONE)


def _find(
    turn: Turn, groups: Groups, event: MemberCommand
) -> tuple[ClassicGroup | None, Who | None]:
    """Returns the group and the member of a command; refuses it if one is missing."""
    group = find(groups, event.group_id)
    if group is not None:
        member = group.members.get(event.member_id)
        if member is not None:
            return group, member.identity
        pending = group.pending_members.get(event.member_id)
        if pending is not None:
            return group, pending.identity
    refuse(turn, event, f"there is no member {event.member_id!r}")
    return None, None


# -- the group


def trigger(turn: Turn, groups: Groups, event: TriggerRebalance) -> None:
    """Starts a rebalance."""
    group = find(groups, event.group_id)
    if group is None or not group.members:
        refuse(turn, event, "a group without members cannot rebalance")
        return
    if group.state is PREPARING_REBALANCE:
        refuse(turn, event, "the group is in PreparingRebalance already")
        return
    commanded(turn, groups, event, "rebalance", reason=event.reason)
    rebalance.prepare(turn, group, Cause("requested", None, event.reason))
    turn.reply(event.token, DONE)


def limit(turn: Turn, groups: Groups, event: LimitGroup) -> None:
    """Gives a group a limit in place of ``group.max.size``, or removes the limit.

    A group over its limit rebalances at once, as a loaded group does (KIP-389). The
    next generation keeps within the limit.
    """
    if not set_limit(turn, groups, event):
        return
    group = find(groups, event.group_id)
    if (
        group is not None
        and group.state in (STABLE, COMPLETING_REBALANCE)
        and len(group.members) > turn.max_size(group)
    ):
        most = turn.max_size(group)
        members = "1 member" if most == 1 else f"{most} members"
        reason = f"a test limited the group to {members}"
        rebalance.prepare(turn, group, Cause("group_over_max_size", None, reason))
    turn.reply(event.token, DONE)


# -- holds


def hold(turn: Turn, groups: Groups, event: HoldGroup) -> None:
    """Holds a group in a state: from now on, or as soon as it is in that state.

    A group that does not exist yet may be of any protocol. A hold in another state
    replaces an existing one: the group goes on to that state.
    """
    group = find(groups, event.group_id)
    state = event.state
    if state is None:
        is_holdable = group is not None and group.state in _HOLDABLE
        state = group.state if group and is_holdable else PREPARING_REBALANCE
    holdable = _HOLDABLE if group is not None else (*chain(*HOLDABLE.values()),)
    if state not in holdable:
        states = " or ".join(_HOLDABLE)
        refuse(turn, event, f"a group can be held in {states}, not in {state}")
        return
    commanded(turn, groups, event, "hold", held_in=state.value)
    before = turn.lasting.holds.get(event.group_id)
    if before is not state:
        turn.lasting.holds[event.group_id] = state
        if group is not None:
            _change_hold(turn, group, before)
    turn.reply(event.token, DONE)


def release(turn: Turn, groups: Groups, event: ReleaseGroup) -> None:
    """Lets a held group go on: at once if nothing is missing, else its timers run."""
    before = turn.lasting.holds.get(event.group_id)
    if before is None:
        refuse(turn, event, "the group is not held")
        return
    commanded(turn, groups, event, "release", held_in=before.value)
    del turn.lasting.holds[event.group_id]
    group = find(groups, event.group_id)
    if group is not None:
        _change_hold(turn, group, before)
    turn.reply(event.token, DONE)


def _change_hold(turn: Turn, group: ClassicGroup, before: GroupState | None) -> None:
    if turn.is_held(group):
        rebalance.stop_timer(turn, group)
        # All members may have left while the initial window was open.
        rebalance.try_complete_join(turn, group)
    elif group.state is before:
        rebalance.go_on(turn, group)
        for member in group.members.values():
            if member.is_new and member.has_joined:
                _keep_newcomer(turn, member)
        _go_on(turn, group)


def _go_on(turn: Turn, group: ClassicGroup) -> None:
    """Ends the group's phase if nothing is missing and no hold keeps it."""
    if group.state is PREPARING_REBALANCE:
        rebalance.try_complete_join(turn, group)
    elif group.state is COMPLETING_REBALANCE:
        sync.store_assignments(turn, group)


def _keep_newcomer(turn: Turn, member: Member) -> None:
    """Gives a new member the full time again that its join may wait."""
    sessions.keep_alive(turn, member, turn.settings.new_member_join_timeout_ms / 1000)
