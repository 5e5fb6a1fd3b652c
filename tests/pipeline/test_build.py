"""Builds are published completely or not at all, and record their inputs."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort.pipeline import bronze, lineage, parts, quality, sink_log, sql_views
from kohort.pipeline import build as builds
from kohort.pipeline.build import Build, NoEventsError, Recipe
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import Footers
from kohort.pipeline.lake import Lake, LakeError
from kohort.pipeline.parts import Part
from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PATIENCE_S = 10
SAMPLE = Path(__file__).parent / "samples" / "coordinator.jsonl"
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


@pytest.fixture(scope="module")
def spark(without_java: SparkSession) -> SparkSession:
    """Builds are made alike on both engines; here they take a tenth of the time."""
    return without_java


def runs(frames: Frames, _: Options) -> DataFrame:
    """A small ``silver/runs``."""
    return frames[EVENTS].groupBy("run").agg({"*": "count"}).selectExpr(*_empty(RUNS))


def _empty(table: Table) -> list[str]:
    said = {"run": "run", "events": "`count(1)` as events"}
    return [
        said.get(c.name, f"cast(null as {c.type}) as `{c.name}`") for c in table.columns
    ]


def counts(frames: Frames, options: Options) -> DataFrame:
    """Rows of `COUNTS`."""
    k = f"cast({options.storm_rebalances} as int) as k"
    return frames["silver/runs"].selectExpr("run", "events", k)


def sums(frames: Frames, _: Options) -> DataFrame:
    """Rows of `SUMS`."""
    return frames["silver/counts"].selectExpr("sum(events) as events")


ENTRY: Mapping[str, Any] = {"id": "x", "files": [], "quarantined": {}, "folder": None}
"""Of an ingest that brought nothing."""
RECIPE = Recipe(
    (RUNS, COUNTS, SUMS),
    {"silver/runs": runs, "silver/counts": counts, "gold/sums": sums},
)


def real_recipe() -> Recipe:
    """The tables above, of events; other tests import this module without PySpark."""
    from kohort.pipeline import silver

    memberships = BY_PATH["silver/memberships"]
    real = {t.path: silver.TABLE_FUNCTIONS[t.path] for t in (RUNS, memberships)}
    return Recipe((RUNS, memberships, COUNTS, SUMS), {**RECIPE.functions, **real})


def some(lake: Lake, numbers: Mapping[str, int]) -> DataFrame:
    """Events of runs: this many of each."""
    rows = [(run, n) for run, count in numbers.items() for n in range(count)]
    return lake.spark.createDataFrame(rows, "run string, sequence long")


def built(lake: Lake, numbers: Mapping[str, int], **more: Any) -> Build:
    """Builds the tables."""
    return builds.build(lake, events=some(lake, numbers), **{"recipe": RECIPE, **more})


def rows(lake: Lake, table: Table, build_id: str | None = None) -> Any:
    """The rows of a table that readers see, in order."""
    found = build_id or builds.current(lake)
    assert found is not None
    return sorted(tuple(row) for row in builds.read(lake, found, table).collect())


def failing(frames: Frames, _: Options) -> DataFrame:
    """Fails when it runs."""
    return frames["silver/runs"].selectExpr(
        "run", "raise_error('no') as events", "1 as k"
    )


# -- readers


def test_a_build_is_seen_once_it_is_whole(lake: Lake) -> None:
    """Readers see all tables of a published build; a second build makes the same."""
    first = built(lake, {"a": 3, "b": 2})
    assert builds.current(lake) == first.id
    assert rows(lake, COUNTS) == [("a", 3, 5), ("b", 2, 5)]
    assert rows(lake, SUMS) == [(5,)]
    second = built(lake, {"a": 3, "b": 2})
    assert builds.current(lake) == second.id != first.id
    assert rows(lake, COUNTS) == rows(lake, COUNTS, first.id)
    assert [each.rows for each in second.tables] == [2, 2, 1]


def test_a_build_that_does_not_work_changes_nothing(lake: Lake) -> None:
    """After a failed build readers see the previous one, and no file of it is left."""
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
    monkeypatch.setattr(lake.engine, "cancel", lambda _: cancelled.set())

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
    """As many as requested; a reader of an older one may finish."""
    made = [built(lake, {"a": n}, keep=2).id for n in (1, 2, 3)]
    assert lake.names("builds") == made[1:]
    assert rows(lake, SUMS, made[1]) == [(2,)]


def test_two_builds_do_not_mix(lake: Lake) -> None:
    """A second build fails with an error while one is running, which goes on."""
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
    """Without anything to publish a build fails, and the message names the remedy."""
    with pytest.raises(NoEventsError, match="kohort pipeline ingest"):
        built(lake, {})
    assert builds.current(lake) is None
    assert lake.names("builds") == []
    with pytest.raises(PipelineError, match="kohort pipeline build"):
        sql_views.register(lake)


# -- runs


def test_rows_of_other_runs_are_taken_over(lake: Lake) -> None:
    """Only the requested run is computed; tables of all runs are complete."""
    built(lake, {"a": 3, "b": 2})
    # The rows of "b" now show if the build read it.
    second = built(lake, {"a": 4}, runs=["a"])
    assert second.runs == ["a"]
    assert rows(lake, COUNTS) == [("a", 4, 5), ("b", 2, 5)]
    assert rows(lake, SUMS) == [(6,)]
    own = f"builds/{second.id}"
    folders = {each.path: each.parts for each in second.tables}
    assert folders["silver/counts"] == [
        f"{own}/silver/counts",
        f"{own}/copied/silver/counts",
    ]
    assert folders["gold/sums"] == [f"{own}/gold/sums"]


def test_parts_stay_where_they_are(lake: Lake) -> None:
    """Rows are copied only out of a part with a run that is computed; then no more.

    A part stays for as long as a kept build refers to it, without the rest of its
    build.
    """
    first = built(lake, {"a": 3, "b": 2, "c": 1})
    second = built(lake, {"a": 4}, runs=["a"])
    third = built(lake, {"a": 5, "d": 7}, runs=["a", "d"], keep=1)
    assert rows(lake, COUNTS) == [("a", 5, 5), ("b", 2, 5), ("c", 1, 5), ("d", 7, 5)]
    copied = f"builds/{second.id}/copied"
    (_, table, _) = third.tables
    assert table.parts == [
        f"builds/{third.id}/silver/counts",
        f"{copied}/silver/counts",
    ]
    assert (table.rows, table.files) == (4, lake.footers(table.parts[0]).files + 1)
    assert lake.names("builds") == [second.id, third.id]
    assert lake.names(f"builds/{second.id}") == ["copied"]
    assert [builds.about(lake, each) for each in (first.id, second.id)] == [None, None]
    last = built(lake, {"e": 1}, is_whole=True, keep=1)
    assert (rows(lake, COUNTS), lake.names("builds")) == ([("e", 1, 5)], [last.id])


def test_a_part_that_is_gone(lake: Lake) -> None:
    """The error names the table, and the command that makes all parts anew."""
    first = built(lake, {"a": 3})
    built(lake, {"b": 1}, runs=["b"])
    lake.remove(f"builds/{first.id}/silver/counts")
    with pytest.raises(PipelineError, match=r"table silver/counts .* build --all"):
        rows(lake, COUNTS)


def test_many_parts_become_one() -> None:
    """If there are more than `MOST` parts, all but the largest are copied."""
    sizes = [5, 900, *[7] * (parts.MOST - 3)]
    there = [
        Part(f"builds/{n}", [f"r{n}"], {"silver/runs": Footers(1, 1, size)})
        for n, size in enumerate(sizes)
    ]
    assert parts.plan(there[1:], ["new"]) == parts.Plan(there[1:], [])
    made = parts.plan([*there, Part("builds/x", ["new"])], ["new"])
    assert made.kept == [there[1]]
    assert [copy.part for copy in made.copies] == [there[0], *there[2:]]
    assert all(copy.is_whole for copy in made.copies)
    some = parts.plan([Part("builds/x", ["new", "old"])], ["new"])
    assert (some.kept, some.copied_runs) == ([], ["old"])


@pytest.mark.parametrize("change", ["nothing before", "options"])
def test_what_would_not_fit_is_made_anew(lake: Lake, change: str) -> None:
    """Rows of other options, or of no build, cannot be carried over."""
    if change == "options":
        built(lake, {"a": 3, "b": 2}, options=Options(storm_rebalances=9))
    second = built(lake, {"a": 4, "b": 1}, runs=["a"])
    assert second.runs is None
    assert rows(lake, COUNTS) == [("a", 4, 5), ("b", 1, 5)]


def test_runs_of_a_later_ingest_are_made_as_well(lake: Lake) -> None:
    """Events that arrived meanwhile from another source are included."""
    built(lake, {"a": 1, "b": 1, "c": 1})
    lake.write_text("bronze/ledger/later.json", json.dumps({**ENTRY, "runs": ["b"]}))
    second = built(lake, {"a": 2, "b": 2}, runs=["a"])
    assert second.runs == ["a", "b"]
    assert rows(lake, COUNTS) == [("a", 2, 5), ("b", 2, 5), ("c", 1, 5)]


def test_runs_with_new_events_of_a_stream(lake: Lake) -> None:
    """They are in the files behind the last one that the build before has counted.

    The log has been compacted since, so a file's batch is unknown, but not its place.
    """
    lake.write_text("checkpoints/live/commits/10", "v1\n{}")
    log = "bronze/stream/live/_spark_metadata"
    names = [f"quarantined=false/part-{number}.parquet" for number in range(12)]
    lines = [
        json.dumps({"path": f"file:/elsewhere/live/{name}", "action": "add"})
        for name in names
    ]
    lake.write_text(f"{log}/8", "\n".join(["v1", *lines[:9]]))
    before = lineage.inputs(lake)
    assert before.streams["live"]["last_file"] == names[8]
    lake.write_text(f"{log}/9.compact", "\n".join(["v1", *lines[:10]]))
    lake.write_text(f"{log}/10", "\n".join(["v1", *lines[10:]]))
    assert sink_log.files(lake, "live") == names
    for name, run in zip(names[8:], "abcb", strict=True):
        rows = lake.spark.createDataFrame([(run,)], "run string")
        lake.engine.write(rows, rows.schema, lake.uri(f"bronze/stream/live/{name}"))
    now = lineage.inputs(lake)
    assert bronze.changed_runs(lake, before.as_json(), now) == {"b", "c"}
    assert bronze.changed_runs(lake, now.as_json(), lineage.Inputs()) is None
    lake.write_text(f"{log}/11", "v2")
    with pytest.raises(PipelineError, match="stream live has version 'v2'"):
        lineage.inputs(lake)


# -- where it comes from


def test_lineage_says_what_a_table_was_made_of(lake: Lake) -> None:
    """Each table has its inputs, code, options, schema, rows, time and duration."""
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
    assert stream == {
        "batch": 3,
        "offsets": {"__kohort_events": {"0": 42}},
        "last_file": None,
    }
    assert said["made_from"] == ["silver/runs"]
    assert said["code"] == lineage.code_version()
    assert said["engine"] == lake.engine.version
    assert said["options"]["storm_rebalances"] == 7
    assert said["schema"] == {"run": "string", "events": "bigint", "k": "int"}
    assert said["rows"] == 1
    assert said["parts"] == [f"builds/{made.id}/silver/counts"]
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
