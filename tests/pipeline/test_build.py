"""Builds: published whole or not at all, the same of the same, and where from."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort.pipeline import build as builds
from kohort.pipeline import lineage, quality, sql_views
from kohort.pipeline.build import Build, NoEventsError, Recipe
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import Lake, LakeError
from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

PATIENCE_S = 10
RUNS = BY_PATH["silver/runs"]
COUNTS = Table(
    "counts",
    "silver",
    "How many events a run has.",
    ("run",),
    (
        Column("run", "string", "which"),
        Column("events", "bigint", "how many"),
        Column("k", "int", "an option"),
    ),
)
SUMS = Table(
    "sums",
    "gold",
    "How many events there are.",
    (),
    (Column("events", "bigint", "of all runs"),),
)


def runs(frames: Frames, _: Options) -> DataFrame:
    """A small ``silver/runs``."""
    return frames[EVENTS].groupBy("run").agg({"*": "count"}).selectExpr(*_empty(RUNS))


def _empty(table: Table) -> list[str]:
    said = {"run": "run", "events": "`count(1)` as events"}
    return [
        said.get(c.name, f"cast(null as {c.type}) as `{c.name}`") for c in table.columns
    ]


def counts(frames: Frames, options: Options) -> DataFrame:
    """Of `COUNTS`."""
    k = f"cast({options.storm_rebalances} as int) as k"
    return frames["silver/runs"].selectExpr("run", "events", k)


def sums(frames: Frames, _: Options) -> DataFrame:
    """Of `SUMS`."""
    return frames["silver/counts"].selectExpr("sum(events) as events")


ENTRY: Mapping[str, Any] = {"id": "x", "files": [], "quarantined": {}, "folder": None}
"""Of an ingest that brought nothing."""
RECIPE = Recipe(
    (RUNS, COUNTS, SUMS),
    {"silver/runs": runs, "silver/counts": counts, "gold/sums": sums},
)


def some(lake: Lake, numbers: Mapping[str, int]) -> DataFrame:
    """Events of runs: so many of each."""
    rows = [(run, n) for run, count in numbers.items() for n in range(count)]
    return lake.spark.createDataFrame(rows, "run string, sequence long")


def built(lake: Lake, numbers: Mapping[str, int], **more: Any) -> Build:
    """A build of them."""
    return builds.build(lake, events=some(lake, numbers), **{"recipe": RECIPE, **more})


def rows(lake: Lake, table: Table, build_id: str | None = None) -> Any:
    """What readers see of a table, in order."""
    found = build_id or builds.current(lake)
    assert found is not None
    return sorted(tuple(row) for row in builds.read(lake, found, table).collect())


def failing(frames: Frames, _: Options) -> DataFrame:
    """Does not work, once it runs."""
    return frames["silver/runs"].selectExpr(
        "run", "raise_error('no') as events", "1 as k"
    )


# -- what readers see


def test_a_build_is_seen_once_it_is_whole(lake: Lake) -> None:
    """Readers have all its tables then; made again they are the same."""
    first = built(lake, {"a": 3, "b": 2})
    assert builds.current(lake) == first.id
    assert rows(lake, COUNTS) == [("a", 3, 5), ("b", 2, 5)]
    assert rows(lake, SUMS) == [(5,)]
    second = built(lake, {"a": 3, "b": 2})
    assert builds.current(lake) == second.id != first.id
    assert rows(lake, COUNTS) == rows(lake, COUNTS, first.id)
    assert [each.rows for each in second.tables] == [2, 2, 1]


def test_a_build_that_does_not_work_changes_nothing(lake: Lake) -> None:
    """Readers have the one before, and nothing of it is left."""
    first = built(lake, {"a": 1})
    broken = Recipe(RECIPE.tables, {**RECIPE.functions, "silver/counts": failing})
    with pytest.raises(Exception, match="no"):
        built(lake, {"a": 2}, recipe=broken)
    assert builds.current(lake) == first.id
    assert lake.names("builds") == [first.id]
    assert rows(lake, SUMS) == [(1,)]


def test_a_failure_ends_tables_that_are_being_made(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their jobs are cancelled, and one that was about to be written is not."""
    cancelled = threading.Event()
    context = lake.spark.sparkContext
    monkeypatch.setattr(context, "cancelJobGroup", lambda _: cancelled.set())

    def slow(frames: Frames, options: Options) -> DataFrame:
        cancelled.wait(PATIENCE_S)
        return frames["silver/runs"].selectExpr("sum(events) as events")

    functions = {**RECIPE.functions, "silver/counts": failing, "gold/sums": slow}
    seen: list[tuple[str, str]] = []
    with pytest.raises(Exception, match="no"):
        built(
            lake,
            {"a": 1},
            recipe=Recipe(RECIPE.tables, functions),
            progress=lambda *each: seen.append(each),
        )
    assert ("gold/sums", "fails") in seen


