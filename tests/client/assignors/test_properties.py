"""Properties of all assignments, for any group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.assignors.checks import (
    check_balanced,
    check_complete,
    check_wanted,
)

from kohort.client.assignors import ASSIGNORS, unequal
from kohort.client.assignors.contract import (
    Assignment,
    MemberSubscription,
    PartitionRacks,
)

Cluster = dict[str, list[PartitionRacks]]
Group = dict[str, MemberSubscription]

TOPICS = ["a", "b", "c", "d"]
racks = st.sampled_from([None, "x", "y", "z"])
every_assignor = pytest.mark.parametrize("name", list(ASSIGNORS))
every_sticky = pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Up to four topics."""
    replicas = st.lists(racks, max_size=3) if draw(st.booleans()) else st.just([])
    return {
        topic: [PartitionRacks(n, at) for n, at in enumerate(draw(st.lists(replicas)))]
        for topic in draw(st.sets(st.sampled_from(TOPICS)))
    }


@st.composite
def groups(draw: st.DrawFn, *, with_racks: bool = True) -> Group:
    """Members with equal or different subscriptions, some of them empty."""
    topics = st.lists(st.sampled_from(TOPICS), unique=True)
    common = st.just(draw(topics)) if draw(st.booleans()) else topics
    rack = racks if with_racks else st.none()
    return {
        member: MemberSubscription(draw(common), rack=draw(rack))
        for member in draw(st.sets(st.text(min_size=1, max_size=3), max_size=8))
    }


def rejoin(name: str, group: Group, given: Assignment, generation: int) -> Group:
    """The members rejoin with their last assignments."""
    assignor = ASSIGNORS[name]
    eager = name == "sticky"
    return {
        member: replace(
            subscription,
            user_data=assignor.metadata_user_data(given[member], generation),
            owned=[] if eager else given[member],
            generation=generation,
        )
        for member, subscription in group.items()
    }


@every_assignor
@given(cluster=clusters(), group=groups())
def test_every_partition_has_one_owner(
    name: str, cluster: Cluster, group: Group
) -> None:
    """Every subscribed partition is assigned to a subscriber."""
    check_complete(ASSIGNORS[name].assign(cluster, group), cluster, group)


@every_sticky
@given(cluster=clusters(), group=groups())
def test_a_new_group_is_balanced(name: str, cluster: Cluster, group: Group) -> None:
    """No move would make two members more equal."""
    check_balanced(ASSIGNORS[name].assign(cluster, group), group)


@given(cluster=clusters(), first=groups(), second=groups())
def test_a_division_comes_to_an_end(
    cluster: Cluster, first: Group, second: Group
) -> None:
    """Even if the Java algorithm does not end: then each move has to level."""
    assignor = ASSIGNORS["sticky"]
    before = assignor.assign(cluster, first)
    given = {member: before.get(member, []) for member in second}
    group = rejoin("sticky", second, given, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unequal, "PATIENCE", 0)
        check_complete(assignor.assign(cluster, group), cluster, group)


@every_sticky
@given(cluster=clusters(), group=groups(with_racks=False))
def test_who_rejoins_keeps_everything(
    name: str, cluster: Cluster, group: Group
) -> None:
    """Without changes the assignment stays the same."""
    before = ASSIGNORS[name].assign(cluster, group)
    after = ASSIGNORS[name].assign(cluster, rejoin(name, group, before, 1))
    assert {member: set(each) for member, each in after.items()} == {
        member: set(each) for member, each in before.items()
    }


@given(cluster=clusters(), first=groups(), second=groups())
def test_cooperative_members_revoke_before_others_get(
    cluster: Cluster, first: Group, second: Group
) -> None:
    """No generation assigns a partition that another member still owns."""
    assignor = ASSIGNORS["cooperative-sticky"]
    given = assignor.assign(cluster, first)
    for generation in range(1, 4):
        owned = {member: given.get(member, []) for member in second}
        group = rejoin(assignor.name, second, owned, generation)
        given = assignor.assign(cluster, group)
        check_wanted(given, second)
        for member, partitions in given.items():
            for other in second:
                assert other == member or not set(partitions) & set(owned[other])


