"""Data checks: each finds its own fault, and none in a complete run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.events import frame, stored

from kohort.pipeline import bronze, quality
from kohort.pipeline import build as builds
from kohort.pipeline.build import Build, Recipe
from kohort.pipeline.lake import Lake
from kohort.pipeline.quality import FAILED, MARKED, PASSED, Rules
from kohort.pipeline.table_functions import EVENTS, Frames, Options, TableFunction
from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


GOOD = "good"
SILVER = (
    *("runs", "rebalances", "memberships", "ownership", "pauses", "unread"),
    *("returns", "transactions"),
)
Row = dict[str, Any]
NOW_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def event(sequence: int, kind: str = "heartbeat", **fields: Any) -> Row:
    """An event of node 0; events are a microsecond apart."""
    common = {"node": 0, "group": "g", "time_ns": sequence * 1_000, "wall_ns": NOW_NS}
    return {**common, "sequence": sequence, "kind": kind, **fields}


def owned(member: str, since: int, until: int | None, **fields: Any) -> Row:
    """A row of ``silver/ownership``."""
    row = {"group": "g", "topic": "t", "partition": 0, "member_id": member}
    span = {"from_ns": since, "until_ns": until, "from_node": 0, "from_sequence": since}
    return {**row, **span, **fields}


def rebalance(sequence: int, outcome: str = "completed", **fields: Any) -> Row:
    """A row of ``silver/rebalances``, with the sequence number of its start."""
    row = {"group": "g", "node": 0, "sequence": sequence, "outcome": outcome}
    return {**row, "cause": "member_left", "duration_ns": 5, **fields}


def member(member_id: str, *, known: bool, **fields: Any) -> Row:
    """A row of ``silver/memberships``."""
    row = {"group": "g", "member_id": member_id, "is_start_known": known}
    return {**row, "from_ns": 10, "until_ns": 20, **fields}


@dataclass(frozen=True)
class Case:
    """A run with one fault.

    Attributes:
        found: number of faults that the check has to find.
        of: number of things that the check looks at.
        events: the run's events.
        silver: rows of silver tables, by name.
    """

    found: int
    of: int
    events: Sequence[Row] = (event(1), event(2))
    silver: Mapping[str, Sequence[Row]] = field(default_factory=dict)


SPELL = (
    event(1, "rebalance_started"),
    event(2, "join_completed"),
    event(3, "assignment_made"),
    event(4, "rebalance_started"),
    event(5, "rebalance_started"),
    event(6, "group_loaded", members=["loaded"]),
)
"""Three rebalances, and a group that moved to another node."""

CASES: Mapping[str, Case] = {
    GOOD: Case(
        0,
        0,
        SPELL,
        {
            "rebalances": [
                rebalance(1),
                rebalance(4, "interrupted"),
                # The last rebalance is in progress.
            ],
            "memberships": [
                member("a", known=True, silent_ns=0),
                member("loaded", known=False, until_ns=None),
            ],
            "ownership": [
                owned("a", 10, 20),
                owned("b", 20, 20),
                owned("b", 20, 30),
                owned("a", 40, None),
                owned("b", 25, None, partition=1),
            ],
            "pauses": [{"from_ns": 1, "until_ns": 1}],
            "unread": [{"from_ns": 1, "until_ns": 1}],
            "returns": [{"from_ns": 1, "until_ns": 1}],
        },
    ),
    "missing_events": Case(2, 5, [event(1), event(2), event(5)]),
    "double_events": Case(1, 3, [event(1), event(2), event(2)]),
    "announced_losses": Case(
        8, 10, [event(1), event(2, "events_lost", first=2, last=9)]
    ),
    "late_events": Case(
        1,
        2,
        [
            event(1, source="topic", wall_ns=NOW_NS - 61 * SECOND_NS),
            event(2, source="topic", wall_ns=NOW_NS - 60 * SECOND_NS),
        ],
    ),
    "time_back": Case(
        # Inside a range of sequence numbers, and between two ranges.
        2,
        5,
        [
            event(1),
            event(2, time_ns=1),
            event(3),
            event(65_536, time_ns=2),
            event(65_537, time_ns=2),
        ],
    ),
    "unknown_kinds": Case(1, 2, [event(1), event(2, "group_sang")]),
    "negative_durations": Case(
        7,
        8,
        silver={
            "rebalances": [
                rebalance(1, duration_ns=-1),
                rebalance(2, waited_ns=-1, duration_ns=None),
            ],
            "memberships": [member("a", known=True, until_ns=9)],
            "ownership": [owned("a", 10, 9), owned("a", 20, 30)],
            "pauses": [{"from_ns": 1, "until_ns": 0}],
            "unread": [{"from_ns": 1, "until_ns": 0}],
            "returns": [{"from_ns": 1, "until_ns": 0}],
        },
    ),
    "rebalances_without_account": Case(
        1,
        3,
        [
            *(event(number, "rebalance_started") for number in (1, 2, 3)),
            # Later epochs of the last one, which is under way.
            event(4, "rebalance_started", previous_state="Assigning"),
        ],
        {"rebalances": [rebalance(1)]},
    ),
    "rebalances_without_end": Case(
        1,
        3,
        silver={"rebalances": [rebalance(1), rebalance(2, "unseen"), rebalance(3)]},
    ),
    "ends_without_start": Case(
        1, 2, silver={"rebalances": [rebalance(1), rebalance(2, cause="unseen")]}
    ),
    "two_owners": Case(
        3,
        4,
        silver={
            # The last one starts while the first one still owns the partition.
            "ownership": [
                owned("a", 10, None),
                owned("b", 20, 30),
                owned("c", 25, 26),
                owned("d", 50, None),
            ]
        },
    ),
    "members_unintroduced": Case(
        1,
        3,
        [event(1, "group_loaded", members=["b"])],
        {
            "memberships": [
                member("a", known=False),
                member("b", known=False),
                member("c", known=True),
            ]
        },
    ),
}
ELSEWHERE = {
    # A gap between two ranges.
    "time_back": {"missing_events"},
    # The notice has the number of an event that is missing.
    "announced_losses": {"missing_events"},
}


def frames(spark: SparkSession, folder: Path, cases: Mapping[str, Case]) -> Frames:
    """Inputs of the checks; each case is a run."""
    from pyspark.sql import functions as sql

    runs = [
        {"schema": 1, "labels": {}, **each, "run": run}
        for run, case in cases.items()
        for each in case.events
    ]
    topics = {(each["run"], each["sequence"]) for each in runs if each.pop("source", 0)}
    by_stream = sql.concat_ws(" ", "run", "sequence").isin(
        [f"{run} {sequence}" for run, sequence in topics]
    )
    source = sql.when(by_stream, sql.lit("topic")).otherwise(sql.lit("/a/file"))
    events = (
        frame(spark, folder, runs)
        .withColumn("source", source)
        .withColumn("arrived", sql.timestamp_micros(sql.lit(NOW_NS // 1_000)))
    )
    made = Frames(spark)
    made[EVENTS] = events
    for name in SILVER:
        rows = [
            {**row, "run": run}
            for run, case in cases.items()
            for row in case.silver.get(name, ())
        ]
        if name == "runs":
            rows = [{"run": r, "events": len(c.events)} for r, c in cases.items()]
        schema = BY_PATH[f"silver/{name}"].schema()
        made[f"silver/{name}"] = spark.createDataFrame(
            _full(rows, schema.names), schema
        )
    bad = "raw string, reason string, source string, arrived timestamp"
    made[quality.QUARANTINE] = spark.createDataFrame(
        [("{", "cut off", "/f", None)], bad
    )
    return made


def _full(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[tuple[str, str | None], Row]:
    """Results of all checks of all cases, computed once."""
    made = frames(spark, tmp_path_factory.mktemp("quality"), CASES)
    rows = quality.judged(made, Rules()).collect()
    return {(row["check"], row["run"]): row.asDict() for row in rows}


@pytest.mark.parametrize("check", [name for name in CASES if name != GOOD])
def test_a_check_finds_what_is_wrong(
    found: Mapping[tuple[str, str | None], Row], check: str
) -> None:
    """A check counts the faults, and marks the run or fails the build."""
    case, row = CASES[check], found[check, check]
    assert (row["found"], row["of"]) == (case.found, case.of)
    assert row["share"] == case.found / case.of
    assert row["outcome"] == quality.CHECKS[check].otherwise
    assert row["says"] == quality.CHECKS[check].says


@pytest.mark.parametrize("check", [name for name in CASES if name != GOOD])
def test_a_check_finds_nothing_else(
    found: Mapping[tuple[str, str | None], Row], check: str
) -> None:
    """A check passes in a run with every kind of event, and in other checks' cases."""
    assert found[check, GOOD]["found"] == 0
    for run in CASES:
        row = found[check, run]
        if run != check and check not in ELSEWHERE.get(run, ()):
            assert (row["outcome"], row["found"]) == (PASSED, 0), run


