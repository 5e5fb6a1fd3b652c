"""Groups that a coordinator finds in its log, and their next steps.

The scenes were played with Apache Kafka 4.3.0, which was stopped and restarted on its
data, with another group.max.size where a scene says so. The expected results are
Kafka's answers, unless a scene says that kohort differs.
"""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import read_log
from tests.coordinator.member import Members, subscribed

from kohort.broker.coordinator.effects import (
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    Record,
)
from kohort.broker.coordinator.load import Loading
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Arm

# -- groups within the limit


def test_stable_group(context: Context) -> None:
    """Members continue in their generation, with their assignments."""
    a, b = context.stable_group("A", "B")
    context.restart()
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)
    assert a.sync().result.assignment == b"assigned-A"
    assert b.sync().result.assignment == b"assigned-B"
    assert a.commit("t", 7) == 0
    found = context.describe()
    assert (found.state, found.protocol_type, found.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(m.client_id, m.client_host, m.metadata) for m in found.members] == [
        ("A", "/127.0.0.1", b"meta-A"),
        ("B", "/127.0.0.1", b"meta-B"),
    ]


def test_group_goes_on_counting(context: Context) -> None:
    """The next generation has the next number, and the same leader."""
    a, b = context.stable_group("A", "B")
    context.restart()
    joining = b.join(protocols=subscribed("other"))
    assert a.heartbeat() == 27
    assert a.join().result.generation_id == 3
    assert joining.result.leader == a.member_id


def test_only_the_chosen_protocol_is_known(context: Context) -> None:
    """A follower that joins with all of its protocols has changed its metadata."""
    two = [("range", b"1"), ("roundrobin", b"2")]
    a, b = context.stable_group("A", "B", protocols=two)
    context.restart()
    again = b.join(protocols=two[:1])
    assert (again.result.error_code, again.result.generation_id) == (0, 2)
    assert not b.join(protocols=two).answered
    assert a.heartbeat() == 27
    assert a.join().result.generation_id == 3


def test_static_member_is_replaced(context: Context) -> None:
    """Instance ids are restored: a member that returns takes its old place."""
    (a,) = context.stable_group("A", static=True, skips=False)
    context.restart()
    back = context.member("A2", instance="i-A", protocols=a.protocols, skips=False)
    result = back.join().result
    assert (result.error_code, result.generation_id) == (0, 1)
    assert result.leader == a.member_id
    assert a.heartbeat() == 82
    assert back.sync().result.assignment == b"assigned-A"


def test_sessions_start_anew(context: Context) -> None:
    """A member has its whole session again, however long it was silent before."""
    a, b = context.stable_group("A", "B", session_ms=6_000)
    context.restart(away_ms=3_600_000)
    context.sleep(3_000)
    assert a.heartbeat() == 0
    context.sleep(2_999)
    assert a.heartbeat() == 0
    context.sleep(1)
    assert a.heartbeat() == 27
    assert b.heartbeat() == 25


def test_one_timeout_of_join_v0() -> None:
    """A record of JoinGroup v0 has no rebalance timeout: the session's is used."""
    context = Context()
    member = ("m", None, "c", "/h", -1, 6_000, b"meta", b"assigned")
    record = GroupRecord("g", "consumer", 4, "range", "m", 1, [member])
    context.coordinator.start(read_log([record]), context.now)
    (found,) = context.groups["g"].members.values()
    assert (found.rebalance_timeout_ms, found.session_timeout_ms) == (6_000, 6_000)


def test_rebalance_under_way(context: Context) -> None:
    """A group that was rebalancing is restored in its last generation."""
    (a,) = context.stable_group("A")
    b = context.member("B")
    b.enter()
    assert a.heartbeat() == 27
    context.restart()
    assert context.state() == "Stable"
    assert a.heartbeat() == 0
    assert a.sync().result.assignment == b"assigned-A"
    assert b.join().result.error_code == 25


def test_generation_that_was_not_stored(context: Context) -> None:
    """A first generation without a sync is forgotten, including its number."""
    (a,) = context.stable_group("A", sync=False)
    context.restart()
    found = context.describe()
    assert (found.state, found.protocol_type) == ("Empty", "")
    assert a.heartbeat() == 25
    assert a.sync().result.error_code == 25
    assert a.join().result.error_code == 25
    a.member_id = ""
    a.enter()
    assert a.generation_id == 1


def test_ids_that_were_given_out_are_forgotten(context: Context) -> None:
    """Pending members are in no record."""
    a = context.member("A")
    assert a.join().result.error_code == 79
    context.restart()
    assert context.state() == "Empty"
    assert a.join().result.error_code == 25


# -- groups without members


def test_group_that_became_empty(context: Context) -> None:
    """An Empty group keeps its type, generation and offsets, and is delayed again."""
    (a,) = context.stable_group("A")
    a.commit("t", 7)
    a.leave()
    context.restart(initial_rebalance_delay_ms=500)
    found = context.describe()
    assert (found.state, found.protocol_type) == ("Empty", "consumer")
    assert context.committed("t") == 7
    b = context.member("B", requires_id=False)
    joining = b.join()
    context.sleep(499)
    assert not joining.answered
    context.sleep(1)
    assert joining.result.generation_id == 3


