"""Committed offsets: commit, fetch, delete, expire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import START
from tests.coordinator.member import subscribed

from kohort.broker.coordinator.effects import OffsetRecord
from kohort.broker.coordinator.events import TopicsDeleted
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.offsets import CHECKED_AT_ONCE, COST_OF_GROUP
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.runtime.machine import CHECK_PAUSE

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


# -- commit


def test_simple_consumer(context: Context) -> None:
    """A commit without a generation creates a group without members or type."""
    assert context.commit([("t", 0, 7, 3, "m")]).error_code == 0
    shown = context.describe()
    assert (shown.state, shown.protocol_type) == ("Empty", "")
    assert context.fetch([("t", [0])]).topics == [("t", [(0, 7, 3, "m", 0)])]
    entry = (7, 3, "m", int(START * 1000))
    assert context.records == [OffsetRecord("g", "t", 0, entry)]


def test_metadata_counts_in_utf16(context: Context) -> None:
    """Metadata that is too long is refused for its partition only."""
    metadata = ["ü" * 4_096, "x" * 4_097, None, "😀" * 2_048, "😀" * 2_049]
    result = context.commit([("t", p, p, -1, m) for p, m in enumerate(metadata)])
    assert (result.error_code, result.codes) == (0, [0, 12, 0, 0, 12])
    assert [context.committed("t", p) for p in range(5)] == [0, -1, 2, 3, -1]
    (a,) = context.stable_group("A")
    long = [("t", 1, 2, -1, "x" * 4_097)]
    context.commit(long, generation_id=1, member_id=a.member_id)
    refused = context.event("commit_refused")
    assert (refused["generation"], refused["member_id"]) == (1, a.member_id)


def test_a_commit_of_too_much_metadata_makes_a_group(context: Context) -> None:
    """The group has no record; it is visible after another group's record."""
    too_much = [("t", 0, 1, -1, "x" * 4_097)]
    assert context.commit(too_much).codes == [12]
    assert (context.state(), context.list_groups().groups) == ("Dead", [])
    assert context.commit(too_much, generation_id=1, member_id="x").error_code == 25
    context.commit([("t", 0, 1, -1, "")], group="other")
    assert context.state() == "Empty"
    context.restart()
    assert context.state() == "Dead"
    context.commit(too_much)
    assert context.delete() == 0


# -- fetch


def test_fetching(context: Context) -> None:
    """Fetches all, some or no offsets; unknown ones are -1, without an error."""
    context.commit([("x", 1, 1, -1, ""), ("y", 0, 2, -1, "m"), ("x", 0, 3, -1, "")])
    assert context.fetch().topics == [
        ("x", [(1, 1, -1, "", 0), (0, 3, -1, "", 0)]),
        ("y", [(0, 2, -1, "m", 0)]),
    ]
    assert context.fetch([]).topics == []
    unknown = [("x", [7]), ("z", [0])]
    assert context.fetch(unknown).topics == [
        ("x", [(7, -1, -1, "", 0)]),
        ("z", [(0, -1, -1, "", 0)]),
    ]
    assert context.fetch(None, "nobody's").topics == []
    assert context.fetch([("x", [0])], "").topics == [("x", [(0, -1, -1, "", 0)])]


def test_offsets_outlive_members_but_not_the_group(context: Context) -> None:
    """Offsets stay when the last member leaves, and are deleted with the group."""
    (a,) = context.stable_group("A")
    a.commit("t", 9)
    a.leave()
    assert context.committed("t") == 9
    assert context.delete() == 0
    assert context.committed("t") == -1
    assert context.records[-2] == OffsetRecord("g", "t", 0, None)
    assert context.tombstones() == ["g"]


# -- delete


def test_delete_offsets(context: Context) -> None:
    """Deletes offsets of a group without members; a missing offset is no error."""
    context.commit([("t", 0, 1, -1, ""), ("t", 1, 2, -1, "")])
    result = context.delete_offsets(("t", [0, 0, 5]), ("u", [0]))
    assert result.topics == [("t", [(0, 0), (0, 0), (5, 0)]), ("u", [(0, 0)])]
    assert [context.committed("t", p) for p in (0, 1)] == [-1, 2]
    assert context.offset_records()[2:] == [OffsetRecord("g", "t", 0, None)]


@pytest.mark.parametrize(("before", "code"), [("consumer", 0), ("connect", 86)])
@pytest.mark.parametrize("restart", [False, True])
def test_no_generation_yet_after_others(
    context: Context, before: str, code: int, *, restart: bool
) -> None:
    """An Empty group of consumers has no subscriptions; that of others is unknown."""
    (a,) = context.stable_group("A", protocol_type=before, protocols=subscribed("t"))
    a.leave()
    context.commit([("t", 0, 1, -1, "")])
    if restart:
        context.restart()
    context.configure(initial_rebalance_delay_ms=3_000)
    context.member("B", protocols=subscribed("t")).enter()
    assert context.delete_offsets(("t", [0])).topics == [("t", [(0, code)])]