def test_every_check_has_a_case_and_a_row_for_each_run(
    found: Mapping[tuple[str, str | None], Row],
) -> None:
    """Every check has a case; lines that are not events belong to no run."""
    of_runs = {*quality.CHECKS} - {"quarantined_lines"}
    assert {*CASES} == {*of_runs, GOOD}
    wanted = {(check, run) for check in of_runs for run in CASES}
    assert {*found} == {*wanted, ("quarantined_lines", None)}
    row = found["quarantined_lines", None]
    events = sum(len(case.events) for case in CASES.values())
    assert (row["found"], row["of"], row["outcome"]) == (1, events + 1, MARKED)


# -- builds


def _recipe() -> Recipe:
    """A recipe of the tables that are there, with the checks on them."""

    def function(path: str) -> TableFunction:
        return lambda frames, options: frames[path]

    names = [f"silver/{name}" for name in SILVER]
    tables = (*(BY_PATH[name] for name in names), BY_PATH["gold/quality"])
    return Recipe(tables, {name: function(name) for name in names})


def built(lake: Lake, tmp_path: Path, rules: Rules, cases: Mapping[str, Case]) -> Build:
    """Builds these runs."""
    stored(lake, frames(lake.spark, tmp_path, cases)[EVENTS])
    return builds.build(lake, Options(), rules, recipe=_recipe())


