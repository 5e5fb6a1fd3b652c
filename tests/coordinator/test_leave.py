"""Members that leave: by LeaveGroup, or removed by an admin."""

from __future__ import annotations

from tests.coordinator.context import Context


def test_several_leave_at_once(context: Context) -> None:
    """One request is one rebalance; a repeated member is unknown the second time."""
    a, b, c = context.stable_group("A", "B", "C")
    result = context.leave(
        (b.member_id, None), (b.member_id, None), (c.member_id, None)
    )
    assert [code for *_, code in result.members] == [0, 25, 0]
    assert a.heartbeat() == 27
    assert context.notice("rebalance_started").fields["cause"] == "member_left"
    assert context.kinds().count("member_left") == 2


def test_pending_member_leaves(context: Context) -> None:
    """A pending member may leave, which ends the wait for it."""
    (a,) = context.stable_group("A")
    b = context.member("B")
    b.join()
    joining = a.join()
    assert b.leave() == 0
    assert ("session", "g", b.member_id) not in context.timers
    assert joining.result.generation_id == 2
    assert b.join().result.error_code == 25
