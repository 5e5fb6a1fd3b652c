"""Members are in the order of Kafka's map of them, a java.util.HashMap.

Recorded with ``tests/data/MemberOrders.java``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member, assign

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member as GroupMember
from kohort.broker.notice import Client

RECORDED: list[tuple[list[str], list[str]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "member_orders.json").read_text("utf-8")
)
ARRIVED = ("ana", "cleo", "dora", "ben")
"""Members in order of arrival."""
LISTED = ["ben", "ana", "cleo", "dora"]
"""The same, in the order of a HashMap with their ids."""


@pytest.mark.parametrize("is_watched", [False, True])
def test_members_iterate_as_in_java(is_watched: bool) -> None:
    """The order is Java's after any joins and departures, with up to 400 members."""
    for steps, order in RECORDED:
        group = ClassicGroup("g", 0)
        for step in steps:
            member_id = step[1:]
            if step[0] == "-":
                group.remove(group.members[member_id])
            else:
                client = Client("c", "/h")
                member = GroupMember("g", member_id, None, client, 1, 1, ())
                member.join_token = object()
                group.add(member, "consumer")
            if is_watched:
                group.ordered()
        assert [member.member_id for member in group.ordered()] == order


def test_the_recorded_members_are_many_and_of_all_kinds() -> None:
    """The recording has shrinking groups, collisions, and ids beyond ASCII."""
    most = max(len(order) for _, order in RECORDED)
    assert most > 100
    assert any(step[0] == "-" for step in RECORDED[-1][0])
    assert sum(not "".join(order).isascii() for _, order in RECORDED) > 20


@pytest.fixture
def members(context: Context) -> Sequence[Member]:
    """A Stable group of `ARRIVED`, led by ana."""
    return context.stable_group(*ARRIVED, static=True, rebalance_ms=5_000)


def in_order(context: Context) -> list[str]:
    """The members as DescribeGroups lists them, by name."""
    return [member.client_id for member in context.describe().members]


def test_every_list_has_that_order(context: Context, members: Sequence[Member]) -> None:
    """DescribeGroups, the record in the log and the leader's list have that order."""
    ids = {row[0]: row[2] for row in members[0].told}
    assert in_order(context) == LISTED
    assert [row[2] for row in context.group_records()[-1].members] == LISTED
    assert [*ids.values()] == [f"meta-{name}".encode() for name in LISTED]
    assert context.event("join_completed")["members"] == [*ids]


def test_joins_and_syncs_are_answered_in_that_order(
    context: Context, members: Sequence[Member]
) -> None:
    """Joins and syncs are answered in that order, not in the order of requests."""
    replies = len(context.answered)
    joins = [member.join() for member in members]
    assert context.answered[replies:] == [joins[ARRIVED.index(n)] for n in LISTED]
    replies += len(joins)
    syncs = [member.sync() for member in members[1:]]
    syncs.insert(0, members[0].sync(assign(*members)))
    assert context.answered[replies:] == [syncs[ARRIVED.index(n)] for n in LISTED]


def test_a_load_starts_a_new_map(context: Context) -> None:
    """A group that was larger has more buckets, until it is loaded from its log."""
    members = context.stable_group(*(f"m{n}" for n in range(13)))
    stay = members[0], members[10]
    for member in members:
        if member not in stay:
            member.leave()
    for member in stay:
        member.join()
    stay[0].sync()
    assert in_order(context) == ["m10", "m0"]
    context.restart()
    assert in_order(context) == ["m0", "m10"]
