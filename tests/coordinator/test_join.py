"""JoinGroup: members that are admitted, have to join again, or are refused."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import HOST
from tests.coordinator.member import assign, protocols

from kohort.broker.notice import Client
from kohort.protocol.consumer import Subscription, TopicPartitions, encode


def test_first_member_of_an_old_client(context: Context) -> None:
    """A client without support for MEMBER_ID_REQUIRED joins at once, and leads."""
    a = context.member("A", requires_id=False)
    result = a.join().result
    assert (result.error_code, result.generation_id) == (0, 1)
    assert result.leader == result.member_id == a.member_id
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert result.members == [(a.member_id, None, b"meta-A")]


def test_member_id_required(context: Context) -> None:
    """A dynamic member gets an id, and has to join again with it (KIP-394)."""
    a = context.member("A")
    first = a.join().result
    assert first.error_code == 79
    assert first.member_id.startswith("A-")
    assert context.state() == "Empty"
    second = a.join().result
    assert (second.error_code, second.member_id) == (0, first.member_id)


def test_static_members_need_no_second_round_trip(context: Context) -> None:
    """A static member joins at once; its member id begins with the instance id."""
    a = context.member("A", instance="i-A")
    assert a.join().result.error_code == 0
    assert a.member_id.startswith("i-A-")


@pytest.mark.parametrize("instance", ["", " ", "a/b", "..", "x" * 250])
def test_any_instance_id_will_do(context: Context, instance: str) -> None:
    """The broker accepts any group.instance.id, even the empty one."""
    result = context.member("A", instance=instance).join().result
    assert result.members[0][1] == instance


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [(-1, 26), (5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26)],
)
def test_bounds_of_session_timeouts(
    context: Context, session_ms: int, code: int
) -> None:
    """Session timeouts have to be within the broker's bounds."""
    assert context.member("A").join(session_ms=session_ms).result.error_code == code


def test_which_error_wins(context: Context) -> None:
    """Order: group id, session timeout, member id; the id is returned."""
    a = context.member("A")
    assert a.join(group="", session_ms=1).result.error_code == 24
    result = a.join(session_ms=1, member_id="made-up").result
    assert (result.error_code, result.member_id) == (26, "made-up")


@pytest.mark.parametrize(
    "over",
    [
        {"protocols": []},
        {"protocol_type": ""},
        {"protocol_type": "", "protocols": []},
    ],
)
def test_joins_without_protocols(context: Context, over: dict[str, object]) -> None:
    """A join without protocols or type gets code 23, but creates the group."""
    a = context.member("A")
    result = a.join(**over).result
    assert (result.error_code, result.member_id) == (23, "")
    assert (context.state(), context.describe().protocol_type) == ("Empty", "")


def test_nothing_in_common(context: Context) -> None:
    """Another type, or protocols that others lack: code 23, and no rebalance."""
    (a,) = context.stable_group("A")
    b = context.member("B", requires_id=False)
    assert b.join(protocol_type="connect").result.error_code == 23
    assert b.join(protocols=protocols("roundrobin")).result.error_code == 23
    assert (a.heartbeat(), context.state()) == (0, "Stable")


def test_sole_member_with_other_protocols(context: Context) -> None:
    """The only member can change its protocols only by way of joins that offer both."""
    (a,) = context.stable_group("A")
    assert a.join(protocols=protocols("sticky")).result.error_code == 23
    assert context.state() == "Stable"
    both = a.join(protocols=protocols("sticky", "range")).result
    assert (both.generation_id, both.protocol_name) == (2, "sticky")
    assert a.join(protocols=protocols("sticky")).result.generation_id == 3


def test_type_of_an_empty_group(context: Context) -> None:
    """An Empty group keeps its type until a member with another one joins."""
    (a,) = context.stable_group("A")
    a.leave()
    assert context.describe().protocol_type == "consumer"
    b = context.member("B", requires_id=False, protocol_type="connect")
    assert b.join().result.generation_id == 3
    assert context.describe().protocol_type == "connect"