def test_topics_that_are_deleted(context: Context) -> None:
    """Offsets of a deleted topic are deleted in all groups, with or without members."""
    context.stable_group("A", protocols=subscribed("x"))
    members = context.coordinator.groups["g"].members
    context.commit(
        [("x", 0, 1, -1, ""), ("y", 0, 2, -1, "")],
        generation_id=1,
        member_id=next(iter(members)),
    )
    context.commit([("x", 3, 1, -1, "")], group="h")
    context.submit(TopicsDeleted(["x"]))
    assert (context.committed("x"), context.committed("y")) == (-1, 2)
    assert context.records[-2:] == [
        OffsetRecord("g", "x", 0, None),
        OffsetRecord("h", "x", 3, None),
    ]


# -- expire


@pytest.fixture
def days() -> Context:
    """Retention of a day, checked every minute."""
    return Context(
        initial_rebalance_delay_ms=0,
        offsets_retention_ms=DAY_MS,
        offsets_retention_check_interval_ms=MINUTE_MS,
    )


def test_offsets_of_an_empty_group_expire(days: Context) -> None:
    """A day after the group became Empty, its offsets and the group expire."""
    (a,) = days.stable_group("A", session_ms=DAY_MS // 48, rebalance_ms=DAY_MS)
    a.commit("t", 1)
    a.commit("u", 2)
    days.sleep(DAY_MS // 48)
    assert days.state() == "Empty"
    days.sleep(DAY_MS - MINUTE_MS)
    assert days.committed("t") == 1
    days.sleep(2 * MINUTE_MS)
    assert (days.committed("t"), days.state()) == (-1, "Dead")
    assert days.tombstones() == ["g"]
    expired = [{"topic": name, "partitions": [0]} for name in "tu"]
    assert days.event("offsets_expired")["expired"] == expired


def test_very_many_groups_expire_in_parts() -> None:
    """A turn checks a limited number; the check continues until all have expired."""
    context = Context(
        offsets_retention_ms=DAY_MS // 2, offsets_retention_check_interval_ms=DAY_MS
    )
    for number in range(300):
        context.commit([("t", 0, 1, -1, ""), ("t", 1, 1, -1, "")], group=f"g{number}")
    before = len(context.records)
    context.sleep(DAY_MS)
    # A group with two offsets counts as seven.
    part = CHECKED_AT_ONCE // (COST_OF_GROUP + 2) + 1
    for left in (300 - part, 300 - 2 * part, 0):
        assert len(context.coordinator.groups) == left
        context.sleep(CHECK_PAUSE * 1500)
    assert len(context.records) - before == 3 * 300
    # The next check comes at its own time.
    context.commit([("t", 0, 1, -1, "")])
    context.sleep(DAY_MS - MINUTE_MS)
    assert context.coordinator.groups
    context.sleep(MINUTE_MS)
    assert not context.coordinator.groups


def test_a_check_does_nothing_while_nothing_can_expire(days: Context) -> None:
    """A clock that moves by days runs hundreds of checks, on any number of groups."""
    checks = []

    class Watched(dict[str, Group]):
        def __iter__(self) -> Iterator[str]:
            checks.append(len(self))
            return super().__iter__()

    days.coordinator.groups = Watched()
    days.commit([("t", 0, 1, -1, "")])
    days.sleep(DAY_MS // 2)
    days.commit([("t", 1, 1, -1, "")])
    days.sleep(DAY_MS)
    # The first two, as both followed a commit, and those at which offsets expired.
    assert checks == [1, 1, 1, 1]


def test_a_topic_that_members_leave_expires_at_the_next_check(days: Context) -> None:
    """Its offset is older than a day; the checks before found nothing to come."""
    session_ms = 1_800_000
    wants = subscribed("x", "y")
    (a,) = days.stable_group("A", protocols=wants, session_ms=session_ms)
    a.commit("y", 1)
    for _ in range(49):
        days.sleep(session_ms - 1_000)
        assert a.heartbeat() == 0
    assert days.committed("y") == 1
    a.protocols = subscribed("x")
    a.join()
    days.sync_all([a])
    days.sleep(MINUTE_MS)
    assert days.committed("y") == -1


def test_a_shorter_retention_counts_at_the_next_check(days: Context) -> None:
    """It may be changed at run time."""
    days.commit([("t", 0, 1, -1, "")])
    days.sleep(10 * MINUTE_MS)
    days.coordinator.settings = GroupSettings(
        offsets_retention_ms=5 * MINUTE_MS,
        offsets_retention_check_interval_ms=MINUTE_MS,
    )
    days.sleep(MINUTE_MS)
    assert days.committed("t") == -1


def test_retention_of_a_commit(days: Context) -> None:
    """Until v4 a commit may set its retention time; the next commit replaces it."""
    for partition in (0, 1):
        days.commit([("t", partition, 1, -1, "")], retention_ms=5 * MINUTE_MS)
    assert days.offset_records()[0].expire_timestamp_ms == int(START * 1000) + 300_000
    days.commit([("t", 1, 2, -1, "")])
    days.sleep(6 * MINUTE_MS)
    assert [days.committed("t", p) for p in (0, 1)] == [-1, 2]
