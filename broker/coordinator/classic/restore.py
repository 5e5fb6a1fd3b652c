"""Restores groups that a coordinator finds in its log."""

from __future__ import annotations

from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.classic import notices, rebalance, removal, sessions
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import NEVER
from kohort.broker.coordinator.effects import GroupRecord
from kohort.broker.coordinator.turn import Turn


def restore(turn: Turn, group_id: str, record: GroupRecord | None) -> ClassicGroup:
    """Makes a group from its record; every member's session starts now.

    A group with more members than group.max.size, which may have changed meanwhile,
    rebalances at once (KIP-389). That removes no member yet: the limit applies to the
    members that rejoin.

    Args:
        turn: collects the effects.
        group_id: its id.
        record: None for a group that has only ever had offsets.
    """
    group = ClassicGroup(group_id, turn.now)
    if record is not None:
        group.restore(record)
    notices.group_loaded(turn, group)
    for member in group.ordered():
        sessions.keep_alive(turn, member, member.session_timeout)
    for member_id in [*turn.lasting.muted.get(group_id, ())]:
        # Its session begins with the load, like all sessions; after that it is not
        # heard.
        if member_id in group.members:
            group.members[member_id].is_muted = True
        else:
            turn.lasting.unmute(group_id, member_id)
    if len(group.members) > turn.max_size(group):
        rebalance.prepare(turn, group, Cause("group_over_max_size"))
    return group


def undone(turn: Turn, group: ClassicGroup, change: GroupChange, error: int) -> None:
    """Follows an undone change: a group that changed its protocol is back."""
    removal.undone(turn, group, change, error)
    if change.was_replaced:
        sessions.keep_all_alive(turn, group.ordered())
        for member in group.ordered():
            if member.armed == NEVER:
                # A muted one: its session goes on.
                member.armed = member.deadline = max(turn.now, member.deadline)
                turn.arm(member.session_key, member.armed)
        rebalance.go_on(turn, group)
