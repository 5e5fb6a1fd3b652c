"""JoinGroup: members that are admitted, have to join again, or are refused."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import HOST
from tests.coordinator.member import assign

from kohort.broker.notice import Client
from kohort.protocol.consumer import Subscription, TopicPartitions, encode


def test_static_members_need_no_second_round_trip(context: Context) -> None:
    """A static member joins at once; its member id begins with the instance id."""
    a = context.member("A", instance="i-A")
    assert a.join().result.error_code == 0
    assert a.member_id.startswith("i-A-")


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