def test_the_folder_of_a_failed_build_goes_after_running_tasks(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled task that still runs would make the folder anew."""
    started, ending, ended = (tmp_path / name for name in ("started", "ending", "end"))

    def task(_: int) -> None:
        started.touch()
        while not ending.exists():
            pass
        ended.touch()

    numbers = lake.spark.sparkContext.parallelize([0], 1)
    running = threading.Thread(target=numbers.foreach, args=(task,))
    running.start()
    while not started.exists():
        running.join(builds.LOOK_S)
    wait, remove = builds.wait_for_tasks, lake.remove
    removed: list[bool] = []

    def wait_for_tasks(lake: Lake) -> None:
        ending.touch()
        wait(lake)

    def remove_late(path: str) -> None:
        removed.append(ended.exists())
        remove(path)

    monkeypatch.setattr(builds, "wait_for_tasks", wait_for_tasks)
    monkeypatch.setattr(lake, "remove", remove_late)
    broken = Recipe(RECIPE.tables, {**RECIPE.functions, "silver/counts": failing})
    try:
        with pytest.raises(Exception, match="no"):
            built(lake, {"a": 1}, recipe=broken)
    finally:
        ending.touch()
        running.join()
    assert (removed, lake.names("builds")) == ([True], [])


def test_what_a_kill_leaves_is_taken_away(lake: Lake) -> None:
    """A build without an end, and one that was killed before it was published."""
    first = built(lake, {"a": 1})
    lake.write_text("builds/29990101T000000Z-unfinished/silver/runs/x", "half")
    ended = json.dumps({"outcome": quality.PASSED, "tables": []})
    lake.write_text("builds/29990101T000001Z-unpublished/lineage.json", ended)
    assert builds.current(lake) == first.id
    second = built(lake, {"a": 2})
    assert lake.names("builds") == sorted([first.id, second.id])


def test_the_last_builds_are_kept(lake: Lake) -> None:
    """As many as are asked for; who reads one may finish."""
    made = [built(lake, {"a": n}, keep=2).id for n in (1, 2, 3)]
    assert lake.names("builds") == made[1:]
    assert rows(lake, SUMS, made[1]) == [(2,)]


def test_two_builds_do_not_mix(lake: Lake) -> None:
    """While one is at work, another one is told so, and the first goes on."""
    began, go_on = threading.Event(), threading.Event()

    def slow(frames: Frames, options: Options) -> DataFrame:
        began.set()
        go_on.wait()
        return counts(frames, options)

    recipe = Recipe(RECIPE.tables, {**RECIPE.functions, "silver/counts": slow})
    ended: list[Build] = []
    first = threading.Thread(
        target=lambda: ended.append(built(lake, {"a": 1}, recipe=recipe))
    )
    first.start()
    began.wait()
    with pytest.raises(LakeError, match="a build"):
        built(lake, {"a": 2})
    go_on.set()
    first.join()
    assert builds.current(lake) == ended[0].id
    assert rows(lake, SUMS) == [(1,)]


def test_a_lake_without_events(lake: Lake) -> None:
    """There is nothing to publish, and the message says what to do."""
    with pytest.raises(NoEventsError, match="kohort pipeline ingest"):
        built(lake, {})
    assert builds.current(lake) is None
    assert lake.names("builds") == []
    with pytest.raises(PipelineError, match="kohort pipeline build"):
        sql_views.register(lake)


# -- runs


def test_rows_of_other_runs_are_carried_over(lake: Lake) -> None:
    """Only the run that is asked for is computed; tables of all runs are whole."""
    built(lake, {"a": 3, "b": 2})
    # What is there of "b" now shows whether it was looked at.
    second = built(lake, {"a": 4}, runs=["a"])
    assert second.runs == ["a"]
    assert rows(lake, COUNTS) == [("a", 4, 5), ("b", 2, 5)]
    assert rows(lake, SUMS) == [(6,)]
    carried = {each.path: each.carried_from for each in second.tables}
    assert carried["silver/counts"] is not None
    assert carried["gold/sums"] is None


@pytest.mark.parametrize("change", ["nothing before", "options"])
def test_what_would_not_fit_is_made_anew(lake: Lake, change: str) -> None:
    """Rows of other options, or of no build, cannot be carried over."""
    if change == "options":
        built(lake, {"a": 3, "b": 2}, options=Options(storm_rebalances=9))
    second = built(lake, {"a": 4, "b": 1}, runs=["a"])
    assert second.runs is None
    assert rows(lake, COUNTS) == [("a", 4, 5), ("b", 1, 5)]


def test_runs_of_a_later_ingest_are_made_as_well(lake: Lake) -> None:
    """What came in meanwhile by another way is not forgotten."""
    built(lake, {"a": 1, "b": 1, "c": 1})
    lake.write_text("bronze/ledger/later.json", json.dumps({**ENTRY, "runs": ["b"]}))
    second = built(lake, {"a": 2, "b": 2}, runs=["a"])
    assert second.runs == ["a", "b"]
    assert rows(lake, COUNTS) == [("a", 2, 5), ("b", 2, 5), ("c", 1, 5)]


# -- where it comes from


def test_lineage_says_what_a_table_was_made_of(lake: Lake) -> None:
    """With each table: inputs, code, options, schema, rows, when and how long."""
    files = [{"path": "/x.jsonl", "size": 7, "modified_ms": 8}]
    entry = {**ENTRY, "files": files, "runs": ["a"]}
    lake.write_text("bronze/ledger/one.json", json.dumps(entry))
    lake.write_text("checkpoints/live/commits/3", "v1\n{}")
    offsets = '{"__kohort_events":{"0":42}}'
    lake.write_text("checkpoints/live/offsets/3", f"v1\n{{}}\n{offsets}")
    made = built(lake, {"a": 2}, options=Options(storm_rebalances=7))
    said = lake.read_json(f"builds/{made.id}/silver/counts/_lineage.json")
    assert said is not None
    assert said["inputs"]["ledger"] == {"one": entry}
    stream = said["inputs"]["streams"]["live"]
    assert stream == {"batch": 3, "offsets": {"__kohort_events": {"0": 42}}}
    assert said["made_from"] == ["silver/runs"]
    assert said["code"] == lineage.code_version()
    assert said["spark"] == lake.spark.version
    assert said["options"]["storm_rebalances"] == 7
    assert said["schema"] == {"run": "string", "events": "bigint", "k": "int"}
    assert (said["rows"], said["carried_from"]) == (1, None)
    whole = builds.about(lake, made.id)
    assert whole is not None
    assert [each["table"] for each in whole["tables"]] == [
        *(t.path for t in RECIPE.tables)
    ]
    assert whole["seconds"] >= max(each["seconds"] for each in whole["tables"]) > 0


def test_a_column_that_an_older_build_lacks_is_null(lake: Lake) -> None:
    """Its tables can be read by a newer version, and asked by name."""
    made = built(lake, {"a": 1})
    newer = (*COUNTS.columns, Column("later", "string", "came later"))
    table = Table(COUNTS.name, COUNTS.layer, COUNTS.says, COUNTS.key, newer)
    assert rows(lake, table, made.id) == [("a", 1, 5, None)]
    assert sql_views.register(lake) == made.id
    (seen,) = lake.spark.sql("SELECT run, events FROM silver_runs").collect()
    assert tuple(seen) == ("a", 1)
    with pytest.raises(PipelineError, match=made.id):
        sql_views.register(lake, "nonsense")
