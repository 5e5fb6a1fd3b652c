"""From a consumer group to a classic one, when all its members use that protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kohort.broker.coordinator.classic import rebalance
from kohort.broker.coordinator.classic import sessions as classic_sessions
from kohort.broker.coordinator.classic.cause import Cause as ClassicCause
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member as ClassicMember
from kohort.broker.coordinator.consumer import notices, sessions
from kohort.broker.coordinator.consumer.cause import Cause
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import NEVER, Member
from kohort.broker.coordinator.effects import TopicPartitions
from kohort.broker.coordinator.migration import assignments
from kohort.broker.coordinator.notices import group_converted, group_state
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Who

_POLICIES = ("downgrade", "bidirectional")


def downgrade(
    turn: Turn,
    group: ConsumerGroup,
    leaving: Sequence[Member],
    cause: Cause,
    *,
    groups: Groups,
) -> bool:
    """Makes a consumer group a classic one in place of removing members, if it may.

    Args:
        turn: the turn.
        group: the group.
        leaving: the members to be removed.
        cause: the cause of their removal, and of the rebalance that follows.
        groups: the coordinator's groups.

    Returns:
        Whether it did so: no member of the consumer protocol would be left.
    """
    gone = {member.member_id for member in leaving}
    classic = group.classic_members - sum(each.is_classic for each in leaving)
    left = len(group.members) - len(gone)
    if classic != left or not left or not is_open(turn, left):
        return False
    change = Change(turn, groups, group)
    order = group.ordered_ids()
    for member in leaving:
        sessions.end(turn, group, member)
        held = frozenset(member.holds())
        if held:
            notices.partitions_gone(turn, group, member, held)
    members = [group.members[each] for each in order if each not in gone]
    begun = ClassicCause(cause.kind, cause.who, cause.reason, cause.culprits)
    convert(
        change, members, group.generation_id, group.targets, order, cause.who, begun
    )
    return True


def is_open(turn: Turn, members: int) -> bool:
    """Returns whether a group of this size may become a classic one."""
    settings = turn.settings
    return (
        settings.consumer_migration_policy in _POLICIES and members <= settings.max_size
    )


def convert(
    change: Change,
    members: Collection[Member],
    generation_id: int,
    targets: Mapping[str, TopicPartitions],
    order: Sequence[str],
    who: Who | None,
    cause: ClassicCause | None,
) -> None:
    """Ends a change of a consumer group: it is a Stable classic one from now on.

    Args:
        change: the change.
        members: the members of the new group, in the order in which they come.
        generation_id: its generation.
        targets: their assignments.
        order: the members of the old group in the order of their tombstones.
        who: the last member of the consumer protocol.
        cause: the cause of the rebalance that follows; None if there is none.
    """
    turn, old = change.turn, change.group
    new = ClassicGroup(old.group_id, turn.now)
    new.take_over(generation_id, [_downgraded(old, member) for member in members])
    for each in new.ordered():
        metadata = each.metadata(new.protocol_name)
        target = dict(targets.get(each.member_id, ()))
        each.assignment = assignments.encoded(target, old.topics, metadata)
        each.owned = each.assignment
    for member in old.members.values():
        _end_timers(turn, old, member)
    classic_sessions.keep_all_alive(turn, new.ordered())
    muted = turn.lasting.muted.get(old.group_id, ())
    for each in new.ordered():
        each.is_muted = each.member_id in muted
    new.previous_state = old.state
    group_converted(turn, new, who, "downgraded")
    group_state(turn, new)
    record = new.record()
    if cause is not None:
        change.withdraw_epoch()
        rebalance.prepare(turn, new, cause)
    # At the end: all notices wait for the records.
    change.end_as(new, record, order, is_rebalance=cause is not None)


def _downgraded(group: ConsumerGroup, member: Member) -> ClassicMember:
    says = member.says
    assert says.classic is not None
    session_timeout_ms, protocols = says.classic
    return ClassicMember(
        group.group_id,
        member.member_id,
        says.group_instance_id,
        member.client,
        session_timeout_ms,
        says.rebalance_timeout_ms,
        (*protocols,),
    )


def _end_timers(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Ends a member's timers; the classic group arms that of its session."""
    sessions.has_rejoined(turn, group, member)
    sessions.has_synced(turn, group, member)
    if member.revoke_by is not None:
        member.revoke_by = None
        turn.disarm(("revoke", group.group_id, member.member_id))
    member.armed = NEVER
