"""Spark behind Spark Connect: a server in another process, and no Java in this one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.commands import refused
from tests.pipeline.cluster import spark_process
from tests.pipeline.events import counted, rows
from tests.pipeline.kills import kill, until
from tests.pipeline.test_build import SAMPLE, real_recipe

from kohort.pipeline import bronze, iceberg, local_engine, session, sql_views
from kohort.pipeline import build as builds
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import ICEBERG, PARQUET, Lake
from kohort.pipeline.session import SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FEW = {"spark.sql.shuffle.partitions": "2"}


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Serves Spark Connect, with Iceberg, until the block ends; its URL."""
    log = folder / "server.log"
    packages = {"spark.jars.packages": iceberg.PACKAGE}
    says = r"(?<=Spark Connect server started at: )\S+"
    with ExitStack() as held:
        with session._fetching(packages):  # noqa: SLF001 - as sessions of other tests
            process = spark_process(
                log,
                "spark-submit",
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *("--master", "local[2]", "--packages", iceberg.PACKAGE),
                *("--conf", f"spark.sql.extensions={iceberg.EXTENSIONS}"),
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


def tables_of(
    spark: SparkSession, folder: Path, format_: str = PARQUET
) -> dict[str, Any]:
    """Ingests a file and a damaged one, and builds some tables; returns their rows."""
    damaged = folder.with_suffix(".parquet")
    damaged.write_bytes(b"PAR1 and no footer")
    lake = Lake(spark, folder)
    iceberg.settle(lake, format_)
    done = bronze.ingest(lake, [str(SAMPLE), str(damaged)])
    assert (done.files, [*done.unread]) == (1, [str(damaged)])
    recipe = real_recipe()
    made = builds.build(lake, recipe=recipe)
    assert made.is_published
    assert builds.build(lake, recipe=recipe).runs == []
    sql_views.register(lake)
    if lake.format == ICEBERG:
        said = builds.about(lake, made.id)
        assert said is not None
        assert iceberg.compact(lake, said, 1) == []
    (total,) = spark.sql("SELECT sum(events) FROM silver_runs").collect()
    assert total[0] == done.events
    return {
        table.path: counted(rows(builds.read(lake, made.id, table)))
        for table in recipe.tables
    }


def test_a_server_makes_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest, builds and queries, in both formats; a lake elsewhere is refused."""
    with server(tmp_path) as url:
        spark = session.connect(url, FEW)
        try:
            theirs = tables_of(spark, tmp_path / "there")
            with pytest.raises(PipelineError, match="over Spark Connect a lake"):
                Lake(spark, "s3a://bucket/lake")
        finally:
            session.stop(spark)
        other = tmp_path / "other"
        spark = session.connect(url, FEW, iceberg=str(other))
        try:
            assert tables_of(spark, other, ICEBERG) == theirs
        finally:
            session.stop(spark)
        monkeypatch.setattr(iceberg, "EXTENSIONS", "another.Extension")
        with pytest.raises(SparkProblem, match=f"{url}: the server has no Iceberg: it"):
            session.connect(url, iceberg=str(other))
    local = local_engine.start(1)
    try:
        assert theirs == tables_of(local, tmp_path / "here")
    finally:
        local_engine.stop(local)


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ("build --remote sc://127.0.0.1:1", 1, "no Spark Connect server answers at sc"),
        ("build --remote local", 1, "local is no server of Spark Connect: it must be"),
        ("build --remote sc://h --memory 4g", 2, "--remote and --memory exclude each"),
        ("stream --remote sc://h", 2, "--remote: streams do not work over Spark Conn"),
    ],
)
def test_mistakes_are_told_in_a_line(
    tmp_path: Path, words: str, code: int, line: str
) -> None:
    """Before anything is written."""
    command = ("pipeline", *words.split(), "--lake", str(tmp_path))
    assert refused(*command, code=code).startswith(line)
