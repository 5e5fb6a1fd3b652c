"""The tables of builds as tables of Apache Iceberg, in Spark's catalog `CATALOG`.

1. A build makes a branch of each table, ``build_...``, from the branch of the build
   that readers see. It deletes the rows of the runs that it computes, and appends the
   new ones.
2. The checks read the branches.
3. ``current.json`` moves to the build. Its readers read the branches of that name, so
   they see one build in all tables, which no commit of Iceberg's has together.
4. ``main`` of each table is set to the branch, one table after the other, for readers
   that do not know ``current.json``. The next build does it again if this one is killed
   in between.

A build is a branch, so that Iceberg's own clean-up keeps its rows until it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.engines import must_match
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import absolute
from kohort.pipeline.lake import BUILDS, CURRENT, FORMAT, ICEBERG, Lake, LakeError
from kohort.pipeline.parts import is_by_run
from kohort.pipeline.stores import Stored
from kohort.pipeline.tables import BY_PATH, Table
from kohort.pipeline.tables.table import GOLD, SILVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG: Final = "kohort"
PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
READERS: Final = timedelta(hours=1)
"""The time in which a reader ends: files that `compact` replaced stay for as long."""
_CONF: Final = f"spark.sql.catalog.{CATALOG}"
_PLACE: Final = ("type", "catalog-impl", "uri", "warehouse")
"""The settings that tell one catalog from another, none of them a secret."""
_IN_THE_LAKE: Final = ("hadoop", "jdbc")
"""Types of catalogs that need a folder for the tables; a server has its own."""
_RUNS: Final = BY_PATH["silver/runs"]
_PROPERTIES: Final = (
    "'write.parquet.compression-codec' = 'zstd',"
    # So that columns of a later version are added.
    " 'write.spark.accept-any-schema' = 'true',"
    # Each commit writes a file of metadata.
    " 'write.metadata.delete-after-commit.enabled' = 'true',"
    " 'write.metadata.previous-versions-max' = '10'"
)
_BY_RUN: Final = ", 'write.metadata.metrics.column.run' = 'full'"
"""Else only the start of an id is kept: a file with one run goes without being read."""


def settings(lake: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for a lake; a catalog in the conf goes before its own."""
    own = {_CONF: "org.apache.iceberg.spark.SparkCatalog"}
    # Another process may have changed a table.
    own[f"{_CONF}.cache-enabled"] = "false"
    if f"{_CONF}.catalog-impl" not in conf:
        own[f"{_CONF}.type"] = "hadoop"
    if conf.get(f"{_CONF}.type", own.get(f"{_CONF}.type")) in _IN_THE_LAKE:
        own[f"{_CONF}.warehouse"] = f"{absolute(lake).rstrip('/')}/tables"
    if conf.get(f"{_CONF}.uri", "").startswith("jdbc:sqlite:"):
        # A second connection may find the database locked by the first.
        own[f"{_CONF}.clients"] = "1"
    return {**own, **conf}


