"""Gold of small scenes, compared with numbers computed by hand.

All scenes share one set of tables, each in its own run or group, so that gold is
computed only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.metric_scenes import NAMES, ODD, STORMS, STORMS_FOUND, scenes
from tests.pipeline.silver_rows import Made, Scenes, ns

from kohort.pipeline.table_functions import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATHS = (
    "gold/hours",
    "gold/groups",
    "gold/runs",
    "gold/causes",
    "gold/storms",
    "gold/culprits",
    "gold/waited_for",
)
DELIVERED = ("received", "again_certain", "again_possible", "skipped", "went_back")
NUMBERS = (
    "rebalances",
    "completed",
    "interrupted",
    "storms",
    "storm_rebalances",
    "refused_full",
    "partitions_moved",
    "partitions_moved_least",
    "expired",
    "metadata_bytes",
    "assignment_bytes",
    "commits",
    "offsets",
    "commit_failures",
    *DELIVERED,
    "lag_built",
)
SECONDS = (
    *("downtime_s", "unprocessed_s", "partition_s", "paused_s", "member_s"),
    "expired_unread_s",
)
MOST = (
    "members_most",
    "duration_max_s",
    "expired_unread_max_s",
    "lag_built_max",
    "catch_up_max_s",
)
MAPS = ("by_cause", "commit_failures_by_error", "downtime_by_cause")
EMPTY = {
    **dict.fromkeys((*NUMBERS, "members_most", "refused_full_names"), 0),
    **dict.fromkeys(SECONDS, 0.0),
}
"""The values of a group without rebalances; all others are null."""


def hour(number: int) -> datetime:
    """The start of an hour, as a session in UTC reads it back."""
    return datetime.fromtimestamp(number * 3600, UTC).replace(tzinfo=None)


@pytest.fixture(scope="module")
def gold(spark: SparkSession) -> Made:
    """All scenes, computed once."""
    return Made(spark, scenes(), Options()).make(*PATHS)


def some(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """Some values of a row."""
    return tuple(row[name] for name in names)


def by_hour(gold: Made, run: str, *names: str, group: str = "g") -> dict[int, Any]:
    """A group's numbers by hour since the epoch."""
    rows = gold.rows("gold/hours", run=run, group=group)
    at = {row["hour"]: some(row, *names) for row in rows}
    assert len(at) == len(rows)
    return {int(each.replace(tzinfo=UTC).timestamp()) // 3600: at[each] for each in at}


# -- intervals cut at hours


def test_an_interval_over_midnight_is_in_both_hours(gold: Made) -> None:
    """Hours get 600 and 900 s of a membership, 10 and 30 s of a pause.

    A rebalance at the start of an hour is in it; a refusal 1 ns earlier is not.
    """
    names = ("member_s", "paused_s", "rebalances", "refused_full")
    assert by_hour(gold, "midnight", *names) == {
        23: (600, 10, 0, 1),
        24: (900, 30, 1, 0),
    }
    whole = gold.row("gold/groups", run="midnight")
    assert some(whole, "member_s", "paused_s") == (1500, 40)
    rows = gold.rows("gold/hours", run="midnight")
    assert [row["hour"] for row in rows] == [hour(23), hour(24)]


def test_what_has_no_end_counts_up_to_the_end_of_the_run(gold: Made) -> None:
    """Open intervals from 100 s and 4990 s last until the last event, at 5000 s."""
    names = ("member_s", "paused_s", "rebalances", "completed")
    assert by_hour(gold, "open", *names) == {0: (3500, 0, 0, 0), 1: (1400, 10, 1, 0)}


def test_a_run_may_be_shorter_than_an_hour(gold: Made) -> None:
    """A member is there for 8 of the run's 10 seconds."""
    assert by_hour(gold, "short", "member_s") == {0: (8,)}


def test_a_membership_may_last_for_a_thousand_hours(gold: Made) -> None:
    """999 whole hours lie between two half hours."""
    parts = by_hour(gold, "thousand", "member_s")
    assert list(parts) == [*range(1001)]
    assert parts[0] == parts[1000] == (1800,)
    assert {parts[n] for n in range(1, 1000)} == {(3600,)}
    assert gold.row("gold/runs", run="thousand")["member_s"] == 3_600_000


def test_what_ends_on_the_hour_has_no_part_of_it(gold: Made) -> None:
    """All 3600 s are in hour 0; the crash, exactly at 3600 s, is in hour 1."""
    names = ("member_s", "expired")
    assert by_hour(gold, "on the hour", *names) == {0: (3600, 0), 1: (0, 1)}


def test_a_membership_of_no_time_makes_no_hour(gold: Made) -> None:
    """A member joined and left at the same time; the group has no other event."""
    assert not gold.rows("gold/hours", run="on the hour", group="at once")


# -- groups and runs without data


def test_every_group_with_an_event_has_a_row(gold: Made) -> None:
    """Counts are 0 and unknown values null, whatever the group's name."""
    assert {row["group"] for row in gold.rows("gold/groups", run="odd")} == {*ODD}
    keys = {"run", "group", "hour"}
    for path in ("gold/groups", "gold/hours"):
        for row in gold.rows(path, run="odd"):
            for name in row.keys() - keys:
                assert row[name] == EMPTY.get(name), (path, name)


def test_every_run_has_a_row(gold: Made) -> None:
    """A run without groups has a row, too, with its labels."""
    row = gold.row("gold/runs", run="idle")
    assert row["labels"] == {"scenario": "quiet", "seed": "7"}
    assert some(row, "scenario", "seed", "last_ns") == ("quiet", "7", ns(100))
    assert {name: row[name] for name in EMPTY} == EMPTY
    assert row["by_cause"] is row["downtime_share"] is row["duration_p50_s"] is None
    assert not gold.rows("gold/groups", run="idle")


def test_empty_tables_make_empty_tables(spark: SparkSession) -> None:
    """Gold of empty silver tables is empty."""
    empty = Made(spark, Scenes(), Options()).make(*PATHS)
    for path in PATHS:
        assert empty.rows(path) == []


# -- numbers


DURATIONS = ("duration_p50_s", "duration_p95_s", "duration_p99_s", "duration_max_s")


def test_percentiles_are_of_all_completed_rebalances(gold: Made) -> None:
    """A group's percentiles come from its rebalances, not from its hours.

    Of (1, 2): 1.5, 1.95, 1.99. Of (3, 4, 10): 4, 4 + 0.9 * 6, 4 + 0.98 * 6. Of all
    five: 3, 4 + 0.8 * 6, 4 + 0.96 * 6.
    """
    hours = by_hour(gold, "percentiles", *DURATIONS)
    assert hours[0] == pytest.approx((1.5, 1.95, 1.99, 2))
    assert hours[1] == pytest.approx((4, 9.4, 9.88, 10))
    for path in ("gold/groups", "gold/runs"):
        whole = some(gold.row(path, run="percentiles"), *DURATIONS)
        assert whole == pytest.approx((3, 8.8, 9.76, 10))


def test_what_rebalances_were_and_cost(gold: Made) -> None:
    """Only completed rebalances count for bytes and members: 100 + number bytes each.

    Hour 0: 200 + 3 bytes in 2 rebalances; hour 1: 300 + 12 in 3.
    """
    names = ("rebalances", "completed", "interrupted", "members_most")
    assert by_hour(gold, "percentiles", *names) == {0: (2, 2, 0, 2), 1: (5, 3, 1, 5)}
    bytes_ = ("metadata_bytes", "assignment_bytes", "bytes_per_rebalance")
    assert by_hour(gold, "percentiles", *bytes_) == {
        0: (200, 3, 101.5),
        1: (300, 12, 104),
    }
    assert gold.row("gold/groups", run="percentiles")["bytes_per_rebalance"] == 103
    assert by_hour(gold, "percentiles", "by_cause") == {
        0: ({"member_left": 1, "session_expired": 1},),
        1: ({"member_left": 2, "session_expired": 1, "sync_timeout": 2},),
    }


def test_lags_of_rebalances(gold: Made) -> None:
    """10 and 30 + 0 records of lag, caught up in 4 and 1 s: the median is 2.5 s."""
    names = ("lag_built", "lag_built_max", "catch_up_p50_s", "catch_up_max_s")
    assert by_hour(gold, "percentiles", *names) == {
        0: (10, 10, None, None),
        1: (30, 30, 2.5, 4),
    }
    whole = gold.row("gold/runs", run="percentiles")
    assert some(whole, *names) == (40, 30, 2.5, 4)


def test_commits_are_events_and_offsets_are_what_is_in_them(gold: Made) -> None:
    """A commit without offsets counts; an error of a heartbeat does not."""
    names = ("commits", "offsets", "commit_failures", "commit_failures_by_error")
    assert by_hour(gold, "commits", *names) == {
        0: (1, 3, 2, {"ILLEGAL_GENERATION": 2}),
        1: (2, 2, 2, {"ILLEGAL_GENERATION": 1, "UNKNOWN_MEMBER_ID": 1}),
    }
    for path in ("gold/groups", "gold/runs"):
        assert some(gold.row(path, run="commits"), *names) == (
            3,
            5,
            4,
            {"ILLEGAL_GENERATION": 3, "UNKNOWN_MEMBER_ID": 1},
        )


def test_the_account_of_delivery_adds_up(gold: Made) -> None:
    """Records not committed are those of each group's last account."""
    names = (*DELIVERED, "uncommitted")
    assert by_hour(gold, "delivery", *names) == {
        0: (10, 2, 3, 0, 0, 5),
        1: (7, 1, 0, 4, 2, 1),
        2: (0, 0, 0, 0, 0, None),
    }
    found = {row["group"]: row for row in gold.rows("gold/groups", run="delivery")}
    assert some(found["g"], *names) == (17, 3, 3, 4, 2, 1)
    assert some(gold.row("gold/runs", run="delivery"), *names) == (18, 3, 3, 4, 2, 7)


def test_maps_are_in_the_order_of_their_keys(gold: Made) -> None:
    """Maps are sorted, so that equal maps compare equal."""
    for path in ("gold/hours", "gold/groups", "gold/runs", "gold/storms"):
        rows = gold.rows(path)
        for name in {*MAPS} & {*rows[0]}:
            keys = [[*row[name]] for row in rows if row[name]]
            assert all(each == sorted(each) for each in keys)
            assert any(len(each) > 1 for each in keys)


def test_partitions_that_moved_and_that_were_unread(gold: Made) -> None:
    """Crashes: 5 + 45.5 partition-seconds, at most 45.5; a pause: 3 * 12."""
    names = ("partitions_moved", "partitions_moved_least")
    # A row per hour needs events; here only the moves have events.
    both = gold.row("gold/runs", run="partitions")
    assert by_hour(gold, "partitions", *names) == {0: (4, 1), 1: (6, 6)}
    assert some(both, *names) == (11, 7)
    expired = ("expired_unread_s", "expired_unread_max_s")
    assert by_hour(gold, "partitions", *expired) == {0: (50.5, 45.5), 1: (0, None)}
    assert some(both, *expired) == (52.5, 45.5)
    downtime = ("downtime_s", "downtime_by_cause")
    assert by_hour(gold, "partitions", *downtime) == {
        0: (80.5, {"expired": 50.5, "paused": 30}),
        1: (6, {"paused": 6}),
    }
    assert some(both, *downtime) == (88.5, {"expired": 52.5, "paused": 36})


def test_the_share_of_downtime_is_of_the_time_with_partitions(gold: Made) -> None:
    """Each moment of a partition counts once, as owned or as downtime.

    Two partitions have an owner from 0 to 100 s, one of them until 3700 s. An eager
    member pauses with both, for 10 s; from 95 to 105 s one has no reader, 5 s of that
    without an owner. Nobody has it while the group is empty. A third partition, never
    owned in the events, has no reader for 20 s up to the end of the run.
    """
    names = ("downtime_s", "partition_s", "downtime_share")
    assert by_hour(gold, "work", *names) == {
        0: (30, 3705, pytest.approx(30 / 3705)),
        1: (20, 120, pytest.approx(20 / 120)),
    }
    whole = gold.row("gold/groups", run="work")
    assert some(whole, *names) == (50, 3825, pytest.approx(50 / 3825))


def test_names_that_were_refused_count_once_wherever_they_came_again(
    gold: Made,
) -> None:
    """A name refused in several hours or groups counts once; a fenced one does not."""
    names = ("refused_full", "refused_full_names")
    assert by_hour(gold, "refusals", *names) == {0: (1, 1), 1: (3, 2)}
    assert some(gold.row("gold/groups", run="refusals", group="g"), *names) == (4, 2)
    assert some(gold.row("gold/runs", run="refusals"), *names) == (5, 2)


# -- storms


@pytest.mark.parametrize("group", STORMS)
def test_storms(gold: Made, group: str) -> None:
    """A storm has its rebalances, their number, times, causes and culprits."""
    rows = sorted(
        gold.rows("gold/storms", run="storms", group=group),
        key=lambda row: row["first_number"],
    )
    found = [some(row, "first_number", "last_number") for row in rows]
    assert found == STORMS_FOUND.get(group, [])
    for row, (first, last) in zip(rows, found, strict=True):
        assert row["rebalances"] == last - first + 1
        assert row["from_ns"] == ns(STORMS[group][first - 1])
        assert row["until_ns"] == ns(STORMS[group][last - 1])
        causes = Counter(
            "member_left" if number % 3 else "session_expired"
            for number in range(first, last + 1)
        )
        assert row["by_cause"] == causes
        named = [name for name in NAMES[first - 1 : last] if name is not None]
        assert row["names"] == [*dict.fromkeys(named)]


def test_a_storm_is_in_the_hour_in_which_it_began(gold: Made) -> None:
    """All 5 rebalances of a storm count in its first hour, which has only 2 of them."""
    names = ("rebalances", "storms", "storm_rebalances")
    hours = by_hour(gold, "storms", *names, group="over the hour")
    assert hours == {0: (2, 1, 5), 1: (3, 0, 0)}
    assert some(gold.row("gold/runs", run="storms"), *names) == (62, 9, 52)


def test_what_a_storm_is_can_be_said(spark: SparkSession) -> None:
    """With 2 rebalances in 1 s as a storm: 0 to 4 and 2000 to 2004, but not 1000."""
    some_ = scenes()
    table = some_.rows["silver/rebalances"]
    some_.rows["silver/rebalances"] = [e for e in table if e["group"] == "apart"]
    options = Options(storm_rebalances=2, storm_seconds=1.0)
    rows = Made(spark, some_, options).make("gold/storms").rows("gold/storms")
    assert sorted(some(row, "first_number", "last_number") for row in rows) == [
        (1, 5),
        (7, 11),
    ]


# -- causes and culprits


def test_causes_have_the_whole_of_their_pauses(gold: Made) -> None:
    """Pauses count for their rebalance: 4 + 3 s, 20 s across the hour, 20 s open.

    Unread: 2 + 5, 0 and 1 partition-seconds.
    """
    rows = gold.rows("gold/causes", run="people")
    names = ("hour", "cause", "rebalances", "completed", "paused_s", "downtime_s")
    assert [some(row, *names) for row in rows] == [
        (hour(0), "member_left", 2, 2, 27, 7),
        (hour(1), "member_left", 1, 0, 20, 0),
        (hour(1), "sync_timeout", 1, 1, 0, 1),
    ]
    # Percentiles of 4 and 6 s; null without a completed rebalance.
    assert some(rows[0], "duration_p50_s", "duration_p95_s") == pytest.approx((5, 5.9))
    assert rows[1]["duration_p50_s"] is None


def test_culprits_add_up_also_those_without_a_name(gold: Made) -> None:
    """Took 4 + 6 s, open ones 0; 27 + 20 member-seconds, 2 + 5 partition-seconds."""
    names = ("cause", "name", "rebalances", "duration_s", "paused_s", "downtime_s")
    assert [some(row, *names) for row in gold.rows("gold/culprits", run="people")] == [
        ("member_left", "x", 3, 10, 47, 7),
        ("sync_timeout", None, 1, 2, 0, 1),
    ]


def test_who_was_waited_for_has_the_name_of_its_membership(gold: Made) -> None:
    """m1 and m2 share a name; m9 has no membership and keeps its id."""
    names = ("name", "rebalances", "waited_s", "waited_max_s")
    rows = gold.rows("gold/waited_for", run="people")
    assert [some(row, *names) for row in rows] == [
        ("m9", 1, 1, 1),
        ("slow one", 2, 8, 5),
    ]


# -- sums across tables


def added(rows: Iterable[dict[str, Any]], name: str) -> dict[str, int]:
    """Sum of the maps in one column."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row[name] or {})
    return dict(total)


@pytest.mark.parametrize(
    ("fine", "coarse", "keys"),
    [
        ("gold/hours", "gold/groups", ("run", "group")),
        ("gold/groups", "gold/runs", ("run",)),
    ],
)
def test_what_adds_up_adds_up(
    gold: Made, fine: str, coarse: str, keys: tuple[str, ...]
) -> None:
    """Hours add up to groups, groups to runs; maxima are maxima of maxima."""
    seen = set()
    for whole in gold.rows(coarse):
        parts = gold.rows(fine, **{key: whole[key] for key in keys})
        for name in NUMBERS:
            assert whole[name] == sum(part[name] for part in parts), (whole, name)
            seen |= {name} if whole[name] else set()
        for name in SECONDS:
            assert whole[name] == pytest.approx(sum(part[name] for part in parts))
        for name in MAPS:
            assert (whole[name] or {}) == added(parts, name)
        for name in MOST:
            known = [part[name] for part in parts if part[name] is not None]
            if known or name != "members_most":
                assert whole[name] == max(known, default=None), name
    assert seen == {*NUMBERS}


def test_causes_and_culprits_are_all_rebalances(gold: Made) -> None:
    """Each rebalance counts once in causes and once in culprits."""
    for group in gold.rows("gold/groups"):
        where = {key: group[key] for key in ("run", "group")}
        for path in ("gold/causes", "gold/culprits"):
            rows = gold.rows(path, **where)
            assert sum(row["rebalances"] for row in rows) == group["rebalances"]


def percentile(values: list[float], share: float) -> float:
    """Percentile of sorted values, interpolated linearly."""
    at = (len(values) - 1) * share
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def test_percentiles_by_chance(gold: Made) -> None:
    """Percentiles of random durations equal those of plain Python."""
    for run in ("chance 1", "chance 2"):
        of_run: list[float] = []
        for group in ("a", "b", "c"):
            took = sorted(
                row["duration_ns"] / 1e9
                for row in scenes().rows["silver/rebalances"]
                if row["run"] == run
                and row["group"] == group
                and row["outcome"] == "completed"
            )
            of_run += took
            want = [percentile(took, share) for share in (0.5, 0.95, 0.99, 1)]
            row = gold.row("gold/groups", run=run, group=group)
            assert some(row, *DURATIONS) == pytest.approx(tuple(want))
        want = [percentile(sorted(of_run), share) for share in (0.5, 0.95, 0.99, 1)]
        row = gold.row("gold/runs", run=run)
        assert some(row, *DURATIONS) == pytest.approx(tuple(want))
