"""All tables of many runs equal what plain loops make of their definitions.

The runs share one set of tables, computed once; `silver_oracle` and `gold_oracle`
implement the same definitions in plain Python.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline import gold_oracle, silver_oracle
from tests.pipeline.events import Event, Row, counted, frame, made, rows
from tests.pipeline.runs import told

from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AGAIN = 25
"""Number of runs computed again, without the others, in another order."""
PATHS = [
    table.path
    for table in TABLES
    # Lags are made of their changes; the checks of the data have tests of their own.
    if table.path not in {"silver/lag_changes", "gold/quality"}
]
Tables = Mapping[str, list[Row]]
"""Rows by path."""


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    """Events by run."""
    return told()


def computed(spark: SparkSession, folder: Any, events: Iterable[Event]) -> Tables:
    """All tables, from shuffled events; each has its columns, and its key once."""
    from kohort.pipeline import gold, silver

    mixed = [*events]
    random.Random(8).shuffle(mixed)
    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    frames = made(functions, frame(spark, folder, mixed), folder)
    found = {path: rows(table) for path, table in frames.items()}
    for path in PATHS:
        keys = Counter(str([row[k] for k in BY_PATH[path].key]) for row in found[path])
        assert keys.total() == len(keys), path
    return found


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
) -> Tables:
    """All tables of all runs."""
    everything = itertools.chain.from_iterable(events.values())
    return computed(spark, tmp_path_factory.mktemp("tables"), everything)


@pytest.fixture(scope="module")
def wanted(events: Mapping[str, list[Event]]) -> Tables:
    """The same by loops."""
    found: dict[str, list[Row]] = defaultdict(list)
    for own in events.values():
        for path, table in silver_oracle.whole(own).items():
            found[path] += table
    everything = itertools.chain.from_iterable(events.values())
    return {**found, **gold_oracle.whole(found, everything)}


def rounded(table: Iterable[Row]) -> Counter[str]:
    """Counts rows, with seconds to the microsecond: the rest depends on the engine."""
    return counted(_rounded(row) for row in table)


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize("path", PATHS)
def test_a_table_is_what_loops_make_of_its_words(
    tables: Tables, wanted: Tables, path: str
) -> None:
    """Each run has the same rows in the table and from the loops."""
    ours, theirs = rounded(tables[path]), rounded(wanted[path])
    assert sorted((ours - theirs).items()) == []
    assert sorted((theirs - ours).items()) == []
    assert ours.total() > 10, "there is something to compare"


def test_all_kinds_of_numbers_are_there(tables: Tables) -> None:
    """No number of an hour is the same in all hours, and no outcome is missing."""
    outcomes = {row["outcome"] for row in tables["silver/rebalances"]}
    assert outcomes >= {"completed", "emptied", "interrupted", "moved"}
    for column in BY_PATH["gold/hours"].columns:
        assert len({str(row[column.name]) for row in tables["gold/hours"]}) > 1, column
    sizes = Counter(row["rebalances"] for row in tables["gold/storms"])
    assert len(sizes) > 2
    assert {row["delay_ms"] for row in tables["gold/initial_delay"]} == {500, 3000}


def test_shares_are_what_no_assignment_can_better() -> None:
    """No assignment with the same shares needs fewer moves; all are tried."""
    dice = random.Random(8)
    for _ in range(60):
        members, size = range(dice.randrange(1, 4)), dice.randrange(1, 6)
        # -1: the previous owner is no longer a member.
        had = [dice.choice([-1, *members]) for _ in range(size)]
        shares = sorted(Counter(dice.choice(members) for _ in range(size)).values())
        least = min(
            sum(map(int.__ne__, had, has))
            for has in itertools.product(members, repeat=size)
            if sorted(Counter(has).values()) == shares
        )
        before = [had.count(member) for member in members]
        after = [*shares, *[0] * (len(members) - len(shares))]
        assert silver_oracle.least_moved(before, after) == least


def test_company_does_not_matter(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
    tables: Tables,
) -> None:
    """Some of the runs, without the others, have the same rows."""
    runs = [*events][:AGAIN]
    some = itertools.chain.from_iterable(events[run] for run in runs)
    again = computed(spark, tmp_path_factory.mktemp("again"), some)
    for path in PATHS:
        if path == "gold/initial_delay":
            continue
        before = (row for row in tables[path] if row["run"] in runs)
        assert counted(again[path]) == counted(before), path


def test_tables_have_their_schemas(spark: SparkSession, tmp_path: Any) -> None:
    """The right names, order and types, also of tables that are made of empty ones."""
    from kohort.pipeline import gold, silver

    frames = Frames(spark)
    frames[EVENTS] = frame(spark, tmp_path, [])
    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    assert [*functions] == [t.path for t in TABLES if t.path != "gold/quality"]
    for path, function in functions.items():
        table = BY_PATH[path]
        made_ = function(frames, Options())
        schema = [(field.name, field.dataType) for field in made_.schema]
        assert schema == [(field.name, field.dataType) for field in table.schema()]
        assert made_.collect() == []
        # A build stores each table before the next one reads it.
        frames[path] = spark.createDataFrame([], table.ddl)


def test_a_storm_is_what_the_user_says(spark: SparkSession, tables: Tables) -> None:
    """With two rebalances in one second as a storm there are other storms."""
    from kohort.pipeline import gold

    path = "silver/rebalances"
    frames = Frames(spark)
    ddl = "run string, `group` string, number long, started_ns long, cause string"
    names = ("run", "group", "number", "started_ns", "cause", "culprit_name")
    known = [tuple(row[name] for name in names) for row in tables[path]]
    frames[path] = spark.createDataFrame(known, f"{ddl}, culprit_name string")
    options = Options(storm_rebalances=2, storm_seconds=1.0)
    found = gold.TABLE_FUNCTIONS["gold/storms"](frames, options).collect()
    starts = defaultdict(list)
    for row in sorted(tables[path], key=lambda row: row["number"]):
        starts[row["run"], row["group"]].append(row["started_ns"])
    near = [
        [b - a <= 10**9 for a, b in itertools.pairwise(times)]
        for times in starts.values()
    ]
    assert len(found) == sum(
        is_near and not before
        for row in near
        for before, is_near in itertools.pairwise([False, *row])
    )


def test_an_interval_that_ends_with_its_hour_has_no_part_of_the_next(
    spark: SparkSession,
) -> None:
    """Parts are longer than 0, also where the run ends on the hour."""
    from kohort.pipeline.gold.columns import HOUR_NS, clipped

    names = "run string, `group` string, from_ns long, until_ns long"
    spans = [("r", "g", HOUR_NS - 5, 2 * HOUR_NS), ("r", "h", HOUR_NS, None)]
    runs = spark.createDataFrame([("r", 2 * HOUR_NS)], "run string, last_ns long")
    parts = clipped(spark.createDataFrame(spans, names), runs)
    found = [(each["group"], each["ns"]) for each in parts.collect()]
    assert sorted(found) == [("g", 5), ("g", HOUR_NS), ("h", HOUR_NS)]


def test_a_member_that_only_a_list_has_was_not_introduced(
    spark: SparkSession, tmp_path: Any
) -> None:
    """Its start is not known, and so are its details."""
    from kohort.pipeline import silver

    loaded = {"kind": "group_loaded", "run": "r", "group": "g", "node": 0}
    loaded |= {"sequence": 1, "time_ns": 7, "members": ["m"]}
    frames = Frames(spark)
    frames[EVENTS] = frame(spark, tmp_path, [loaded])
    found = silver.TABLE_FUNCTIONS["silver/memberships"](frames, Options())
    (row,) = rows(found)
    assert (row["member_id"], row["from_ns"], row["name"]) == ("m", 7, "m")
    assert row["is_start_known"] is False
    assert row["is_eager"] is None