def on_server(
    spark: SparkSession, lake: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a session on a server of Spark Connect, which may have a catalog.

    Raises:
        PipelineError: the server was started without Iceberg.
    """
    if EXTENSIONS not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise PipelineError(
            "the server has no Iceberg: it must be started with --packages"
            f" {PACKAGE} --conf spark.sql.extensions={EXTENSIONS}"
        )
    own = {f"{_CONF}.{key}": value for key, value in _place(spark).items()}
    return settings(lake, {**own, **conf})


def settle(lake: Lake, asked: str | None) -> None:
    """Makes a lake without builds an Iceberg lake if asked; it remembers the catalog.

    Raises:
        LakeError: it has another format, or its catalog is another one.
    """
    catalog = _place(lake.spark)
    said = {"format": ICEBERG, "catalog": catalog}
    is_new = asked == ICEBERG and catalog and lake.read_json(FORMAT) != said
    # Before the first build a mistake in the settings can be mended.
    if is_new and not lake.exists(CURRENT):
        lake.remember(said)
    if asked not in (None, lake.format):
        raise LakeError(
            f"the tables of {lake.path} are {lake.format}, not {asked}: another format"
            " needs another lake"
        )
    if lake.format == ICEBERG:
        _must_be(lake, catalog)


def _place(spark: SparkSession) -> dict[str, str]:
    found = {key: spark.conf.get(f"{_CONF}.{key}", None) for key in _PLACE}
    return {key: value for key, value in found.items() if value is not None}


def _must_be(lake: Lake, catalog: Mapping[str, str]) -> None:
    """Another catalog would look like a lake without tables."""
    if not catalog:
        raise LakeError(f"{lake.path} is an Iceberg lake: --format iceberg")
    known = (lake.read_json(FORMAT) or {}).get("catalog", {})
    if catalog != known:
        given = " ".join(f"--conf {_CONF}.{k}={v}" for k, v in known.items())
        raise LakeError(f"the tables of {lake.path} are in another catalog: {given}")


def branch(build_id: str) -> str:
    """The branch with a build, in each table."""
    return f"build_{build_id.replace('.', '_').replace('-', '_')}"


class IcebergTables:
    """The tables of a lake, see `kohort.pipeline.stores.Store`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def draft(self, build_id: str, current: str | None) -> IcebergDraft:
        """See `Store`; the folder tells the next build of a killed one."""
        self._lake.make(f"{BUILDS}/{build_id}")
        return IcebergDraft(self._lake, build_id, current)

    def read(self, build_id: str, table: Table, said: Mapping[str, Any]) -> DataFrame:
        """See `Store`."""
        return _read(self._lake, table, build_id)

    def published(self, said: Mapping[str, Any]) -> None:
        """Sets ``main`` of each table to the build."""
        for name in _names(said):
            _set_main(self._lake, name, said["branch"])

    def sweep(self, gone: Sequence[str], stay: Sequence[Mapping[str, Any]]) -> None:
        """See `Store`; `compact` removes the files."""
        names = [*self._all()] if gone else []
        for build_id in gone:
            for name in names:
                drop = f"DROP BRANCH IF EXISTS {branch(build_id)}"
                self._lake.spark.sql(f"ALTER TABLE {CATALOG}.{name} {drop}")
            self._lake.remove(f"{BUILDS}/{build_id}")

    def _all(self) -> Iterator[str]:
        """All tables of the catalog: that of a killed build may be in any."""
        sql = self._lake.spark.sql
        for layer in (SILVER, GOLD):
            sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{layer}")
            for row in sql(f"SHOW TABLES IN {CATALOG}.{layer}").collect():
                yield f"{layer}.{row['tableName']}"


class IcebergDraft:
    """A build's branches, see `kohort.pipeline.stores.Draft`."""

    def __init__(self, lake: Lake, build_id: str, current: str | None) -> None:
        self._lake = lake
        self._id = build_id
        self._current = current
        self._runs: Sequence[str] | None = None
        self._known: Collection[str] = ()

    def base_on(self, base: Mapping[str, Any], runs: Sequence[str]) -> None:
        """See `Draft`."""
        self._runs = runs
        there = _read(self._lake, _RUNS, base["build"])
        some = there.where(there["run"].isin([*runs]))
        self._known = {row["run"] for row in some.select("run").collect()}

    def write(self, table: Table, rows: DataFrame | None) -> Stored:
        """See `Draft`."""
        self._begin(table)
        if rows is not None:
            self._write(table, rows)
        return self._stored(table)

    def rows(self, table: Table, *, only: bool) -> DataFrame:
        """See `Draft`."""
        rows = _read(self._lake, table, self._id)
        if not only or self._runs is None:
            return rows
        return rows.where(rows["run"].isin([*self._runs]))

    def as_json(self, computed: Callable[[], Sequence[str]]) -> dict[str, Any]:
        """See `Draft`."""
        return {"branch": branch(self._id)}

    def discard(self) -> None:
        """See `Draft`."""
        IcebergTables(self._lake).sweep([self._id], ())

    def _begin(self, table: Table) -> None:
        """Makes the branch, with the rows that readers see, and the table."""
        sql, name = self._lake.spark.sql, _name(table)
        properties = f"{_PROPERTIES}{_BY_RUN if is_by_run(table) else ''}"
        sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({table.ddl}) USING iceberg"
            f" TBLPROPERTIES ({properties})"
        )
        start = ""
        if self._current is not None:
            found = _snapshots(self._lake, table, branch(self._current)).collect()
            start = f" AS OF VERSION {found[0]['snapshot_id']}" if found else ""
            if self._runs is not None and not found:
                raise LakeError(
                    f"table {table.path} of build {self._current} is gone:"
                    " `kohort pipeline build --all` makes the tables again"
                )
        sql(f"ALTER TABLE {name} CREATE BRANCH {branch(self._id)}{start}")

    def _write(self, table: Table, rows: DataFrame) -> None:
        from pyspark.sql import functions as sql

        name = f"{_name(table)}.branch_{branch(self._id)}"
        must_match(rows.schema, table.schema(), name)
        _must_fit(self._lake.spark.table(name), table)
        writer = rows.writeTo(name).option("mergeSchema", "true")
        if self._runs is None or not is_by_run(table):
            writer.overwrite(sql.lit(True))
            return
        if self._known:
            marks = ", ".join("?" * len(self._known))
            self._lake.spark.sql(
                f"DELETE FROM {name} WHERE run IN ({marks})",  # noqa: S608 - names are ours
                [*self._known],
            )
        writer.append()

    def _stored(self, table: Table) -> Stored:
        """Numbers of the branch, from its snapshot."""
        (row,) = _snapshots(self._lake, table, branch(self._id)).collect()
        keys = ("total-records", "total-data-files", "total-files-size")
        rows, files, size = (int(row["summary"].get(key, 0)) for key in keys)
        return Stored(rows, files, size)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of a compaction of a table.

    Attributes:
        table: its name in the catalog.
        files: number of files that were read before, and are not any more.
        made: number of files in their place.
    """

    table: str
    files: int
    made: int


def compact(lake: Lake, current: Mapping[str, Any], least: int) -> list[Rewritten]:
    """Rewrites small files of the tables, and removes those that no build has.

    Args:
        lake: the lake.
        current: the lineage of the build that readers see.
        least: rewrites tables with this many small files.

    Returns:
        The tables that were rewritten.

    Raises:
        LakeError: a build is in progress.
    """
    done: list[Rewritten] = []
    sql = lake.spark.sql
    until = f"{datetime.now(UTC) - READERS:%Y-%m-%d %H:%M:%S}"
    with lake.lock("build", "a compaction") as must_hold:
        for name in _names(current):
            must_hold()
            _set_main(lake, name, current["branch"])
            (row,) = sql(
                f"CALL {CATALOG}.system.rewrite_data_files(table => '{name}',"
                f" options => map('min-input-files', '{least}'))"
            ).collect()
            made = row["added_data_files_count"]
            if made:
                done.append(Rewritten(name, row["rewritten_data_files_count"], made))
                # The same rows: the next build goes on from them.
                move = f"REPLACE BRANCH {current['branch']}"
                sql(f"ALTER TABLE {CATALOG}.{name} {move}")
            sql(
                f"CALL {CATALOG}.system.expire_snapshots(table => '{name}',"
                f" older_than => TIMESTAMP '{until}', retain_last => 1)"
            ).collect()
    return done


def _set_main(lake: Lake, name: str, ref: str) -> None:
    procedure = f"{CATALOG}.system.set_current_snapshot"
    lake.spark.sql(f"CALL {procedure}(table => '{name}', ref => '{ref}')").collect()


def _names(said: Mapping[str, Any]) -> list[str]:
    """The tables of a build, in the catalog."""
    return [each["table"].replace("/", ".") for each in said["tables"]]


def _snapshots(lake: Lake, table: Table, ref: str) -> DataFrame:
    """The snapshot of a branch; no row: there is no such branch."""
    name = _name(table)
    return lake.spark.sql(
        f"SELECT snapshot_id, summary FROM {name}.snapshots WHERE snapshot_id IN"  # noqa: S608 - names are ours
        f" (SELECT snapshot_id FROM {name}.refs WHERE name = ?)",
        [ref],
    )


def _read(lake: Lake, table: Table, build_id: str) -> DataFrame:
    """The rows of a build; columns that the table does not have yet are null."""
    from pyspark.sql import functions as sql

    read = lake.spark.read.option("branch", branch(build_id))
    rows = read.table(_name(table))
    there = set(rows.columns)
    return rows.select(
        *(
            sql.col(f"`{each.name}`")
            if each.name in there
            else sql.lit(None).cast(each.type).alias(each.name)
            for each in table.columns
        )
    )


def _must_fit(rows: DataFrame, table: Table) -> None:
    """Iceberg adds columns; a column keeps its type."""
    there, schema = dict(rows.dtypes), table.schema()
    for each in schema.fields:
        found = there.get(each.name)
        if found not in (None, each.dataType.simpleString()):
            raise LakeError(
                f"table {table.path}: column {each.name} is {found}, but in this"
                f" version of kohort {each.dataType.simpleString()}. Make a new lake"
            )


def _name(table: Table) -> str:
    return f"{CATALOG}.{table.layer}.{table.name}"
