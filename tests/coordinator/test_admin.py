"""Describing, listing and deleting groups."""

from __future__ import annotations

from tests.coordinator.context import Context


def test_describe_by_state(context: Context) -> None:
    """DescribeGroups shows protocol and metadata in Stable, and valid assignments."""
    a, b = context.stable_group("A", "B", sync=False)

    def shown() -> tuple[str, str, list[tuple[bytes, bytes]]]:
        d = context.describe()
        return d.state, d.protocol_name, [(m.metadata, m.assignment) for m in d.members]

    assert shown() == ("CompletingRebalance", "", [(b"", b"")] * 2)
    context.sync_all([a, b])
    both = [(b"meta-A", b"assigned-A"), (b"meta-B", b"assigned-B")]
    assert shown() == ("Stable", "range", both)
    a.join()
    assigned = [(b"", assignment) for _, assignment in both]
    assert shown() == ("PreparingRebalance", "", assigned)
    b.leave()
    assert shown() == ("CompletingRebalance", "", assigned[:1])
    a.leave()
    assert shown() == ("Empty", "", [])


def test_a_rebalance_before_the_sync_takes_assignments_back(context: Context) -> None:
    """A generation that ends without new assignments makes the old ones void."""
    a, b = context.stable_group("A", "B")
    a.join()
    b.join()
    assert context.describe().members[0].assignment == b"assigned-A"
    b.join(protocols=[("range", b"new")])
    assert context.describe().members[0].assignment == b""


def test_describe_members(context: Context) -> None:
    """DescribeGroups shows the members with their ids, clients and hosts."""
    (a,) = context.stable_group("A", static=True)
    (shown,) = context.describe().members
    assert (shown.member_id, shown.group_instance_id) == (a.member_id, "i-A")
    assert (shown.client_id, shown.client_host) == ("A", "/127.0.0.1")


def test_list(context: Context) -> None:
    """ListGroups filters by state and type, in any case; unknown ones match nothing."""
    context.stable_group("A", group="stable")
    context.stable_group("B", group="completing", sync=False)
    (c,) = context.stable_group("C", group="empty", protocol_type="connect")
    c.leave()
    d, _ = context.stable_group("D", "E", group="preparing")
    d.join()

    def listed(*states: str, types: tuple[str, ...] = ()) -> set[str]:
        return {group[0] for group in context.list_groups(states, types).groups}

    everything = {"stable", "completing", "empty", "preparing"}
    assert listed() == everything
    assert listed("Stable") == listed("sTABLE", "unheard-of") == {"stable"}
    assert listed("EMPTY", "completingrebalance") == {"empty", "completing"}
    assert listed("PreparingRebalance") == {"preparing"}
    assert listed("Dead") == listed("") == set()
    assert listed(types=("Classic",)) == everything
    assert listed(types=("consumer",)) == set()
    assert context.list_groups(["Empty"]).groups == [
        ("empty", "connect", "Empty", "classic")
    ]


def test_groups_of_pending_members(context: Context) -> None:
    """Groups of pending members are Empty, listed, and deleted with their ids."""
    a = context.member("A")
    a.join()
    assert context.list_groups().groups == [("g", "", "Empty", "classic")]
    assert context.delete() == 0
    assert ("session", "g", a.member_id) not in context.timers
    assert a.join().result.error_code == 25


def test_a_deleted_group_starts_over(context: Context) -> None:
    """A group that is created again after its deletion begins with generation 1."""
    (a,) = context.stable_group("A")
    a.leave()
    context.delete()
    (b,) = context.stable_group("B")
    assert b.generation_id == 1