@pytest.mark.parametrize("leader", ["", "unknown-member"])
def test_a_record_without_members_has_no_leader(leader: str) -> None:
    """Another program wrote the record; it names a leader, but no members."""
    context = Context()
    record = GroupRecord("g", "consumer", 3, "range", leader, -1, [])
    context.coordinator.start(read_log([record]), context.now)
    assert context.groups["g"].leader is None


def test_simple_consumers(context: Context) -> None:
    """Offsets alone make a group, Empty and without a type."""
    context.commit([("t", 0, 7, 3, "note"), ("t", 1, 8, -1, None)])
    context.restart()
    found = context.describe()
    assert (found.state, found.protocol_type) == ("Empty", "")
    assert context.fetch().topics == [("t", [(0, 7, 3, "note", 0), (1, 8, -1, "", 0)])]


def test_group_whose_offsets_are_gone() -> None:
    """A group whose offsets are gone exists until the next check of offsets."""
    context = Context(offsets_retention_check_interval_ms=20_000)
    context.commit([("t", 0, 7, -1, "")])
    context.delete_offsets(("t", [0]))
    context.restart()
    assert [row[0] for row in context.list_groups().groups] == ["g"]
    context.sleep(20_000)
    assert context.list_groups().groups == []


def test_deleted_group(context: Context) -> None:
    """A deleted group does not come back, nor do its offsets."""
    context.commit([("t", 0, 7, -1, "")])
    assert context.delete() == 0
    context.restart()
    assert context.list_groups().groups == []
    assert context.committed("t") == -1


def test_group_that_came_again(context: Context) -> None:
    """Records before a tombstone do not affect a group that is created after it."""
    (a,) = context.stable_group("A")
    a.commit("t", 7)
    a.leave()
    context.delete()
    context.commit([("u", 0, 1, -1, "")])
    context.restart()
    assert context.describe().protocol_type == ""
    assert (context.committed("t"), context.committed("u")) == (-1, 1)


def test_retention_counts_from_the_record() -> None:
    """A restart does not delay the expiry of an Empty group's offsets."""
    context = Context(
        offsets_retention_ms=60_000, offsets_retention_check_interval_ms=1_000
    )
    (a,) = context.stable_group("A")
    a.commit("t", 7)
    a.leave()
    context.sleep(50_000)
    context.restart()
    context.sleep(9_999)
    assert context.committed("t") == 7
    context.sleep(1)
    assert context.committed("t") == -1
    assert context.state() == "Dead"


def test_retention_of_a_commit_is_kept() -> None:
    """The retention time of an old commit is restored; a later commit replaces it."""
    context = Context(offsets_retention_check_interval_ms=1_000)
    context.commit([("t", 0, 7, -1, ""), ("u", 0, 7, -1, "")], retention_ms=5_000)
    context.commit([("u", 0, 8, -1, "")])
    context.restart()
    context.sleep(4_999)
    assert context.committed("t") == 7
    context.sleep(1)
    assert (context.committed("t"), context.committed("u")) == (-1, 8)


def test_record_without_a_time() -> None:
    """Offsets of a group whose record has no time expire from their commit on."""
    context = Context(
        offsets_retention_ms=60_000, offsets_retention_check_interval_ms=1_000
    )
    now_ms = int(context.now * 1000)
    context.records = [
        GroupRecord("g", "consumer", 3, None, None, -1, []),
        OffsetRecord("g", "t", 0, (7, -1, "", now_ms - 50_000)),
    ]
    context.coordinator.start(read_log(context.records), context.now)
    group = context.groups["g"]
    assert (group.state, group.generation_id, group.state_timestamp_ms) == (
        "Empty",
        3,
        -1,
    )
    context.sleep(9_999)
    assert context.committed("t") == 7
    context.sleep(1)
    assert context.committed("t") == -1


def test_subscriptions_are_known(context: Context) -> None:
    """Topics that the members of a loaded group consume keep their offsets."""
    (a,) = context.stable_group("A", protocols=subscribed("t"))
    a.commit("t", 7)
    a.commit("u", 7)
    context.restart()
    result = context.delete_offsets(("t", [0]), ("u", [0]))
    assert result.topics == [("t", [(0, 86)]), ("u", [(0, 0)])]


def test_compacted_log(context: Context) -> None:
    """Tombstones may stand alone if compaction has removed the earlier records."""
    records: list[Record] = [
        OffsetRecord("g", "t", 0, None),
        GroupTombstone("g"),
        OffsetRecord("h", "t", 0, None),
    ]
    context.coordinator.start(read_log(records), context.now)
    assert context.coordinator.groups == {}


