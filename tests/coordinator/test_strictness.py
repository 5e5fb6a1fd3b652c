"""``kohort.strictness``: each scene in Kafka's behaviour and in the helpful one."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Members, assign, protocols


@pytest.fixture
def helpful() -> Context:
    """A coordinator that answers all requests, and enforces group.max.size."""
    return Context(is_helpful=True)


def test_a_second_join_replaces_the_first(context: Context) -> None:
    """Kafka never answers the first join; the second one is in the generation."""
    a, b = context.stable_group("A", "B")
    first = b.join(protocols=protocols("range", metadata=b"first"))
    second = b.join(protocols=protocols("range", metadata=b"second"))
    assert context.forgotten == [first]
    assert a.join().result.members[1] == (b.member_id, None, b"second")
    assert second.result.generation_id == 3
    assert not first.answered


def test_helpful_answer_to_a_replaced_join(helpful: Context) -> None:
    """The first join is answered REBALANCE_IN_PROGRESS."""
    a, b = helpful.stable_group("A", "B")
    first = b.join(protocols=protocols("range", metadata=b"first"))
    second = b.join(protocols=protocols("range", metadata=b"second"))
    assert (first.result.error_code, first.result.member_id) == (27, b.member_id)
    assert not second.answered
    a.join()
    assert second.result.generation_id == 3


def test_a_second_sync_replaces_the_first(context: Context) -> None:
    """Kafka never answers the first sync; the second one gets the assignment."""
    a, b = context.stable_group("A", "B", sync=False)
    first, second = b.sync(), b.sync()
    assert context.forgotten == [first]
    a.sync(assign(a, b))
    assert second.result.assignment == b"assigned-B"
    assert not first.answered


def test_helpful_answer_to_a_replaced_sync(helpful: Context) -> None:
    """The first sync is answered REBALANCE_IN_PROGRESS."""
    a, b = helpful.stable_group("A", "B", sync=False)
    first, second = b.sync(), b.sync()
    assert (first.result.error_code, second.answered) == (27, False)
    a.sync(assign(a, b))
    assert second.result.assignment == b"assigned-B"


def test_a_member_leaves_while_its_sync_waits(context: Context) -> None:
    """Kafka never answers the sync."""
    _, b = context.stable_group("A", "B", sync=False)
    syncing = b.sync()
    assert b.leave() == 0
    assert context.forgotten == [syncing]


def test_helpful_answer_to_a_sync_of_a_member_that_left(helpful: Context) -> None:
    """The waiting sync is answered UNKNOWN_MEMBER_ID."""
    _, b = helpful.stable_group("A", "B", sync=False)
    syncing = b.sync()
    assert b.leave() == 0
    assert syncing.result.error_code == 25


def with_a_late_static_member(context: Context) -> Members:
    """A limit of two, and three members: A and C have joined, the static B is late."""
    context.configure(max_size=2)
    a, b = context.stable_group("A", "B", static=True, rebalance_ms=2_000)
    a.join()
    c = context.member("C", requires_id=False, rebalance_ms=2_000)
    c.join()
    context.sleep(2_000)
    return a, b, c


def test_static_members_that_are_late_count_for_nothing(context: Context) -> None:
    """Kafka starts a generation of three with a limit of two."""
    _, b, _ = with_a_late_static_member(context)
    assert len(context.describe().members) == 3
    assert b.heartbeat() == 22
    assert b.join().result.error_code == 0


def test_helpful_limit_counts_late_static_members(helpful: Context) -> None:
    """A generation keeps within the limit by removing late static members."""
    a, b, c = with_a_late_static_member(helpful)
    described = {member.member_id for member in helpful.describe().members}
    assert described == {a.member_id, c.member_id}
    assert b.heartbeat() == 25
    assert b.join().result.error_code == 81


def test_helpful_limit_spares_late_static_members_that_have_room(
    helpful: Context,
) -> None:
    """Only as many late static members are removed as the limit requires."""
    a, b, c, d = helpful.stable_group(*"ABCD", static=True, rebalance_ms=2_500)
    helpful.restart(max_size=3)
    joining = a.join()
    b.join()
    helpful.sleep(2_500)
    assert joining.result.generation_id == 3
    assert len(joining.result.members) == 3
    assert (c.heartbeat(), d.heartbeat()) == (25, 22)


def lowered_while_joins_wait(context: Context) -> list[int]:
    """The answers to three joins; the limit is lowered to two meanwhile."""
    a, b, c, d = context.stable_group(*"ABCD")
    waiting = [a.join(), b.join(), c.join()]
    context.configure(max_size=2)
    assert d.leave() == 0
    return [each.result.error_code for each in waiting]


def test_limit_lowered_while_joins_wait(context: Context) -> None:
    """Kafka accepts all that have joined."""
    assert lowered_while_joins_wait(context) == [0, 0, 0]


def test_helpful_limit_lowered_while_joins_wait(helpful: Context) -> None:
    """The limit applies at the end of the rebalance."""
    assert lowered_while_joins_wait(helpful) == [0, 0, 81]
