"""Tables of a build, made by SQL: what is not said of a row is null, or 0 of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kohort.pipeline.report.queries import QUERIES, Answers, ask
from kohort.pipeline.tables import BY_PATH, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = {
    *("rebalances", "completed", "interrupted", "paused_s", "member_s", "unread_s"),
    *("members_most", "storms", "storm_rebalances", "refused_full", "offsets"),
    *("refused_full_names", "partitions_moved", "partitions_moved_least", "expired"),
    *("expired_unread_s", "metadata_bytes", "assignment_bytes", "commits", "lag_built"),
    *("commit_failures", "records_reprocessed", "records_rewound"),
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


def _select(table: Table, said: Mapping[str, str]) -> str:
    unknown = said.keys() - {column.name for column in table.columns}
    assert not unknown, f"{table.path} has no {unknown}"
    columns = (
        f"CAST({said.get(name, '0' if name in _COUNTS else 'NULL')} AS {each.type})"
        f" AS `{name}`"
        for each in table.columns
        for name in (each.name,)
    )
    return ", ".join(columns)


class Made:
    """The views of a build; those that nothing is said of are empty.

    Args:
        spark: has them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        for table in TABLES:
            self.many(table.path, 0)

    def rows(self, path: str, *rows: Mapping[str, Any]) -> None:
        """Rows of a table: values by columns."""
        selects = [
            f"SELECT {_select(BY_PATH[path], {k: literal(v) for k, v in row.items()})}"
            for row in rows
        ]
        self._view(path, " UNION ALL ".join(selects))

    def many(self, path: str, count: int, **said: str) -> None:
        """So many rows: columns as expressions of `id`, which counts from 0."""
        chosen = _select(BY_PATH[path], said)
        self._view(path, f"SELECT {chosen} FROM range({count})")

    def _view(self, path: str, text: str) -> None:
        self._spark.sql(text).createOrReplaceTempView(path.replace("/", "_"))

    def answers(self) -> Answers:
        """What all queries of the report give."""
        return {name: ask(self._spark, name) for name in QUERIES}
