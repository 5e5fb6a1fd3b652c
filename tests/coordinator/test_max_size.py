"""group.max.size (KIP-389); two members here."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import protocols


@pytest.fixture
def context() -> Context:
    """A limit of two members."""
    return Context(initial_rebalance_delay_ms=0, max_size=2)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("options", [{}, {"requires_id": False}, {"instance": "i-C"}])
def test_third_member(
    context: Context, options: dict[str, object], *, sync: bool
) -> None:
    """A third member is refused, and the other two continue."""
    a, b = context.stable_group("A", "B", sync=sync)
    result = context.member("C", **options).join().result
    assert (result.error_code, result.member_id) == (81, "")
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)
    assert context.notice("member_refused").fields["error"] == "GROUP_MAX_SIZE_REACHED"


def test_size_is_checked_first(context: Context) -> None:
    """The size is checked before protocols and unknown member ids."""
    context.stable_group("A", "B")
    c = context.member("C")
    assert c.join(protocol_type="connect").result.error_code == 81
    assert c.join(protocols=protocols("other")).result.error_code == 81
    assert c.join(member_id="made-up").result.error_code == 81


def test_pending_members_take_no_room(context: Context) -> None:
    """Any number of pending members is accepted."""
    for name in "ABC":
        assert context.member(name).join().result.error_code == 79


def test_members_of_a_full_group_rejoin(context: Context) -> None:
    """Members of a full group may rejoin."""
    a, b = context.stable_group("A", "B")
    joining = a.join()
    assert b.join().result.generation_id == 3
    assert joining.result.error_code == b.join().result.error_code == 0


def test_newcomers_push_out_who_is_late(context: Context) -> None:
    """During a rebalance only members that have joined it count."""
    (a,) = context.stable_group("A", rebalance_ms=3_000)
    b, c = (
        context.member(n, requires_id=False, rebalance_ms=3_000) for n in ("B", "C")
    )
    first, second = b.join(), c.join()
    late = a.join().result
    assert (late.error_code, late.member_id) == (81, "")
    # None is missing now, but only the timeout ends the phase.
    assert not first.answered
    context.sleep(3_000)
    assert first.result.generation_id == second.result.generation_id == 2
    assert a.heartbeat() == 25


def test_room_while_members_are_away(context: Context) -> None:
    """A newcomer takes the place of a member that has not rejoined yet."""
    a, b = context.stable_group("A", "B")
    a.join()
    c = context.member("C", requires_id=False)
    assert not c.join().answered
    assert context.member("D").join().result.error_code == 81
    assert b.join().result.error_code == 81
    assert [m.client_id for m in context.describe().members] == ["A", "C"]


def test_repeated_join_of_a_full_rebalance(context: Context) -> None:
    """A member whose join waits may join again."""
    (a,) = context.stable_group("A")
    b, c = (context.member(n, requires_id=False) for n in ("B", "C"))
    first = b.join()
    c.join()
    b.member_id = context.describe().members[1].member_id
    assert not b.join().answered
    assert context.forgotten == [first]
    assert a.join().result.error_code == 81


def test_pending_id_in_a_full_group(context: Context) -> None:
    """A pending member is removed when its join finds the group full."""
    (a,) = context.stable_group("A")
    b, c = context.member("B"), context.member("C")
    b.join()
    c.join()
    b.join()
    a.join()
    assert c.join().result.error_code == 81
    kicked = context.event("member_kicked")
    assert (kicked["member_id"], kicked["was_pending"]) == (c.member_id, True)
    context.sleep(30_000)
    assert len(context.describe().members) == 2
    assert c.join().result.error_code == 81


def test_static_replacement(context: Context) -> None:
    """A static member of a full group is replaced only during rebalances."""
    a, b = context.stable_group("A", "B", static=True)
    back = context.member("B2", instance="i-B")
    assert back.join().result.error_code == 81
    joining = a.join()
    assert back.join().result.generation_id == 3
    assert joining.answered
    assert b.heartbeat() == 82
