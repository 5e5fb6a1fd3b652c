"""The target assignment of a group: computed by an assignor when the epoch is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.broker.coordinator.consumer import configs, notices
from kohort.broker.coordinator.consumer.assignors import (
    ASSIGNORS,
    MemberSpec,
    meeting_order,
)
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup, by_topic
from kohort.broker.coordinator.effects import (
    TargetAssignmentRecord,
    TargetMemberRecord,
)
from kohort.broker.coordinator.topics import TopicImage
from kohort.broker.coordinator.turn import Turn

FEW: Final = 1_000
"""Members up to which target assignments follow one another as configured."""
PAUSE_MS: Final = 0.1
"""Shortest time between two target assignments of a larger group, for each member. One
takes 0.03 ms for each: else heartbeats of 50,000 members would do nothing else."""


def is_due(turn: Turn, group: ConsumerGroup) -> bool:
    """Returns whether a heartbeat has to compute a new target assignment.

    After the last one, ``group.consumer.assignment.interval.ms`` has to be over: then
    the next heartbeat of any member computes it. A test may hold the group before that.
    ``group.consumer.assignor.offload.enable`` has no effect in Kafka 4.3.0.
    """
    if group.assignment_epoch >= group.generation_id or turn.is_held(group):
        return False
    interval_ms = configs.assignment_interval_ms(turn.settings, group.group_id)
    if len(group.members) > FEW:
        interval_ms = max(interval_ms, int(len(group.members) * PAUSE_MS))
    if not group.assigned_ms or not interval_ms:
        return True
    return int(turn.now * 1000) >= group.assigned_ms + interval_ms


def compute(
    change: Change, member_id: str, *, is_new: bool, replaced: str | None = None
) -> None:
    """Computes the target assignment of the group epoch, and writes what has changed.

    Args:
        change: the change of a heartbeat.
        member_id: its member.
        is_new: whether the member has come with this heartbeat.
        replaced: the static member whose place it took.
    """
    turn, group = change.turn, change.group
    assignor = group.assignor(group.members[member_id])
    specs: dict[str, MemberSpec] = {}
    topics: dict[bytes, TopicImage] = {}
    # Most members subscribe to the same topics.
    topic_ids: dict[frozenset[str], list[bytes]] = {}
    for each in _in_order(change, member_id, is_new=is_new, replaced=replaced):
        member = group.members[each]
        subscription = group.subscription(member)
        if subscription not in topic_ids:
            images = group.existing(subscription)
            topics.update((image.topic_id, image) for image in images)
            topic_ids[subscription] = [image.topic_id for image in images]
        specs[each] = MemberSpec(
            topic_ids[subscription],
            member.group_instance_id,
            member.says.rack_id,
            dict(group.targets.get(each, ())),
            len(subscription),
        )
    assign = ASSIGNORS[assignor]
    found = assign(specs, topics, homogeneous=group.is_homogeneous())
    for each in [*found, *(specs.keys() - found.keys())]:
        rows = [*found.get(each, {}).items()]
        old = group.targets.get(each)
        if old is None or (rows != old and by_topic(old) != by_topic(rows)):
            change.put(TargetMemberRecord(group.group_id, each, rows))
    made = group.generation_id, int(turn.now * 1000)
    change.put(TargetAssignmentRecord(group.group_id, made))
    group.protocol_name = assignor
    notices.target_computed(turn, group)


def _in_order(
    change: Change, member_id: str, *, is_new: bool, replaced: str | None
) -> Sequence[str]:
    members = change.group.members
    known = [each for each in members if not is_new or each != member_id]
    if replaced is not None and replaced not in members:
        known.append(replaced)
    most = change.most_members
    return meeting_order(known, most, updated=member_id, replaced=replaced)
