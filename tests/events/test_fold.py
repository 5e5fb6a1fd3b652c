"""The folded stream of events equals the coordinator's state, always.

Clients, an admin, the network and the coordinator's process do anything, as in
tests/coordinator/test_machine.py. The folded events are compared with the coordinator
after each of its turns. At the end, the accounts of rebalances are compared with a
plain reading of the events and with the metrics.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from tests.coordinator.consumer.test_machine import ConsumerMachine
from tests.coordinator.context import Context
from tests.coordinator.migration.test_machine import MigrationMachine
from tests.coordinator.test_machine import Clients
from tests.events.checks import check
from tests.events.folding import Fold, Known, Parts
from tests.events.test_account import check_accounts
from tests.events.test_metrics_agree import compare

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.protocol.consumer import assigned_partitions

FACTOR = 5
"""More sequences than other tests have examples: 375 in the profile "ci"."""


class Watched(Context):
    """A coordinator whose folded events are compared with its state."""

    def __init__(self, **options: Any) -> None:
        self.fold = Fold()
        self._told = 0
        # What members were assigned by the last leader that assigned, by group, and
        # by instance id or member id.
        self._owned: dict[str, dict[str, Parts]] = {}
        super().__init__(**options)

    def _check(self) -> None:
        super()._check()
        news = self.events(self._told)
        self._told += len(news)
        for event in news:
            check(event)
            self.fold.take(event)
        groups = self.groups
        assert self.fold.groups.keys() == groups.keys()
        for group_id, group in groups.items():
            known = self.fold.groups[group_id]
            assert _facts(known) == _had(group)
            is_new = group.state == "Stable" or any(
                event["kind"] == "group_loaded" and event["group"] == group_id
                for event in news
            )
            assert known.owned == self._ownership(group, is_new=is_new)

    def _ownership(self, group: ClassicGroup, *, is_new: bool) -> dict[str, Parts]:
        """Members own their last assignments, unless they rebalance."""
        members = {m.group_instance_id or i: m for i, m in group.members.items()}
        if is_new:
            owned = {
                name: assigned_partitions(member.assignment)
                for name, member in members.items()
            }
        else:
            before = self._owned.get(group.group_id, {})
            owned = {name: before.get(name, set()) for name in members}
        self._owned[group.group_id] = owned
        return {members[name].member_id: each for name, each in owned.items() if each}


def _facts(known: Known) -> dict[str, Any]:
    return {
        "state": known.state,
        "generation": known.generation,
        "members": sorted(known.members),
        "leader": known.leader,
        "protocol": known.protocol,
        "pending": known.pending,
        "offsets": known.offsets,
    }


def _had(group: ClassicGroup) -> dict[str, Any]:
    return {
        "state": group.state,
        "generation": group.generation_id,
        "members": sorted(group.members),
        "leader": group.leader,
        "protocol": group.protocol_name,
        "pending": group.pending_members.keys(),
        "offsets": {key: entry[0] for key, entry in group.offsets.items()},
    }


class Folded(Clients):
    """The same clients, watched."""

    make = Watched

    def teardown(self) -> None:
        """After everything has settled down."""
        super().teardown()
        if hasattr(self, "context"):
            check_accounts(self.context)
            compare(self.context)


TestFolded = Folded.TestCase
TestFolded.settings = settings(
    max_examples=settings().max_examples * FACTOR,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class ComparedConsumers(ConsumerMachine):
    """Consumer groups (KIP-848), whose metrics agree with their accounts."""

    def teardown(self) -> None:
        """After everything has settled down."""
        super().teardown()
        compare(self.scene)


class ComparedMigrations(MigrationMachine):
    """The same with groups that change their protocol."""

    def teardown(self) -> None:
        """After everything has settled down."""
        super().teardown()
        if hasattr(self, "scene"):
            compare(self.scene)


TestComparedConsumers = ComparedConsumers.TestCase
TestComparedMigrations = ComparedMigrations.TestCase
for each in (TestComparedConsumers, TestComparedMigrations):
    each.settings = settings(stateful_step_count=40, deadline=None)