def test_log_in_slices(context: Context) -> None:
    """A log is fed record by record; groups exist only after its end."""
    context.stable_group("A", "B")[0].commit("t", 7)
    context.commit([("t", 0, 8, -1, "")], group="h")
    loading = Loading()
    coordinator = Context().coordinator
    for record in context.records:
        loading.feed([record])
        assert coordinator.groups == {}
    effects = coordinator.start(loading, context.now)
    kinds = [type(effect) for effect in effects]
    assert (kinds.count(Notice), kinds.count(Arm)) == (5, 3)
    g, h = coordinator.groups["g"], coordinator.groups["h"]
    assert (g.state, len(g.members), h.state) == ("Stable", 2, "Empty")
    assert (g.offsets["t", 0][0], h.offsets["t", 0][0]) == (7, 8)
    # A million offsets belong to few partitions, so each partition is kept once.
    (first,), (second,) = g.offsets, h.offsets
    assert first is second
    again = coordinator.start(loading, context.now)
    assert [type(effect) for effect in again] == [Arm], "it is used up"


# -- groups beyond the limit (KIP-389)


def over_the_limit(names: str, *, rebalance_ms: int) -> tuple[Context, Members]:
    """Members of a loaded group whose group.max.size has become two."""
    context = Context()
    members = context.stable_group(*names, rebalance_ms=rebalance_ms)
    context.restart(max_size=2)
    return context, members


def test_over_the_limit_first_come_first_served() -> None:
    """The first to rejoin are accepted, later ones refused, at the full timeout."""
    context, (a, b, c, d) = over_the_limit("ABCD", rebalance_ms=3_000)
    assert context.state() == "PreparingRebalance"
    assert [m.heartbeat() for m in (a, b, c, d)] == [27, 27, 27, 27]
    first, second = a.join(), b.join()
    assert c.join().result.error_code == 81
    assert (c.heartbeat(), d.heartbeat()) == (25, 27)
    assert context.member("N", requires_id=False).join().result.error_code == 81
    assert len(context.describe().members) == 3
    context.sleep(2_999)
    assert not first.answered
    context.sleep(1)
    assert first.result.generation_id == second.result.generation_id == 3
    assert first.result.leader == a.member_id
    assert [m[0] for m in first.result.members] == [a.member_id, b.member_id]
    assert second.result.members == ()
    assert d.heartbeat() == 25
    assert d.join().result.error_code == 81
    context.sync_all([a, b])
    assert [m.client_id for m in context.describe().members] == ["A", "B"]


def test_over_the_limit_even_if_all_are_refused_or_in() -> None:
    """Refused members do not end the join phase, even if none is missing."""
    context, (a, b, c) = over_the_limit("ABC", rebalance_ms=3_000)
    first = a.join()
    b.join()
    assert c.join().result.error_code == 81
    context.sleep(2_999)
    assert not first.answered
    context.sleep(1)
    assert first.result.generation_id == 3


def test_over_the_limit_nobody_comes() -> None:
    """The group is Empty after the rebalance timeout."""
    context, (a, b, c) = over_the_limit("ABC", rebalance_ms=1_500)
    context.sleep(1_499)
    assert [m.heartbeat() for m in (a, b, c)] == [27, 27, 27]
    context.sleep(1)
    assert context.state() == "Empty"
    assert a.heartbeat() == 25
    assert context.group_records()[-1].generation_id == 3


def test_over_the_limit_the_last_one_leaves() -> None:
    """The join phase ends at once when the last missing member leaves."""
    _, (a, b, c) = over_the_limit("ABC", rebalance_ms=8_000)
    first = a.join()
    b.join()
    assert c.leave() == 0
    assert first.result.generation_id == 3
    assert len(first.result.members) == 2


def test_over_the_limit_all_but_one_leave() -> None:
    """A LeaveGroup starts no new phase; the remaining member is answered at once."""
    context, (a, b, c) = over_the_limit("ABC", rebalance_ms=4_000)
    assert (c.leave(), b.leave()) == (0, 0)
    assert context.state() == "PreparingRebalance"
    assert a.join().result.generation_id == 3


def test_over_the_limit_newcomers_may_be_faster() -> None:
    """A newcomer may take a place, and a member is refused for it."""
    context, (a, b, c) = over_the_limit("ABC", rebalance_ms=4_000)
    joining = b.join()
    newcomer = context.member("N", requires_id=False, rebalance_ms=4_000)
    newcomer.join()
    assert a.join().result.error_code == 81
    context.sleep(4_000)
    assert joining.result.leader == newcomer.member_id
    assert [m.client_id for m in context.describe().members] == ["N", "B"]
    assert c.heartbeat() == 25


@pytest.mark.parametrize("max_size", [2, 3])
def test_at_the_limit(max_size: int) -> None:
    """A group that is exactly as large as the limit continues."""
    context = Context()
    a, b = context.stable_group("A", "B")
    context.restart(max_size=max_size)
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)


# -- limits that change while the coordinator runs


def test_lowered_limit_counts_from_the_next_rebalance(context: Context) -> None:
    """Members continue working; the next generation keeps within the limit."""
    a, b, c = context.stable_group("A", "B", "C")
    context.configure(max_size=2)
    assert [m.heartbeat() for m in (a, b, c)] == [0, 0, 0]
    joining = a.join()
    b.join()
    assert c.join().result.error_code == 81
    context.sleep(30_000)
    assert len(joining.result.members) == 2
