"""The assignors of consumer groups, without Kafka's classes beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.broker.coordinator.consumer.assignors import (
    ASSIGNORS,
    Assignments,
    MemberSpec,
    meeting_order,
)
from kohort.broker.coordinator.topics import TopicImage

Subscriptions = Mapping[str, Iterable[str]]
Assigned = dict[str, dict[str, set[int]]]


def topic_id(name: str) -> bytes:
    """The id of a topic in these tests."""
    return name.encode().ljust(16, b"-")


class Stage:
    """Topics by their number of partitions, and the assignments so far."""

    def __init__(self, **topics: int) -> None:
        self.topics = {
            topic_id(name): TopicImage(topic_id(name), name, [[]] * count)
            for name, count in topics.items()
        }
        self.target: Assignments = {}

    def assign(
        self,
        assignor: str,
        subscriptions: Subscriptions,
        instances: Mapping[str, str] | None = None,
    ) -> Assigned:
        """Has members assigned; returns their partitions by topic."""
        members = list(subscriptions)
        order = meeting_order(members[:-1], len(members) - 1, updated=members[-1])
        specs = {
            member_id: MemberSpec(
                [topic_id(name) for name in subscriptions[member_id]],
                (instances or {}).get(member_id),
                None,
                self.target.get(member_id, {}),
            )
            for member_id in order
        }
        homogeneous = len({frozenset(names) for names in subscriptions.values()}) == 1
        self.target = ASSIGNORS[assignor](specs, self.topics, homogeneous=homogeneous)
        return {
            member_id: {
                self.topics[each].name: set(partitions)
                for each, partitions in assigned.items()
            }
            for member_id, assigned in self.target.items()
        }


def sizes(assigned: Assigned) -> list[int]:
    """The numbers of partitions of the members, sorted."""
    return sorted(sum(map(len, each.values())) for each in assigned.values())


def moved(before: Assigned, after: Assigned) -> int:
    """The number of partitions that a member lost."""
    return sum(
        len(partitions - after.get(member_id, {}).get(name, set()))
        for member_id, assigned in before.items()
        for name, partitions in assigned.items()
    )


def check_complete(
    stage: Stage, subscriptions: Subscriptions, assigned: Assigned
) -> None:
    """Each partition with subscribers has one member, which subscribes to it."""
    taken = [
        (name, partition)
        for member_id, found in assigned.items()
        for name, partitions in found.items()
        for partition in partitions
        if name in set(subscriptions[member_id])
    ]
    wanted = {name for names in subscriptions.values() for name in names}
    assert sorted(taken) == sorted(
        (topic.name, partition)
        for topic in stage.topics.values()
        if topic.name in wanted
        for partition in range(len(topic.racks))
    )
    assert sum(sizes(assigned)) == len(taken)


def test_uniform_balances_members_with_equal_topics() -> None:
    """Ten partitions and three members: four, three, three."""
    assigned = Stage(orders=7, bills=3).assign(
        "uniform", {each: ["orders", "bills"] for each in ("ana", "ben", "carl")}
    )
    assert sizes(assigned) == [3, 3, 4]


def test_uniform_moves_no_more_than_a_new_member_needs() -> None:
    """A fourth member gets its quota of 2; no other partition moves."""
    stage = Stage(orders=8)
    before = stage.assign("uniform", {"ana": ["orders"], "ben": ["orders"]})
    names = ("ana", "ben", "carl", "dora")
    after = stage.assign("uniform", {key: ["orders"] for key in names})
    assert sizes(after) == [2, 2, 2, 2]
    assert moved(before, after) == 4


def test_uniform_revokes_topics_that_members_left() -> None:
    """Ana and ben no longer subscribe to bills."""
    stage = Stage(orders=4, bills=4)
    stage.assign("uniform", {key: ["orders", "bills"] for key in ("ana", "ben")})
    after = stage.assign("uniform", {key: ["orders"] for key in ("ana", "ben")})
    assert all(found.keys() == {"orders"} for found in after.values())


def test_uniform_balances_members_with_different_topics() -> None:
    """Ben alone reads bills, so ana gets orders."""
    stage = Stage(orders=4, bills=4)
    subscriptions = {"ana": ["orders"], "ben": ["orders", "bills"]}
    assigned = stage.assign("uniform", subscriptions)
    assert assigned == {
        "ana": {"orders": {0, 1, 2, 3}},
        "ben": {"bills": {0, 1, 2, 3}},
    }


def test_uniform_gives_up_balance_that_subscriptions_do_not_allow() -> None:
    """A member whose topic is its own keeps it, however large."""
    stage = Stage(orders=2, bills=20)
    subscriptions = {"ana": ["orders"], "ben": ["orders", "bills"]}
    assert sizes(stage.assign("uniform", subscriptions)) == [2, 20]


def test_range_gives_equal_numbers_to_one_member() -> None:
    """Topics with as many partitions are divided alike."""
    assigned = Stage(orders=5, bills=5).assign(
        "range", {key: ["orders", "bills"] for key in ("carl", "ana")}
    )
    assert assigned == {
        "ana": {"orders": {0, 1, 2}, "bills": {0, 1, 2}},
        "carl": {"orders": {3, 4}, "bills": {3, 4}},
    }


def test_range_sorts_static_members_first_by_instance() -> None:
    """The instance id decides, whatever the member ids are."""
    assigned = Stage(orders=3).assign(
        "range",
        {key: ["orders"] for key in ("ana", "ben", "carl")},
        {"carl": "instance-1", "ben": "instance-2"},
    )
    assert assigned == {
        "carl": {"orders": {0}},
        "ben": {"orders": {1}},
        "ana": {"orders": {2}},
    }


def test_range_counts_subscribers_of_each_topic() -> None:
    """A member that does not subscribe takes no part in a topic."""
    assigned = Stage(orders=2, bills=2).assign(
        "range", {"ana": ["orders"], "ben": ["bills", "orders"], "carl": ["bills"]}
    )
    assert assigned == {
        "ana": {"orders": {0}},
        "ben": {"orders": {1}, "bills": {0}},
        "carl": {"bills": {1}},
    }


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_members_without_topics(assignor: str) -> None:
    """They get nothing, and lose what they had; a group may have no members."""
    stage = Stage(orders=3)
    stage.assign(assignor, {"ana": ["orders"]})
    assert stage.assign(assignor, {"ana": [], "ben": []}) == {"ana": {}, "ben": {}}
    assert not ASSIGNORS[assignor]({}, stage.topics, homogeneous=True)


NAMES = ["orders", "bills", "payments", "clicks"]


@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.lists(
        st.dictionaries(
            st.sampled_from([f"member-{i}" for i in range(20)]),
            st.sets(st.sampled_from(NAMES)),
            min_size=1,
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(1, 40), min_size=4, max_size=4),
)
def test_each_partition_has_one_member(
    assignor: str, groups: list[dict[str, Collection[str]]], counts: list[int]
) -> None:
    """Also when members come, leave and change their topics."""
    stage = Stage(**dict(zip(NAMES, counts, strict=True)))
    for subscriptions in groups:
        assigned = stage.assign(assignor, subscriptions)
        check_complete(stage, subscriptions, assigned)
        again = stage.assign(assignor, subscriptions)
        assert moved(assigned, again) == 0