def test_repeated_protocol_names_count_once(context: Context) -> None:
    """The first of two protocols with one name counts; Kafka never answers."""
    a = context.member("A", requires_id=False)
    result = a.join(protocols=[("p", b"first"), ("p", b"second")]).result
    assert (result.protocol_name, result.members[0][2]) == ("p", b"first")


def test_malformed_metadata_of_consumers(context: Context) -> None:
    """Metadata that is not a subscription does no harm; Kafka never answers."""
    a = context.member("A", requires_id=False)
    absurd = b"\0\0\x7f\xff\xff\xff"
    assert a.join(protocols=[("range", absurd)]).result.error_code == 0


def test_leader_asks_again_before_it_syncs(context: Context) -> None:
    """In CompletingRebalance an unchanged join gets the same answer again."""
    a, b = context.stable_group("A", "B", sync=False)
    again = a.join().result
    assert (again.generation_id, len(again.members)) == (2, 2)
    assert b.join().result.members == ()
    assert context.state() == "CompletingRebalance"


def test_follower_rejoins_in_stable(context: Context) -> None:
    """An unchanged follower gets its generation, even with other timeouts."""
    a, b = context.stable_group("A", "B")
    result = b.join(session_ms=20_000, rebalance_ms=25_000).result
    assert (result.error_code, result.generation_id, result.members) == (0, 2, ())
    assert (result.leader, a.heartbeat()) == (a.member_id, 0)


def test_order_of_protocols_is_metadata(context: Context) -> None:
    """A follower that changes its order of protocols causes a rebalance."""
    both = protocols("x", "y")
    a, b = context.stable_group("A", "B", protocols=both)
    joining = b.join(protocols=both[::-1])
    assert (joining.answered, a.heartbeat()) == (False, 27)
    assert a.join().result.protocol_name == "x"


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        (("range", "sticky"), "leader_rejoined"),
        (("range",), "metadata_changed"),
        (("range", "sticky", "new"), "metadata_changed"),
        (("sticky", "range"), "metadata_changed"),
    ],
)
def test_a_leader_that_owns_other_partitions_has_not_changed(
    context: Context, names: tuple[str, ...], cause: str
) -> None:
    """A leader's offer is its assignors and topics, not the partitions that it owns."""
    offered = [(name, encode(Subscription(["t"]))) for name in ("range", "sticky")]
    (a,) = context.stable_group("A", protocols=offered)
    owned = encode(Subscription(["t"], owned_partitions=[TopicPartitions("t", [0])]))
    a.join(protocols=[(name, owned) for name in names])
    assert context.event("rebalance_started")["cause"] == cause


def test_pending_member_with_an_instance_id(context: Context) -> None:
    """As in Kafka, a pending id with an instance id is refused."""
    a = context.member("A")
    a.join()
    result = a.join(instance="i-A").result
    assert (result.error_code, result.member_id) == (-1, "")


def test_events_name_the_connection_of_the_latest_join(context: Context) -> None:
    """Events name the connection of a member's latest join."""
    a, b = context.stable_group("A", "B")
    a.join()
    b.join(client=Client("B", HOST, 7))
    a.sync(assign(a, b))
    b.leave()
    assert context.event("member_left")["connection"] == 7
    assert a.commit("t", 1, generation_id=9) == 22
    assert context.event("commit_refused")["connection"] == a.client.connection


def test_a_commit_under_an_old_id_names_its_connection(context: Context) -> None:
    """A client that left, committed too late, and joins again is one process."""
    (a,) = context.stable_group("A")
    a.leave()
    old = a.member_id
    a.join(member_id="")
    a.join()
    assert a.commit("t", 1, member_id=old) == 25
    joined, refused = context.event("member_joined"), context.event("commit_refused")
    assert joined["member_id"] != refused["member_id"] == old
    assert joined["connection"] == refused["connection"] == a.client.connection
