"""From one generation to the next."""

from __future__ import annotations

from tests.coordinator.context import Context


def test_who_is_late_is_out(context: Context) -> None:
    """Dynamic members that miss the rebalance timeout are removed."""
    a, b = context.stable_group("A", "B", session_ms=60_000)
    joining = a.join()
    context.sleep(29_999)
    assert (joining.answered, b.heartbeat()) == (False, 27)
    context.sleep(1)
    assert len(joining.result.members) == 1
    assert b.heartbeat() == 25


def test_longest_timeout_counts(context: Context) -> None:
    """The join phase lasts as long as the longest rebalance timeout in the group."""
    a, _ = context.stable_group("A", "B", rebalance_ms=20_000)
    joining = a.join(rebalance_ms=1_000)
    context.sleep(19_999)
    assert not joining.answered
    context.sleep(1)
    assert joining.answered


def test_pending_members_are_waited_for(context: Context) -> None:
    """A rebalance waits for pending members, old and new."""
    (a,) = context.stable_group("A")
    b, c = context.member("B"), context.member("C")
    b.join()
    joining = a.join()
    c.join()
    b.join()
    assert not joining.answered
    assert c.join().result.generation_id == 2
    assert len(joining.result.members) == 3
    waits = context.event("join_completed")["waits"]
    assert [wait["member_id"] for wait in waits] == [b.member_id, c.member_id]


def test_rows_of_notices(context: Context) -> None:
    """Members, culprits, waits and offsets count as rows in readers' buffers."""
    (a,) = context.stable_group("A")
    context.member("B").enter()
    a.join()
    assert context.notice("rebalance_started").weight == 1 + 2 + 1
    assert context.notice("join_completed").weight == 1 + 1 + 2 + 1
    context.commit([("t", 0, 1, -1, ""), ("t", 1, 1, -1, "")])
    assert context.notice("commit_refused").weight == 1 + 2


def test_nobody_listens(context: Context) -> None:
    """Without listeners there are no notices."""
    context.coordinator.listening = False
    a, b = context.stable_group("A", "B", rebalance_ms=1_000)
    a.join()
    context.sleep(1_000)
    a.leave()
    b.join()
    assert context.notices == []
