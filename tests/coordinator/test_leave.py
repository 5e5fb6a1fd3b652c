"""Members that leave: by LeaveGroup, or removed by an admin."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.coordinator.member import protocols


def test_follower_leaves(context: Context) -> None:
    """The others rebalance, and the leader remains."""
    a, b, c = context.stable_group("A", "B", "C")
    assert b.leave() == 0
    assert (a.heartbeat(), b.heartbeat()) == (27, 25)
    c.join()
    result = a.join().result
    assert (result.leader, len(result.members)) == (a.member_id, 2)


def test_leader_leaves(context: Context) -> None:
    """Another member leads the next generation."""
    a, b, c = context.stable_group("A", "B", "C")
    a.leave()
    second, third = b.join(), c.join()
    assert second.result.leader == third.result.leader == b.member_id


def test_last_member_leaves_pending_ones(context: Context) -> None:
    """Pending members do not keep a group from becoming Empty."""
    (a,) = context.stable_group("A")
    b = context.member("B")
    b.join()
    a.leave()
    context.sleep(0)
    assert context.state() == "Empty"
    assert b.join().result.error_code == 0


def test_leaves_while_its_join_waits(context: Context) -> None:
    """A member that leaves has its waiting join answered UNKNOWN_MEMBER_ID."""
    a, b = context.stable_group("A", "B")
    joining = b.join(protocols=protocols("range", metadata=b"new"))
    assert b.leave() == 0
    assert (joining.result.error_code, joining.result.member_id) == (25, "")
    assert a.join().result.generation_id == 3


def test_admin_names_instance_ids(context: Context) -> None:
    """An admin can remove a member by its instance id alone, once."""
    a, _ = context.stable_group("A", "B", static=True)
    result = context.leave(("", "i-B"), ("", "i-B"), ("", None))
    assert result.members == [("", "i-B", 0), ("", "i-B", 25), ("", None, 25)]
    context.leave(("", "i-A"))
    assert (a.heartbeat(), context.state()) == (25, "Empty")


def test_static_member_names_its_member_id(context: Context) -> None:
    """A static member leaves by its member id, with or without its instance id."""
    for instance in (None, "i-A"):
        (a,) = context.stable_group("A", static=True)
        assert a.leave(instance=instance) == 0
        assert context.state() == "Empty"


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


def test_unknown_members_and_groups(context: Context) -> None:
    """Codes are per member, except for the empty group id; an empty list is valid."""
    (a,) = context.stable_group("A")
    assert context.leave(("made-up", None)).members == [("made-up", None, 25)]
    assert context.leave((a.member_id, None), group="h").members[0][2] == 25
    nowhere = context.leave((a.member_id, None), group="")
    assert (nowhere.error_code, nowhere.members) == (24, ())
    assert context.leave().error_code == 0
    assert a.heartbeat() == 0


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
