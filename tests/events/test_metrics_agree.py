"""Metrics, and `kohort why`, say the same of the same events: how long things took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.coordinator.consumer.context import Scene
from tests.coordinator.consumer.member import Consumer
from tests.coordinator.context import Context
from tests.coordinator.member import Member, dealt, subscribed
from tests.coordinator.migration.context import Mixed
from tests.coordinator.test_machine import share
from tests.events.build import recorded

from kohort.broker.events.account import Account, Accounts, Outcome
from kohort.broker.events.accounting import UNHEARD, Accounting
from kohort.broker.events.bus import Events
from kohort.broker.events.findings.fold import fold
from kohort.broker.events.words import COOPERATIVE
from kohort.control.metrics.groups import GroupFold

ALMOST = 1e-5
"""Seconds are floats in one of them, and ns in the other."""


def counted(context: Context) -> GroupFold:
    """The metrics of all events of a coordinator."""
    found = GroupFold()
    stream = Events()
    stream.begin("r")
    stream.listen(found.take)
    accounting = Accounting(
        lambda _run, node, notice, now: stream.of(node).publish(notice, now),
        lambda _turn: None,
        lambda _seconds, _round: None,
    )
    stream.listen(accounting.add, UNHEARD)
    for notice, now in context.noticed():
        stream.of(1).publish(notice, now)
    accounting.finish()
    return found


def compare(context: Context) -> float:
    """The pauses of the group g, in seconds; metrics say the same as accounts."""
    mine = counted(context)
    counts = mine.of("g")
    mine_of_others = [name for name in mine.by_group if name != "g"]
    assert not mine_of_others
    accounts = Accounts()
    all_ = [a for event in recorded(context) for a in accounts.take_all(event)]
    all_ += accounts.close_all()
    settled = [each for each in all_ if isinstance(each, Account)]
    took = sum(r.duration_ns for r in settled if r.outcome is Outcome.COMPLETED)
    assert counts.rebalance_seconds.total == pytest.approx(took / 1e9, abs=ALMOST)
    assert counts.pause_seconds.total == pytest.approx(paused(settled), abs=ALMOST)
    unread = sum(r.unread_ns + r.unread_empty_ns for r in all_) / 1e9
    counted_unread = sum(counts.unread_seconds.values())
    assert counted_unread == pytest.approx(unread, abs=ALMOST)
    facts = fold(recorded(context), "g")
    assert counts.rebalances == Counter(r.cause for r in facts.rebalances)
    if not any(each.get("state") == "Dead" for each in recorded(context)):
        # The broker counts those of a deleted group no more.
        assert len(facts.rebalances) == context.lasting.rebalances.get("g", 0)
    assert settled == facts.rebalances[: len(settled)]
    assert len(facts.rebalances) <= len(settled) + 1
    return paused(facts.rebalances)


def paused(rebalances: Sequence[Account]) -> float:
    """The pauses that are over, in seconds."""
    rows = (row for each in rebalances for row in each.pauses)
    over = (row for row in rows if row.count != 0 and row.ended_by != "unseen")
    return sum(row.duration_ns for row in over) / 1e9


class Pair:
    """Two members that share a topic; to get there, ana stood still for 1 s.

    Attributes:
        context: their coordinator.
        ana: the first one.
        ben: the second one.
    """

    def __init__(self, *assignors: str, instance: str | None = None) -> None:
        self.context = context = Context()
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
    assert compare(pair.context) == pytest.approx(1)
    assert sum(counted(pair.context).of("g").pause_seconds.buckets) == 1


@pytest.mark.parametrize("name", sorted(COOPERATIVE))
def test_who_keeps_its_partitions_does_not_stand_still(name: str) -> None:
    """KIP-429; an eager assignor beside it makes a member an eager one."""
    assert compare(Pair(name).context) == 0
    assert compare(Pair(name, "range").context) == pytest.approx(1)


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
    assert compare(pair.context) == pytest.approx(1 + 2)


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
    # ben's join and its answer have the same time.
    assert compare(pair.context) == pytest.approx(1 + 1 + 2)


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
    assert compare(pair.context) == pytest.approx(1)


def test_epochs_before_the_target_assignment_are_one_rebalance() -> None:
    """Three consumers join a consumer group at once (KIP-848)."""
    context = Context(consumer_assignment_interval_ms=1_000)
    context.topics.create("t", 3)
    consumers = [Consumer(context, name, "t") for name in "abc"]
    for consumer in consumers:
        consumer.join()
    context.sleep(1_000)
    for consumer in (*consumers, *consumers):
        consumer.beat()
        consumer.settle()
    compare(context)
    epochs = [each for each in recorded(context) if each["kind"] == "rebalance_started"]
    assert len(epochs) > sum(counted(context).of("g").rebalances.values())


def migrating() -> tuple[Mixed, Consumer, Member]:
    """A static consumer and a classic member, with a partition each."""
    scene = Mixed()
    (ana,) = scene.settled("ana", instance="i")
    ben = scene.classic("ben")
    ben.enter()
    scene.settle(ana)
    ben.join()
    ben.sync()
    return scene, ana, ben


def test_a_downgrade_is_one_rebalance() -> None:
    """That of the classic group, also if the epoch of the consumer group has grown."""
    scene, _, _ = migrating()
    compare(scene)
    before = scene.lasting.rebalances["g"]
    scene.topic("u")
    scene.consumer_as_classic("cleo", "t", "u", instance="i").join()
    assert scene.state() == "PreparingRebalance"
    assert scene.lasting.rebalances["g"] == before + 1
    compare(scene)


def test_a_downgrade_while_a_target_assignment_is_due() -> None:
    """The consumer group's rebalance is interrupted by that of the classic one."""
    scene, ana, _ = migrating()
    scene.hold("Assigning")
    scene.trigger()
    assert scene.group.state == "Assigning"
    before = scene.lasting.rebalances["g"]
    ana.leave()
    assert scene.lasting.rebalances["g"] == before + 1
    compare(scene)


def test_what_the_log_refuses_is_no_rebalance() -> None:
    """A new epoch, an upgrade, a downgrade; earlier rebalances still count."""
    scene, ana, ben = migrating()
    before = scene.lasting.rebalances["g"]
    scene.largest = 1
    assert ben.leave()
    assert scene.consumer("cleo", "t").join().error_code
    assert ana.leave().error_code
    assert scene.lasting.rebalances["g"] == before
    scene.largest = 10_000
    assert not ana.leave().error_code
    ben.join()
    ben.sync([(ben.member_id, dealt(0, 1))])
    compare(scene)
    before = scene.lasting.rebalances["g"]
    scene.largest = 1
    assert scene.consumer("dora", "t").join().error_code
    assert scene.lasting.rebalances["g"] == before
    compare(scene)


@pytest.mark.parametrize("is_bumped", [True, False])
def test_a_group_that_is_moved_while_a_target_assignment_is_due(
    is_bumped: bool,
) -> None:
    """The rebalance goes on at the other coordinator."""
    scene = Scene()
    scene.topic()
    ana, ben = scene.settled("ana", "ben")
    scene.trigger()
    scene.move()
    if is_bumped:
        scene.trigger()
    scene.settle(ana, ben)
    compare(scene)
    assert scene.event("join_completed")["gained"] == []
