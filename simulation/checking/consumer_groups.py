"""Invariants of consumer groups, which hold after every event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import MemberState
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.load import Found, Loading
from kohort.broker.runtime.events import TimerKey
from kohort.simulation.checking.groups import consumer
from kohort.simulation.checking.violation import holds

_REPLAYED: Final = "the log describes the consumer groups as they are"


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
            holds(
                timers.get(member.session_key) == member.armed <= member.deadline,
                "a member has a timer for its session",
            )
            holds(member.is_muted == (member.member_id in muted), "mutes last")
            has_to_revoke = member.state is MemberState.UNREVOKED_PARTITIONS
            holds(has_to_revoke or member.revoke_by is None, "nothing to revoke")
            if member.revoke_by is not None:
                key = ("revoke", group.group_id, member.member_id)
                holds(timers.get(key) == member.revoke_by, "revoking has a timer")


def _check_owners(group: ConsumerGroup) -> None:
    """Checks that no partition has two owners."""
    holders = Counter(held for m in group.members.values() for held in m.holds())
    holds(all(n == 1 for n in holders.values()), "a partition has one owner")
    owners = {(t, p) for t, partitions in group.owners.items() for p in partitions}
    holds(owners == holders.keys(), "the group knows the owners of partitions")
    targets = Counter(
        (topic_id, partition)
        for target in group.targets.values()
        for topic_id, partitions in target
        for partition in partitions
    )
    holds(all(n == 1 for n in targets.values()), "a partition is one member's target")


def _check_epochs(group: ConsumerGroup) -> None:
    latest = group.assignment_epoch
    holds(latest <= group.generation_id, "an assignment has an epoch of the group")
    for member in group.members.values():
        holds(member.epoch <= latest, "a member has an epoch of an assignment")
        for epochs in (member.assigned, member.revoking):
            for since in epochs.values():
                holds(
                    all(each <= latest for each in since.values()),
                    "a partition was assigned in an epoch of an assignment",
                )
    members = group.members.values()
    state = "Stable"
    if not members:
        state = "Empty"
    elif group.assignment_epoch < group.generation_id:
        state = "Assigning"
    elif not all(m.is_reconciled(group.assignment_epoch) for m in members):
        state = "Reconciling"
    holds(group.state == state, f"the group is {state}")


def check_records(groups: Mapping[str, Group], log: Loading) -> None:
    """Checks that the log describes the consumer groups as they are."""
    known = consumer(groups.values())
    for group_id, found in log.found.items():
        holds(bool(found.consumer) == (group_id in known), _REPLAYED)
    for group_id, group in known.items():
        found = log.found.get(group_id, Found())
        holds(
            {*map(_shown, found.consumer.values())} == {*map(_shown, group.records())},
            _REPLAYED,
        )


_BRACKETS: Final = str.maketrans("()", "[]")


def _shown(record: object) -> str:
    """A record as text, whether its sequences are tuples or lists."""
    return repr(record).translate(_BRACKETS).replace(",]", "]")
