"""Metrics, and `kohort why`, say the same of the same events: how long things took.

Clients, an admin, the network and the coordinator's own process do anything, as in
tests/coordinator/test_machine.py.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from tests.coordinator.context import Context, subscribed
from tests.coordinator.test_machine import Clients, dealt, share
from tests.events.build import recorded

from kohort.broker.coordinator.effects import Notice
from kohort.broker.events.bus import Events
from kohort.control.metrics import groups
from kohort.control.metrics.groups import GroupFold
from kohort.control.why import building
from kohort.control.why.fold import fold
from kohort.control.why.model import Outcome

ALMOST = 1e-5
"""Seconds are floats in one of them, and ns in the other."""


class Told(Context):
    """A coordinator whose notices can be handed on as it made them."""

    def told(self) -> list[tuple[Notice, float]]:
        """Each, and when it was."""
        return [*zip(self.notices, self._noticed_at, strict=True)]


def counted(context: Told) -> GroupFold:
    """What metrics make of everything that a coordinator has told."""
    found = GroupFold()
    stream = Events()
    stream.begin("r")
    stream.listen(found.take)
    for notice, now in context.told():
        stream.of(1).publish(notice, now)
    return found


def compare(context: Told) -> tuple[float, float]:
    """(duration of rebalances, stand-stills) of the group g: the same in both."""
    mine = counted(context)
    counts = mine.of("g")
    mine_of_others = [name for name in mine.by_group if name != "g"]
    assert not mine_of_others
    facts = fold(recorded(context), "g")
    causes = Counter(r.cause for r in facts.rebalances)
    assert counts.rebalances == causes
    took = [
        r.duration_ns / 1e9 for r in facts.rebalances if r.outcome is Outcome.COMPLETED
    ]
    assert counts.rebalance_seconds.count == len(took)
    assert counts.rebalance_seconds.total == pytest.approx(sum(took), abs=ALMOST)
    stood = sum(
        row.duration_ns / 1e9
        for rebalance in facts.rebalances
        for row in rebalance.stand_stills
        # Whoever stands still to this moment is counted when it is over.
        if row.partitions != 0 and row.ended_by != "unseen"
    )
    assert counts.stand_still_seconds.total == pytest.approx(stood, abs=ALMOST)
    return sum(took), stood


class Counted(Clients):
    """The same clients; what both say is compared in the end."""

    make = Told
    context: Told

    def teardown(self) -> None:
        """After everything has settled down."""
        super().teardown()
        if hasattr(self, "context"):
            compare(self.context)


TestCounted = Counted.TestCase
TestCounted.settings = settings(
    max_examples=settings().max_examples * 2,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_the_assignors_that_stop_nobody() -> None:
    """Both know the same ones."""
    assert groups.COOPERATIVE == building.COOPERATIVE


def kept_waiting(first: str, *then: str) -> Told:
    """Two members of these assignors, one of which waits 3 s for the other."""
    context = Told()
    ana, ben = (
        context.member(
            name, protocols=[subscribed("t", protocol=p)[0] for p in (first, *then)]
        )
        for name in ("ana", "ben")
    )
    ana.enter()
    ana.sync([(ana.member_id, dealt(0, 1))])
    ben.enter()
    context.sleep(2_000)
    ana.join()
    context.sleep(1_000)
    ana.sync(share([ana.member_id, ben.member_id]))
    ben.sync()
    return context


def test_who_waits_for_an_assignment_stands_still() -> None:
    """From its JoinGroup; a newcomer has nothing that could."""
    context = kept_waiting("range")
    _, stood = compare(context)
    assert stood == pytest.approx(1)
    mine = counted(context).of("g").stand_still_seconds
    assert mine.count == 1


@pytest.mark.parametrize("name", sorted(building.COOPERATIVE))
def test_who_keeps_its_partitions_does_not_stand_still(name: str) -> None:
    """KIP-429; an eager assignor beside it makes a member an eager one."""
    assert compare(kept_waiting(name))[1] == 0
    assert compare(kept_waiting(name, "range"))[1] > 0
