"""Invariants of consumer groups, which hold after every event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.classic_groups import consumer

from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import MemberState
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.load import Found, Loading
from kohort.broker.runtime.events import TimerKey


def check_consumer_groups(
    coordinator: Coordinator, timers: Mapping[TimerKey, float]
) -> None:
    """Checks all consumer groups of a coordinator, and its timers."""
    groups = consumer(coordinator.groups.values())
    for group in groups.values():
        _check_owners(group)
        _check_epochs(group)
        muted = coordinator.lasting.muted.get(group.group_id, ())
        for member in group.members.values():
            assert timers[member.session_key] == member.armed <= member.deadline
            assert member.is_muted == (member.member_id in muted)
            has_to_revoke = member.state is MemberState.UNREVOKED_PARTITIONS
            if not has_to_revoke:
                assert member.revoke_by is None
            if member.revoke_by is not None:
                key = ("revoke", group.group_id, member.member_id)
                assert timers[key] == member.revoke_by


def _check_owners(group: ConsumerGroup) -> None:
    """Checks that no partition has two owners."""
    holders = Counter(held for m in group.members.values() for held in m.holds())
    assert all(count == 1 for count in holders.values()), "one owner per partition"
    owners = {(t, p) for t, partitions in group.owners.items() for p in partitions}
    assert owners == holders.keys()
    targets = Counter(
        (topic_id, partition)
        for target in group.targets.values()
        for topic_id, partitions in target
        for partition in partitions
    )
    assert all(count == 1 for count in targets.values()), "one target per partition"


def _check_epochs(group: ConsumerGroup) -> None:
    assert group.assignment_epoch <= group.generation_id
    for member in group.members.values():
        assert member.epoch <= group.assignment_epoch
        for epochs in (member.assigned, member.revoking):
            for since in epochs.values():
                assert all(each <= group.assignment_epoch for each in since.values())
    members = group.members.values()
    state = "Stable"
    if not members:
        state = "Empty"
    elif group.assignment_epoch < group.generation_id:
        state = "Assigning"
    elif not all(m.is_reconciled(group.assignment_epoch) for m in members):
        state = "Reconciling"
    assert group.state == state


def check_records(groups: Mapping[str, Group], log: Loading) -> None:
    """Checks that the log describes the consumer groups as they are."""
    known = consumer(groups.values())
    for group_id, found in log.found.items():
        assert bool(found.consumer) == (group_id in known)
    for group_id, group in known.items():
        found = log.found.get(group_id, Found())
        assert {*map(repr, found.consumer.values())} == {*map(repr, group.records())}
