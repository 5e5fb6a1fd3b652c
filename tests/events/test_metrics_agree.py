"""Metrics, and `kohort why`, say the same of the same events: how long things took.

Clients, an admin, the network and the coordinator's own process do anything, as in
tests/coordinator/test_machine.py.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from tests.coordinator.context import Context, Member, subscribed
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


class Pair:
    """Two members that share a topic; to get there, ana stood still for 1 s.

    Attributes:
        context: their coordinator.
        ana: the first one.
        ben: the second one.
    """

    def __init__(self, *assignors: str, instance: str | None = None) -> None:
        self.context = context = Told()
        self._protocols = [subscribed("t", protocol=p)[0] for p in assignors]
        self.ana = ana = self.member("ana", instance)
        self.ben = ben = self.member("ben")
        ana.enter()
        ana.sync([(ana.member_id, dealt(0, 1))])
        ben.enter()
        context.sleep(2_000)
        ana.join()
        context.sleep(1_000)
        ana.sync(share([ana.member_id, ben.member_id]))
        ben.sync()

    def member(self, name: str, instance: str | None = None) -> Member:
        """Another one of the same assignors."""
        return self.context.member(name, protocols=self._protocols, instance=instance)


def test_who_waits_for_an_assignment_stands_still() -> None:
    """From its JoinGroup; a newcomer has nothing that could."""
    pair = Pair("range")
    assert compare(pair.context)[1] == pytest.approx(1)
    assert counted(pair.context).of("g").stand_still_seconds.count == 1


@pytest.mark.parametrize("name", sorted(building.COOPERATIVE))
def test_who_keeps_its_partitions_does_not_stand_still(name: str) -> None:
    """KIP-429; an eager assignor beside it makes a member an eager one."""
    assert compare(Pair(name).context)[1] == 0
    assert compare(Pair(name, "range").context)[1] == pytest.approx(1)


def test_a_member_whose_coordinator_moves_goes_on_in_its_old_generation() -> None:
    """It stands still until it has synced there, though no rebalance is over."""
    pair = Pair("range")
    pair.member("cleo").enter()
    pair.ana.join()
    pair.context.sleep(1_000)
    pair.context.move()
    pair.context.sleep(1_000)
    pair.ana.sync()
    # That it stays for long after is none of it.
    pair.ana.keep_alive(5_000)
    assert compare(pair.context)[1] == pytest.approx(1 + 2)


def test_a_static_member_that_is_replaced_stands_still_twice() -> None:
    """The process that is gone until then; the one that has come from then on."""
    pair = Pair("range", instance="i")
    pair.member("cleo").enter()
    pair.ana.join()
    pair.context.sleep(1_000)
    again = pair.member("ana again", "i")
    again.enter()
    pair.context.sleep(2_000)
    pair.ben.join()
    again.sync(share([again.member_id]))
    # ben joined and was told of it at one moment.
    assert compare(pair.context)[1] == pytest.approx(1 + 1 + 2)
    assert counted(pair.context).of("g").stand_still_seconds.count == 3


def test_who_was_never_told_its_assignment_had_nothing() -> None:
    """A newcomer that joins again before it has synced is a newcomer still."""
    pair = Pair("range")
    cleo = pair.member("cleo")
    cleo.enter()
    for each in (pair.ana, pair.ben):
        each.join()
    members = [each.member_id for each in (pair.ana, pair.ben, cleo)]
    pair.ana.sync(share(members))
    pair.ben.sync()
    cleo.join(protocols=subscribed("t", "u"))
    pair.context.sleep(3_000)
    cleo.leave()
    assert compare(pair.context)[1] == pytest.approx(1)