def test_a_check_marks_a_run_or_fails_the_build(lake: Lake, tmp_path: Path) -> None:
    """The user's rules decide; a failed build is not published but can be read."""
    both = {name: CASES[name] for name in (GOOD, "time_back")}
    marked = built(lake, tmp_path, Rules(), both)
    assert (marked.outcome, marked.is_published) == (MARKED, True)
    assert builds.current(lake) == marked.id
    (first,) = [each for each in marked.checks if each.name == "time_back"]
    assert (first.outcome, first.bad) == (MARKED, 1)
    assert (first.found, first.share, first.runs) == (2, 2 / 5, ("time_back",))

    failed = built(lake, tmp_path, Rules(otherwise={"time_back": FAILED}), both)
    assert (failed.outcome, failed.is_published) == (FAILED, False)
    assert builds.current(lake) == marked.id
    seen = builds.read(lake, failed.id, BY_PATH["gold/quality"])
    (row,) = seen.where("outcome = 'failed'").collect()
    assert (row["check"], row["run"], row["threshold"]) == ("time_back", "time_back", 0)

    rules = Rules({"time_back": 0.4}, {"time_back": FAILED})
    passed = built(lake, tmp_path, rules, both)
    (check,) = [each for each in passed.checks if each.name == "time_back"]
    assert (check.outcome, check.share, check.threshold) == (PASSED, 2 / 5, 0.4)
    # The earlier failed build is removed; the published one stays.
    assert lake.names("builds") == sorted([marked.id, passed.id])


def test_a_lake_is_looked_at_as_it_is(lake: Lake, tmp_path: Path) -> None:
    """Checks of a lake find missing sequence numbers and lines that are not events."""
    path = tmp_path / "events.jsonl"
    common = {"schema": 1, "run": "r", "labels": {}}
    there = [{**common, **event(n)} for n in (1, 2, 5)]
    lines = [json.dumps(each) for each in (*there, there[0])]
    path.write_text("\n".join([*lines, '{"schema":1,', "nonsense"]))
    bronze.ingest(lake, [str(path)])
    made = frames(lake.spark, tmp_path, {"r": Case(0, 0, there)})
    made[EVENTS] = bronze.events(lake)
    made[quality.QUARANTINE] = bronze.quarantine(lake)
    rows = {row["check"]: row for row in quality.judged(made, Rules()).collect()}
    assert (rows["missing_events"]["found"], rows["missing_events"]["of"]) == (2, 5)
    assert (rows["double_events"]["found"], rows["time_back"]["found"]) == (0, 0)
    assert rows["quarantined_lines"]["found"] == 2
    assert rows["quarantined_lines"]["of"] == 5
