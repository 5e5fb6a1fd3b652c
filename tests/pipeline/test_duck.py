"""Every table of Spark's equals that of the independent calculation, for every metric.

The events are a mixture: random histories of the real coordinator, a scene for every
kind and cause, and synthetic ones by the ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from bench.pipeline import synthetic
from tests.coordinator.context import Context
from tests.events.build import recorded
from tests.events.plays import PLAYS
from tests.pipeline.duck.calculate import PATHS, calculate
from tests.pipeline.duck.compare import compare
from tests.pipeline.duck.parquet import write
from tests.pipeline.histories import history

from kohort.pipeline import gold, silver
from kohort.pipeline.makers import EVENTS, Options
from kohort.pipeline.tables import BY_PATH, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

HISTORIES = 60
SYNTHETIC = 50_000
OPTIONS = Options(storm_rebalances=4, storm_seconds=45)
"""Not the usual ones: more is a storm."""


def told() -> Iterator[Mapping[str, Any]]:
    """What coordinators told: in random histories, and in scenes."""
    for seed in range(1_000, 1_000 + HISTORIES):
        yield from history(seed)
    for (kind, cause), scene in PLAYS.items():
        context = Context()
        scene(context)
        yield from recorded(context, f"{kind} {cause}")


@dataclass(frozen=True, slots=True)
class Both:
    """The same tables twice.

    Attributes:
        folder: what Spark has written: a folder for each path.
        connection: what DuckDB has calculated.
    """

    folder: Path
    connection: duckdb.DuckDBPyConnection


def build(events: DataFrame, folder: Path) -> None:
    """All tables by Spark, each read back before others are made of it."""
    makers = {**silver.MAKERS, **gold.MAKERS}
    frames: dict[str, DataFrame] = {EVENTS: events}
    for table in TABLES:
        if table.path in makers:
            to = str(folder / table.path)
            makers[table.path](frames, OPTIONS).write.parquet(to)
            frames[table.path] = events.sparkSession.read.parquet(to)


@pytest.fixture(scope="module")
def both(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """All tables, computed once by each of the two."""
    bronze = tmp_path_factory.mktemp("bronze")
    write(told(), bronze / "told.parquet")
    synthetic.write(bronze, SYNTHETIC)
    folder = tmp_path_factory.mktemp("spark")
    build(spark.read.parquet(str(bronze)), folder)
    with calculate(f"{bronze}/*.parquet", OPTIONS) as connection:
        yield Both(folder, connection)


@pytest.mark.parametrize("path", PATHS)
def test_spark_and_duckdb_agree(both: Both, path: str) -> None:
    """Row by row, by key; and there are rows."""
    name = path.replace("/", ".")
    differences = compare(both.folder / path, name, BY_PATH[path], both.connection)
    assert not differences, "\n".join(differences)
    assert both.connection.execute(f"FROM {name} LIMIT 1").fetchall()


def test_nothing_is_left_out() -> None:
    """All tables but recommendations, and checks of the data."""
    left: Mapping[str, object] = {p: t for p, t in BY_PATH.items() if p not in PATHS}
    assert left.keys() == {"gold/settings", "gold/quality"}
