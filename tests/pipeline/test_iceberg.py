"""Builds in Iceberg tables: published completely or not at all, as in folders."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.commands import KOHORT, environment, refused
from tests.pipeline.events import counted
from tests.pipeline.events import rows as rows_of
from tests.pipeline.test_build import (
    COUNTS,
    RECIPE,
    RUNS,
    SAMPLE,
    SUMS,
    built,
    failing,
    rows,
)
from tests.pipeline.test_command import SPARK_STARTS_S

from kohort.pipeline import bronze, iceberg
from kohort.pipeline import build as builds
from kohort.pipeline.build import Recipe
from kohort.pipeline.engine_choice import AUTO, Work, choose
from kohort.pipeline.engines import SPARK
from kohort.pipeline.lake import ICEBERG, PARQUET, Lake, LakeError, format_of
from kohort.pipeline.tables import TABLES, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An empty Iceberg lake, with its catalog in its folder."""
    path = str(tmp_path / "lake")
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.kohort.warehouse", f"{path}/tables")
    made = Lake(session, path)
    iceberg.settle(made, ICEBERG)
    return made


def refs(lake: Lake, table: str = "silver.counts") -> set[str]:
    """The branches of a table, without main."""
    found = lake.spark.sql(f"SELECT name FROM kohort.{table}.refs").collect()
    return {row["name"] for row in found} - {"main"}


def main(lake: Lake, table: str = "silver.counts") -> Any:
    """The rows that others see: without a branch, and without ``current.json``."""
    return sorted(tuple(row) for row in lake.spark.table(f"kohort.{table}").collect())


