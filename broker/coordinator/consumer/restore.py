"""Restores consumer groups that a coordinator finds in its log."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.consumer import configs, notices, sessions
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.reconcile import time_revocation
from kohort.broker.coordinator.consumer.surroundings import Surroundings
from kohort.broker.coordinator.effects import (
    ConsumerMemberRecord,
    ConsumerRecord,
)
from kohort.broker.coordinator.turn import Turn


def restore(
    turn: Turn,
    group_id: str,
    records: Sequence[ConsumerRecord],
    *,
    around: Surroundings,
) -> ConsumerGroup:
    """Makes a group from its records; every member's timers start now.

    Args:
        turn: collects the effects.
        group_id: its id.
        records: the latest of each kind and name, in the order of the log.
        around: the surroundings of the room.
    """
    group = around.new_group(turn, group_id)
    for record in records:
        group.replay(record)
    group.previous_state, group.listed = group.state, (*group.targets,)
    group.protocol_name = group.assignor()
    notices.group_loaded(turn, group)
    timeout_ms = configs.session_timeout_ms(turn.settings, group_id)
    for member in group.members.values():
        # Also for members of the classic protocol, as in Kafka.
        sessions.restart(turn, member, timeout_ms)
        time_revocation(turn, group, member)
    for member_id in [*turn.lasting.muted.get(group_id, ())]:
        # Its session begins with the load; after that it is not heard.
        if member_id in group.members:
            group.members[member_id].is_muted = True
        else:
            turn.lasting.unmute(group_id, member_id)
    return group


def undone(turn: Turn, group: ConsumerGroup, change: GroupChange, error: int) -> None:
    """Follows an undone change: members that are back have timers again."""
    del error
    for record in change.undo:
        if (
            type(record) is ConsumerMemberRecord
            and record.value is None
            and record.member_id not in group.members
            # Else the group that replaced it had the timer.
            and not change.was_replaced
        ):
            turn.disarm(("session", group.group_id, record.member_id))
    if change.was_made:
        for key in group.stop_timers():
            turn.disarm(key)
        return
    group.is_stale = group.has_stale_patterns = True
    sessions.resume(turn, group)
    for member in group.members.values():
        if member.has_to_revoke != (member.revoke_by is not None):
            time_revocation(turn, group, member)
