"""Partitions in the account of a rebalance: moves, returns, times without a reader."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.consumers import (
    COOPERATIVE,
    consumer,
    divide,
    history_of,
    paused,
    seconds,
)

from kohort.broker.events.account.values import Holding


def test_cooperative_members_work_on(context: Context) -> None:
    """No member pauses; partitions move from one generation to the next."""
    ana, ben = (consumer(context, n, COOPERATIVE) for n in ("ana", "ben"))
    context.form([ana], sync=False)
    divide((ana, range(4)))
    context.sleep(1_000)
    ben.enter()
    context.sleep(300)
    ana.join()
    divide((ana, (0, 1)), (ben, ()))
    context.sleep(200)
    ana.join()
    context.sleep(100)
    ben.join()
    divide((ana, (0, 1)), (ben, (2, 3)))
    found = history_of(context)
    halfway, last = found.rebalances[-2:]
    assert (paused(halfway, found), paused(last, found)) == ({}, {})
    assert halfway.moves is not None
    assert halfway.given_up == (Holding(ana.member_id, {"t": (2, 3)}),)
    assert last.moves is not None
    assert [(m.source, m.target, seconds(m.gap_ns)) for m in last.moves] == [
        (ana.member_id, ben.member_id, 0.3)
    ]
    assert [(r.cause, r.count, seconds(r.duration_ns)) for r in last.unread] == [
        ("revoked", 2, 0.3)
    ]
    assert last.is_eager is False
    assert "2 were revoked, for the next generation" in found.explain(halfway)
    assert "2 stayed with their owner, without a pause" in found.explain(last)


def test_partitions_that_go_away_and_come_back(
    context: Context, trio: list[Member]
) -> None:
    """A restart: what went to another member is with the same process again."""
    ana, ben, cleo = trio
    ben.leave()
    ana.join()
    cleo.join()
    divide((ana, range(8)), (cleo, range(8, 12)))
    again = consumer(context, "ben")
    again.enter()
    ana.join()
    cleo.join()
    divide((ana, range(4)), (again, range(4, 8)), (cleo, range(8, 12)))
    found = history_of(context)
    last = found.rebalances[-1]
    assert last.moves is not None
    assert [(m.is_return, m.count) for m in last.moves] == [(True, 4)]
    assert "4 of them back to the process that owned them before" in found.explain(last)
    assert found.names.of(again.member_id) == found.names.of(ben.member_id) == "ben"


def test_a_static_member_that_comes_back(context: Context) -> None:
    """No rebalance: its partitions are under its new id, and nothing has moved."""
    _, ben = context.stable_group("ana", "ben", static=True)
    before = len(history_of(context).rebalances)
    context.sleep(1_000)
    context.member("ben", instance="i-ben").enter()
    found = history_of(context)
    assert len(found.rebalances) == before
    (back,) = found.facts.replacements
    assert (back.instance_id, back.old) == ("i-ben", ben.member_id)
    assert found.summary().endswith(
        "; static members rejoined without a rebalance 1 time"
    )


@pytest.mark.parametrize("reason", ["it has given up partitions", None])
def test_the_second_half_is_told_as_such(context: Context, reason: str | None) -> None:
    """A cooperative member that gave something up: whether it says so or not."""
    ana, ben = (consumer(context, n, COOPERATIVE) for n in ("ana", "ben"))
    context.form([ana], sync=False)
    divide((ana, range(4)))
    ben.enter()
    ana.join()
    divide((ana, (0, 1)), (ben, ()))
    ana.join(reason=reason)
    found = history_of(context)
    first, second = found.rebalances[-2:]
    assert (first.is_second_half, second.is_second_half) == (False, True)
    assert "ana rejoined after revoking partitions" in found.explain(second)


def test_partitions_that_stay_with_a_client_under_a_new_id(
    context: Context, trio: list[Member]
) -> None:
    """A quick restart: it is back in the rebalance that its leaving began."""
    ana, ben, cleo = trio
    ben.leave()
    again = consumer(context, "ben")
    again.enter()
    ana.join()
    cleo.join()
    divide((ana, range(4)), (again, range(4, 8)), (cleo, range(8, 12)))
    found = history_of(context)
    last = found.rebalances[-1]
    assert last.moves is not None
    assert [m.is_return for m in last.moves] == [False]
    words = found.explain(last)
    assert "4 of 12 partitions moved, 4 of them from a client's old" in words


def test_partitions_that_go_to_another_process_of_the_same_name(
    context: Context,
) -> None:
    """Two members of one name at the same time: their moves are no returns."""
    one, other = consumer(context, "app"), consumer(context, "app")
    one.enter()
    other.enter()
    context.sleep(3_000)
    one.join()
    other.join()
    divide((one, range(2)), (other, range(2, 4)))
    one.leave()
    other.join()
    divide((other, range(4)))
    found = history_of(context)
    last = found.rebalances[-1]
    assert last.moves is not None
    assert [(m.source, m.count) for m in last.moves] == [(one.member_id, 2)]
    assert "2 of 4 partitions moved; 2 returned" in found.explain(last)
