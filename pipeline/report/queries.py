"""The queries of the report: its tables and charts show their answers.

A query is SQL over the tables of a build as views, ``gold_groups`` for gold/groups. It
begins with a comment: its result, and the meanings of columns that no table has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.tables import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query.

    Attributes:
        columns: their names, in order.
        rows: by these names.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def of(self, group: str) -> list[Row]:
        """The rows of a group."""
        return [row for row in self.rows if row["group"] == group]


Answers = Mapping[str, Answer]
"""Answers by the names of their queries."""

_VIEWS: Final = {table.path.replace("/", "_"): table for table in TABLES}
_COMMENT: Final = re.compile(r"\A(?:--.*\n)+")

QUERIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8").strip()
        for file in sorted(
            files(__package__).joinpath("sql").iterdir(), key=lambda file: file.name
        )
        if file.name.endswith(".sql")
    }
)
"""Their texts, by name."""


def sql(name: str, runs: Sequence[str] | None = None) -> str:
    """The text of a query.

    Args:
        name: which.
        runs: of these only: each table that it reads is narrowed to them; None: all.

    Raises:
        KeyError: an unknown query.
    """
    text = QUERIES[name]
    if runs is None:
        return text
    wanted = ", ".join(map(_literal, runs)) or "NULL"
    read = {*re.findall(r"\b(?:silver|gold)_\w+", text)}
    narrowed = ",\n  ".join(
        f"{view} AS (SELECT * FROM {view} WHERE {_condition(table, wanted)})"  # noqa: S608 - views are ours, runs are spelled as literals
        for view, table in _VIEWS.items()
        if view in read
    )
    found = _COMMENT.match(text)
    comment = found[0] if found else ""
    return f"{comment}WITH {narrowed}\n{text.removeprefix(comment)}"


def _condition(table: Table, wanted: str) -> str:
    names = {column.name for column in table.columns}
    if "run" in names:
        # Rows about all runs together (gold/quality) are about these, too.
        return f"run IN ({wanted})" + (" OR run IS NULL" if "check" in names else "")
    return f"run_with IN ({wanted}) AND run_without IN ({wanted})"


def _literal(text: str) -> str:
    r"""A string literal of Spark's SQL, escaped: ``'it\'s'``."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def ask(spark: SparkSession, name: str, runs: Sequence[str] | None = None) -> Answer:
    """Asks the views for one answer.

    Args:
        spark: has the tables as temporary views.
        name: of the query.
        runs: see `sql`.
    """
    found = spark.sql(sql(name, runs))
    rows = [row.asDict() for row in found.collect()]
    # To ask for the columns takes a third of the time.
    columns = tuple(rows[0] if rows else found.columns)
    return Answer(columns, tuple(MappingProxyType(row) for row in rows))