@given(cluster=clusters(), topics=st.sets(st.sampled_from(TOPICS)), data=st.data())
def test_a_cooperative_group_is_done_after_two_rebalances(
    cluster: Cluster, topics: set[str], data: st.DataObject
) -> None:
    """The second rebalance assigns the partitions revoked in the first."""
    assignor = ASSIGNORS["cooperative-sticky"]
    ids = st.sets(st.sampled_from("abcdefgh"), min_size=1)
    subscription = MemberSubscription(sorted(topics))
    given = assignor.assign(cluster, dict.fromkeys(data.draw(ids), subscription))
    members = dict.fromkeys(data.draw(ids), subscription)
    for generation in (1, 2):
        owned = {member: given.get(member, []) for member in members}
        group = rejoin(assignor.name, members, owned, generation)
        given = assignor.assign(cluster, group)
    check_complete(given, cluster, members)
    check_balanced(given, members)


def test_of_two_that_claim_a_partition_the_newer_one_has_owned_it() -> None:
    """With the same generation, neither owned it, and both have to revoke it."""
    assignor = ASSIGNORS["cooperative-sticky"]
    cluster = {"t": [PartitionRacks(0), PartitionRacks(1)]}

    def divided(one: int, other: int) -> Assignment:
        claim = [("t", 0)]
        group = {
            "one": MemberSubscription(["t"], owned=claim, generation=one),
            "other": MemberSubscription(["t"], owned=claim, generation=other),
        }
        return assignor.assign(cluster, group)

    assert divided(1, 2) == {"one": [("t", 1)], "other": [("t", 0)]}
    assert divided(2, 1) == {"one": [("t", 0)], "other": [("t", 1)]}
    given = divided(2, 2)
    assert sorted(given.values()) == [[], [("t", 1)]]


def test_what_does_not_exist_is_not_given_back() -> None:
    """A topic was deleted and created again with fewer partitions."""
    cluster = {"t": [PartitionRacks(0)]}
    owned = [("t", 0), ("t", 1), ("gone", 0)]
    group = {"m": MemberSubscription(["t", "gone"], owned=owned, generation=4)}
    given = ASSIGNORS["cooperative-sticky"].assign(cluster, group)
    assert given == {"m": [("t", 0)]}


def test_nothing_goes_back_to_a_member_that_has_lost_interest() -> None:
    """It has missed a rebalance and changed its topics since.

    The Java client assigns it a partition of the old one, which it drops.
    """
    cluster = {topic: [PartitionRacks(n) for n in range(6)] for topic in ("old", "new")}
    everything = [("old", n) for n in range(6)]
    group = {
        "owner": MemberSubscription(["old"], owned=everything, generation=5),
        "late": MemberSubscription(["new"], owned=everything, generation=4),
        "third": MemberSubscription(["new", "old"], owned=[], generation=5),
    }
    given = ASSIGNORS["cooperative-sticky"].assign(cluster, group)
    check_wanted(given, group)
    assert not {topic for topic, _ in given["late"]} - {"new"}


@pytest.mark.parametrize("data", [b"", b"\xff", b"\0\0\0\1\0\1t\xff\xff\xff\xff"])
def test_user_data_that_cannot_be_read_are_no_past(data: bytes) -> None:
    """A member with other or newer user data is assigned like a new one."""
    cluster = {"t": [PartitionRacks(n) for n in range(4)]}
    group = {member: MemberSubscription(["t"], data) for member in ("a", "b")}
    given = ASSIGNORS["sticky"].assign(cluster, group)
    assert given == {"a": [("t", 0), ("t", 2)], "b": [("t", 1), ("t", 3)]}
