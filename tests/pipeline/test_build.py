"""Builds are published completely or not at all, and record their inputs."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.events import stored

from kohort.pipeline import build as builds
from kohort.pipeline import session, sql_views
from kohort.pipeline.build import Build, NoEventsError, Recipe
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import Lake, LakeError
from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

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
    frame = lake.spark.createDataFrame(rows, "run string, sequence long")
    return frame.selectExpr("*", "'given' as source")


def built(lake: Lake, numbers: Mapping[str, int], **more: Any) -> Build:
    """Builds the tables of these events."""
    stored(lake, some(lake, numbers))
    return builds.build(lake, **{"recipe": RECIPE, **more})


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


def test_what_a_kill_leaves_is_taken_away(lake: Lake) -> None:
    """Readers do not see it, and the next build removes it."""
    first = built(lake, {"a": 1})
    left = some(lake, {"a": 9})
    lake.write(left, left.schema, "builds/29990101T000000Z-unfinished/silver/runs")
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


# -- where it comes from


def test_a_build_says_what_it_was_made_of(lake: Lake) -> None:
    """Its sources, kohort, engine and options, and the rows of its tables."""
    made = built(lake, {"a": 2}, options=Options(storm_rebalances=7))
    said = builds.about(lake, made.id)
    assert said is not None
    assert said["sources"] == ["given"]
    assert said["engine"] == session.engine(lake.spark)
    assert said["kohort"] == metadata.version("kohort")
    assert said["options"]["storm_rebalances"] == 7
    assert said["rows"] == {"silver/runs": 1, "silver/counts": 1, "gold/sums": 1}
    seconds = [each.seconds for each in made.tables]
    assert said["seconds"] >= round(max(seconds), 3) > 0
    file = json.loads(Path(lake.path, "current.json").read_text())
    assert (file["build"], file["builds"]) == (made.id, [said])


def test_a_table_that_is_gone(lake: Lake) -> None:
    """The error names the table, and the command that makes it anew."""
    first = built(lake, {"a": 3})
    lake.remove(f"builds/{first.id}/silver/counts")
    with pytest.raises(PipelineError, match=r"table silver/counts .*line build` makes"):
        rows(lake, COUNTS)


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
