"""Sail, Spark, and Spark behind Spark Connect make the same tables of some files."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.commands import refused
from tests.pipeline.cluster import spark_process
from tests.pipeline.events import counted, rows, with_findings
from tests.pipeline.kills import kill, until
from tests.pipeline.played_scenes import SCRIPTS, played
from tests.pipeline.spark_settings import restored
from tests.pipeline.test_bronze import BAD, reasons, write
from tests.pipeline.test_stream import event

from kohort.pipeline import bronze, gold, session, silver
from kohort.pipeline import build as builds
from kohort.pipeline.lake import Lake
from kohort.pipeline.silver.lags import running_lag
from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FINDINGS = "gold/findings"
FEW = {"spark.sql.shuffle.partitions": "2"}
Tables = Mapping[str, Counter[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Groups that play scripts, with findings about most of them, and odd lines."""
    folder = tmp_path_factory.mktemp("files")
    told = (with_findings(played(name).events(name, "g")) for name in SCRIPTS)
    lines = itertools.chain.from_iterable(told)
    odd = [line for group in BAD.values() for line in group]
    numbers = [event(n, reason=text) for n, text in enumerate((5, {"a": [1]}, "é"), 1)]
    return [
        write(folder / "events.jsonl", *lines),
        write(folder / "a b+c%20[1]{2}é.jsonl", "\ufeff{}", *odd, *numbers),
        write(folder / "again.jsonl.gz", *map(json.dumps, numbers)),
        write(folder / "damaged.parquet", "PAR1 and no footer"),
    ]


def tables_of(lake: Lake, files: list[str]) -> Tables:
    """Ingests files and builds; returns the rows of each table, counted."""
    done = bronze.ingest(lake, files)
    assert (done.files, [*done.unread]) == (3, files[3:])
    made = builds.build(lake)
    assert made.is_published
    frames = {t.path: rows(builds.read(lake, made.id, t)) for t in TABLES}
    found = {path: counted(table) for path, table in frames.items()}
    return {**found, "quarantine": Counter(map(str, reasons(lake)))}


@pytest.fixture(scope="module")
def expected(
    files: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tables, Lake]:
    """The tables that Sail makes, and their lake."""
    sail = session.session()
    try:
        lake = Lake(sail, tmp_path_factory.mktemp("sail") / "lake")
        return tables_of(lake, files), lake
    finally:
        session.stop(sail)


def assert_same(ours: Tables, theirs: Tables) -> None:
    """Compares all tables."""
    assert ours.keys() == theirs.keys()
    for path, table in ours.items():
        assert theirs[path] == table, path


def test_spark_makes_the_same_tables(
    expected: tuple[Tables, Lake], files: list[str], java: SparkSession, tmp_path: Path
) -> None:
    """Each engine reads what the other has written; no plan has Python in it."""
    tables, theirs = expected
    lake = Lake(java, tmp_path / "lake")
    assert_same(tables, tables_of(lake, files))
    assert len(tables[FINDINGS]) > len(SCRIPTS) / 2
    made = builds.current(lake)
    assert made is not None
    frames = Frames(java)
    frames[EVENTS] = bronze.events(lake)
    for table in TABLES:
        frames[table.path] = builds.read(lake, made, table)
    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    for path, function in functions.items():
        check_plan(path, function(frames, Options()))
    other = Lake(java, theirs.path)
    of_sail = builds.current(other)
    assert of_sail is not None
    for table in TABLES:
        found = counted(rows(builds.read(other, of_sail, table)))
        assert found == tables[table.path], table.path


def check_plan(path: str, made: DataFrame) -> None:
    """Asserts that a plan has no Python, no cross join and no window up to the end."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        made.explain(extended=True)
    plan = shown.getvalue()
    assert "== Physical Plan ==" in plan
    for word in ("Python", "Pandas", "Arrow", "CartesianProduct", "NestedLoop"):
        assert word not in plan, (path, word)
    for frame in plan.split("specifiedwindowframe(")[1:]:
        words = frame.split(")")[0]
        ends = words.split(",")[-1]
        assert "unboundedfollowing" not in ends or "unboundedpreceding" in words


def test_no_task_has_most_rows_of_a_hot_group(java: SparkSession) -> None:
    """The commits of one group are divided between the tasks that sum up its lag."""
    from pyspark.sql import functions as sql

    frames = Frames(java)
    for path in ("silver/unread", "silver/rebalances"):
        frames[path] = java.createDataFrame([], BY_PATH[path].ddl)
    names = "run string, `group` string, kind string, time_ns long, node int"
    fields = f"{names}, sequence long, previous_state string"
    frames[EVENTS] = java.createDataFrame([], fields)
    frames["silver/commits"] = java.range(6_000).selectExpr(
        *("'r' as run", "'hot' as `group`", "'t' as topic", "0 as node"),
        *("cast(id % 8 as int) as partition", "id as sequence", "1 as offset"),
        # Ten per second, for ten minutes.
        *("id * 100000000 as time_ns", "id as end_offset"),
        "cast(null as string) as error",
    )
    settings = {
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    with restored(java, settings):
        changes = silver.TABLE_FUNCTIONS["silver/lag_changes"](frames, Options())
        running = running_lag(changes)
        by_task = running.groupBy(sql.spark_partition_id()).count().collect()
    counts = [row["count"] for row in by_task]
    assert sum(counts) == 6_000
    assert max(counts) < sum(counts) / 2


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Serves Spark Connect until the block ends; its URL."""
    log = folder / "server.log"
    says = r"(?<=Spark Connect server started at: )\S+"
    with ExitStack() as held:
        process = spark_process(
            log,
            "spark-submit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", "local[2]"),
            *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
            *("--conf", "spark.connect.grpc.binding.port=0"),
            *("--conf", "spark.ui.enabled=false", "spark-internal"),
            memory="800m",
        )
        held.callback(kill, process)
        until(process, lambda: re.search(says, log.read_text()) is not None)
        found = re.search(says, log.read_text())
        assert found is not None
        yield f"sc://{found[0]}"


def test_a_server_makes_the_same_tables(
    expected: tuple[Tables, Lake], files: list[str], tmp_path: Path
) -> None:
    """Spark Connect: no Java in this process."""
    with server(tmp_path) as url:
        spark = session.session(conf=FEW, remote=url)
        try:
            assert_same(expected[0], tables_of(Lake(spark, tmp_path / "lake"), files))
        finally:
            session.stop(spark)


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ("build --remote sc://127.0.0.1:1", 1, "no Spark Connect server answers at sc"),
        ("build --remote local", 1, "local is no server of Spark Connect: it must be"),
        ("build --remote sc://h --memory 4g", 2, "--remote and --memory exclude each"),
    ],
)
def test_mistakes_are_told_in_a_line(
    tmp_path: Path, words: str, code: int, line: str
) -> None:
    """Before anything is written."""
    command = ("pipeline", *words.split(), "--lake", str(tmp_path))
    assert refused(*command, code=code).startswith(line)
