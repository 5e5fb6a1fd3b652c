"""Tables of a build, made by SQL: omitted columns are null or 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kohort.pipeline.report.queries import QUERIES, Answers, ask
from kohort.pipeline.tables import BY_PATH, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = {
    *(
        "rebalances",
        "completed",
        "interrupted",
        "paused_s",
        "member_s",
        "downtime_s",
        "unprocessed_s",
        "partition_s",
    ),
    *("members_most", "storms", "storm_rebalances", "refused_full", "offsets"),
    *("refused_full_names", "partitions_moved", "partitions_moved_least", "expired"),
    *("expired_unread_s", "metadata_bytes", "assignment_bytes", "commits", "lag_built"),
    *("commit_failures", "received", "again_certain", "again_possible"),
    *("skipped", "went_back"),
}
"""Columns of gold's metrics that are 0 where there is nothing."""

BASE_NS = 1_795_284_000_000_000_000
"""2026-11-21 18:00:00 UTC."""


def literal(value: Any) -> str:
    """A value in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{text}'"
    if isinstance(value, dict):
        pairs = (f"{literal(key)}, {literal(each)}" for key, each in value.items())
        return f"map({', '.join(pairs)})"
    if isinstance(value, list):
        return f"array({', '.join(map(literal, value))})"
    return str(value)


def _values(table: Table, said: Mapping[str, str]) -> list[str]:
    """The expressions of all columns of a row."""
    unknown = said.keys() - {column.name for column in table.columns}
    assert not unknown, f"{table.path} has no {unknown}"
    return [
        f"CAST({said.get(name, '0' if name in _COUNTS else 'NULL')} AS {each.type})"
        for each in table.columns
        for name in (each.name,)
    ]


class Made:
    """The views of a build; tables without rows are empty.

    Args:
        spark: the session with the views.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        for table in TABLES:
            self.many(table.path, 0)

    def rows(self, path: str, *rows: Mapping[str, Any]) -> None:
        """Rows of a table: values by columns."""
        table = BY_PATH[path]
        # A union of this many would be too deep for Spark.
        values = ", ".join(
            f"({', '.join(_values(table, {k: literal(v) for k, v in row.items()}))})"
            for row in rows
        )
        names = ", ".join(f"`{column.name}`" for column in table.columns)
        self._view(path, f"SELECT * FROM VALUES {values} AS t({names})")

    def many(self, path: str, count: int, **said: str) -> None:
        """This many rows: columns as expressions of `id`, which counts from 0."""
        table = BY_PATH[path]
        chosen = ", ".join(
            f"{value} AS `{column.name}`"
            for value, column in zip(_values(table, said), table.columns, strict=True)
        )
        self._view(path, f"SELECT {chosen} FROM range({count})")

    def _view(self, path: str, text: str) -> None:
        self._spark.sql(text).createOrReplaceTempView(path.replace("/", "_"))

    def answers(self) -> Answers:
        """The answers of all queries of the report."""
        return {name: ask(self._spark, name) for name in QUERIES}
