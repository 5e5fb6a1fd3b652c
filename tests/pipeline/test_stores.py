"""Lakes in an object store: the same tables, and one build at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.cluster import BUCKET, store
from tests.pipeline.events import counted
from tests.pipeline.events import rows as rows_of
from tests.pipeline.test_build import COUNTS, SAMPLE, SUMS, built, real_recipe, rows

from kohort.pipeline import bronze, iceberg
from kohort.pipeline import build as builds
from kohort.pipeline.build import Build
from kohort.pipeline.lake import ICEBERG, Lake, LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILES = (SAMPLE.with_name("broker.jsonl"), SAMPLE)
HADOOP = {"type": "hadoop"}
JDBC = {"type": "jdbc", "uri": "jdbc:sqlite:{folder}/catalog.db"}
"""A catalog with atomic commits."""


@pytest.fixture(scope="module")
def bucket(spark: SparkSession) -> Iterator[str]:
    """The URI of a bucket that Spark reaches."""
    with store() as kept:
        conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other
        for key, value in kept.settings.items():
            if key.startswith("spark.hadoop."):
                conf.set(key.removeprefix("spark.hadoop."), value)
        yield f"s3a://{BUCKET}"


def iceberg_lake(lake: Lake, where: str, catalog: dict[str, str]) -> Lake:
    """An Iceberg lake in a store; its catalog is where the local lake would be."""
    session = lake.spark.newSession()
    prefix = "spark.sql.catalog.kohort"
    folder = Path(lake.path).parent
    own = {f"{prefix}.{key}": v.format(folder=folder) for key, v in catalog.items()}
    for key, value in iceberg.settings(where, own).items():
        session.conf.set(key, value)
    made = Lake(session, where)
    iceberg.settle(made, ICEBERG)
    return made


def tables_of(lake: Lake) -> dict[str, Any]:
    """Builds some tables after each of two ingests; returns their rows."""
    recipe = real_recipe()
    for file in FILES:
        bronze.ingest(lake, [str(file)])
        made = builds.build(lake, recipe=recipe)
        assert made.is_published
    assert made.runs is not None
    assert len(made.runs) == made.tables[0].rows - 1
    said = builds.about(lake, made.id)
    assert said is not None
    if lake.format == ICEBERG:
        done = {each.table: each.made for each in iceberg.compact(lake, said, 2)}
        assert done["silver.runs"] == 1
    return {
        table.path: counted(rows_of(builds.read(lake, made.id, table)))
        for table in recipe.tables
    }


def test_a_store_has_the_same_tables(lake: Lake, bucket: str) -> None:
    """Iceberg's, with each kind of catalog, are those of Parquet in a local folder."""
    here = tables_of(lake)
    for name, catalog in (("hadoop", HADOOP), ("jdbc", JDBC)):
        assert tables_of(iceberg_lake(lake, f"{bucket}/{name}", catalog)) == here


def test_a_killed_ingest_leaves_nothing(lake: Lake, bucket: str) -> None:
    """The next one removes its files, as on a local disk."""
    there = Lake(lake.spark, f"{bucket}/ingests")
    there.write_text("bronze/files/killed/events/part", "")
    done = bronze.ingest(there, [str(FILES[0])])
    assert there.names("bronze/files") == [done.id]
    with there.lock("ingest", "ingest"), pytest.raises(LakeError, match="another proc"):
        bronze.ingest(Lake(lake.spark, there.path), [str(SAMPLE)])


@pytest.mark.parametrize("catalog", [None, HADOOP, JDBC], ids=["", "hadoop", "jdbc"])
def test_builds_at_the_same_time(
    lake: Lake, bucket: str, catalog: dict[str, str] | None
) -> None:
    """One is published as a whole; the other one too, or it says that one is at it."""
    where = f"{bucket}/{Path(lake.path).parent.name}"
    barrier = threading.Barrier(2)

    def build(number: int) -> Build | LakeError:
        one = Lake(lake.spark, where)
        if catalog is not None:
            one = iceberg_lake(lake, where, catalog)
        barrier.wait()
        try:
            return built(one, {"a": number, "b": number}, runs=["a", "b"])
        except LakeError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        made = dict(zip((1, 2), pool.map(build, (1, 2)), strict=True))
    there = Lake(lake.spark, where)
    if catalog is not None:
        there = iceberg_lake(lake, where, catalog)
    seen = builds.current(there)
    (number,) = (
        number
        for number, each in made.items()
        if isinstance(each, Build) and each.id == seen
    )
    assert rows(there, COUNTS) == [("a", number, 5), ("b", number, 5)]
    assert rows(there, SUMS) == [(2 * number,)]
    for each in made.values():
        if isinstance(each, LakeError):
            assert str(each).startswith("a build: another process is at it in this la")
    assert there.names("locks/build") == []