def test_a_build_is_a_branch(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see whole builds, also after a failure and a kill; old ones go."""
    first = built(lake, {"it's": 3, "b": 2})
    second = built(lake, {"it's": 4, "c": 1}, runs=["it's", "c"])
    expected = [("b", 2, 5), ("c", 1, 5), ("it's", 4, 5)]
    assert second.runs == ["c", "it's"]
    assert rows(lake, COUNTS) == main(lake) == expected
    assert rows(lake, SUMS) == main(lake, "gold.sums") == [(7,)]
    assert rows(lake, COUNTS, first.id) == [("b", 2, 5), ("it's", 3, 5)]
    assert [each.rows for each in second.tables] == [3, 3, 1]
    both = {iceberg.branch(first.id), iceberg.branch(second.id)}
    assert refs(lake) == both

    broken = Recipe(RECIPE.tables, {**RECIPE.functions, "silver/counts": failing})
    with pytest.raises(Exception, match="no"):
        built(lake, {"b": 9}, runs=["b"], recipe=broken)
    assert (rows(lake, COUNTS), main(lake), refs(lake)) == (expected, expected, both)
    assert lake.names("builds") == [first.id, second.id]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(iceberg.IcebergTables, "published", killed)
        with pytest.raises(KeyboardInterrupt):
            built(lake, {"b": 9}, runs=["b"])
    assert rows(lake, COUNTS) == [("b", 9, 5), *expected[1:]]
    assert main(lake) == expected
    last = built(lake, {"c": 2}, runs=["c"], keep=1)
    seen = [("b", 9, 5), ("c", 2, 5), ("it's", 4, 5)]
    assert rows(lake, COUNTS) == main(lake) == seen
    assert refs(lake) == {iceberg.branch(last.id)}

    said = builds.about(lake, last.id)
    assert said is not None
    done = {each.table: each.made for each in iceberg.compact(lake, said, 2)}
    assert done["silver.counts"] == 1
    assert rows(lake, COUNTS) == main(lake) == seen
    after = built(lake, {"d": 1}, runs=["d"])
    assert rows(lake, COUNTS) == main(lake) == [*seen[:2], ("d", 1, 5), seen[2]]
    assert after.tables[1].files == 2

    newer = Column("later", "string", "came later"), Column("k", "string", "a text")
    table = Table("counts", "silver", "", (), (*COUNTS.columns, newer[0]))
    assert rows(lake, table)[0] == ("b", 9, 5, None)
    other = Table("counts", "silver", "", (), (*COUNTS.columns[:2], newer[1]))
    texts = {**RECIPE.functions, "silver/counts": as_text}
    with pytest.raises(LakeError, match="column k is int, but in this version"):
        built(lake, {"a": 1}, recipe=Recipe((RUNS, other), texts))


def as_text(frames: Any, _: Any) -> Any:
    """Rows whose column k has another type than in `COUNTS`."""
    return frames["silver/runs"].selectExpr("run", "events", "'x' as k")


def test_a_lake_remembers_its_format(lake: Lake, tmp_path: Path) -> None:
    """Another format is refused, and another catalog; only Spark has the tables."""
    assert (format_of(lake.path), Lake(lake.spark, lake.path).format) == (ICEBERG,) * 2
    work = Work(lake.path, reads_events=False, format=format_of(lake.path))
    assert choose(AUTO, work).engine == SPARK
    iceberg.settle(lake, None)
    with pytest.raises(LakeError, match="are iceberg, not parquet"):
        iceberg.settle(lake, PARQUET)
    other = Lake(lake.spark, tmp_path / "other")
    other.write_text("current.json", "{}")
    with pytest.raises(LakeError, match="are parquet, not iceberg"):
        iceberg.settle(other, ICEBERG)
    warehouse = "spark.sql.catalog.kohort.warehouse"
    lake.spark.conf.set(warehouse, str(tmp_path / "elsewhere"))
    with pytest.raises(LakeError, match=f"{warehouse}={lake.path}/tables"):
        iceberg.settle(lake, None)
    iceberg.settle(lake, ICEBERG)  # there is no build yet
    lake.write_text("current.json", "{}")
    lake.spark.conf.set(warehouse, f"{lake.path}/tables")
    with pytest.raises(LakeError, match=f"{warehouse}={tmp_path}/elsewhere"):
        iceberg.settle(lake, ICEBERG)


@pytest.mark.parametrize(
    ("given", "warehouse"),
    [
        ({}, "s3a://b/lake/tables"),
        ({"type": "jdbc"}, "s3a://b/lake/tables"),
        ({"type": "jdbc", "warehouse": "s3a://w"}, "s3a://w"),
        ({"type": "rest"}, None),
        ({"catalog-impl": "a.B"}, None),
    ],
)
def test_tables_are_in_the_lake_or_where_the_catalog_has_them(
    given: dict[str, str], warehouse: str | None
) -> None:
    """A catalog behind a server has its own folder; ``type`` excludes a class."""
    prefix = "spark.sql.catalog.kohort."
    conf = {f"{prefix}{key}": value for key, value in given.items()}
    made = iceberg.settings("s3a://b/lake/", conf)
    assert made.get(f"{prefix}warehouse") == warehouse
    assert f"{prefix}clients" not in made
    kind = None if "catalog-impl" in given else given.get("type", "hadoop")
    assert made.get(f"{prefix}type") == kind


def test_sqlite_has_one_connection() -> None:
    """The second of two connections may find the database locked."""
    prefix = "spark.sql.catalog.kohort."
    conf = {f"{prefix}type": "jdbc", f"{prefix}uri": "jdbc:sqlite:/x.db"}
    assert iceberg.settings("s3a://b/lake", conf)[f"{prefix}clients"] == "1"
    more = {**conf, f"{prefix}clients": "3"}
    assert iceberg.settings("s3a://b/lake", more)[f"{prefix}clients"] == "3"


def test_commands_find_the_tables(lake: Lake) -> None:
    """Without an option of Spark's or of the format; only Spark has the tables."""
    built(lake, {"a": 3})
    words = ("pipeline", "query", "SELECT events FROM silver_runs", "--csv")
    where = {"KOHORT_LAKE": lake.path}
    told = refused(*words, "--engine", "local", code=2, **where)
    assert told.endswith("only Spark has Iceberg tables")
    ended = subprocess.run(
        [*KOHORT, *words],
        env=environment(**where),
        capture_output=True,
        text=True,
        timeout=SPARK_STARTS_S,
        check=False,
    )
    assert ended.stdout == "events\n3\n", ended.stderr


@pytest.mark.long
def test_all_tables_are_those_of_a_folder(lake: Lake, tmp_path: Path) -> None:
    """Each row, after a build of everything and one of nothing new."""
    folder = Lake(lake.spark, tmp_path / "folder")
    for each in (folder, lake):
        bronze.ingest(each, [str(SAMPLE)])
        assert builds.build(each).is_published
    assert builds.build(lake).runs == []
    here, there = builds.current(lake), builds.current(folder)
    assert here is not None
    assert there is not None
    for table in TABLES:
        ours = rows_of(builds.read(lake, here, table))
        theirs = rows_of(builds.read(folder, there, table))
        assert counted(ours) == counted(theirs), table.path
