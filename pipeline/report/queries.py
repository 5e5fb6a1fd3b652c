"""The queries of the report: each has a name, and each number comes from one of them.

A query is SQL over the tables of a build as views, ``gold_groups`` for gold/groups. It
begins with a comment: its result and, after ``-- name:``, the meanings of columns that
no table has.
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
class Query:
    """A query, by its name.

    Attributes:
        name: as in `kohort pipeline query --name`.
        sql: its text, with the comment.
        says: its result, in words.
        meanings: of columns, those of the comment.
        tables: the tables that it reads.
    """

    name: str
    sql: str
    says: str
    meanings: Mapping[str, str]
    tables: tuple[Table, ...]

    def meaning(self, column: str) -> str:
        """The meaning of a column of its result; empty for an unknown column.

        Called by the template ``queries.html``.
        """
        if column in self.meanings:
            return self.meanings[column]
        for table in self.tables:
            for each in table.columns:
                if each.name == column:
                    return f"{each.says} ({table.path})"
        return ""


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

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, **wanted: Any) -> list[Row]:
        """The rows with these values."""
        return [
            row
            for row in self.rows
            if all(row[name] == value for name, value in wanted.items())
        ]


Answers = Mapping[str, Answer]
"""Answers by the names of their queries."""

_VIEWS: Final = {table.path.replace("/", "_"): table for table in TABLES}
_COMMENT: Final = re.compile(r"\A(?:--.*\n)+")
_MEANING: Final = re.compile(r"(\w+): (.+)")


def _query(name: str, text: str) -> Query:
    found = _COMMENT.match(text)
    comment = found[0].splitlines() if found else []
    says: list[str] = []
    meanings: dict[str, str] = {}
    last = ""
    for line in (each.removeprefix("--").removeprefix(" ") for each in comment):
        meaning = _MEANING.fullmatch(line)
        if line.startswith("  ") and last:
            meanings[last] += f" {line.strip()}"
        elif meaning is not None:
            last = meaning[1]
            meanings[last] = meaning[2]
        else:
            says.append(line)
    return Query(name, text.strip(), " ".join(says), meanings, _tables(text))


def _tables(text: str) -> tuple[Table, ...]:
    """The tables that a query reads, in order."""
    found = dict.fromkeys(re.findall(r"\b(?:silver|gold)_\w+", text))
    return tuple(_VIEWS[name] for name in found if name in _VIEWS)


def _all() -> Iterator[Query]:
    folder = files(__package__).joinpath("sql")
    for each in sorted(folder.iterdir(), key=lambda file: file.name):
        name, _, kind = each.name.rpartition(".")
        if kind == "sql":
            yield _query(name, each.read_text(encoding="utf-8"))


BY_NAME: Final[Mapping[str, Query]] = MappingProxyType(
    {query.name: query for query in _all()}
)
"""All of them."""
QUERIES: Final[Mapping[str, str]] = MappingProxyType(
    {query.name: query.sql for query in BY_NAME.values()}
)
"""Their texts."""


def sql(name: str, runs: Sequence[str] | None = None) -> str:
    """The text of a query.

    Args:
        name: which.
        runs: of these only: each table that it reads is narrowed to them; None: all.

    Raises:
        KeyError: an unknown query.
    """
    query = BY_NAME[name]
    if runs is None:
        return query.sql
    wanted = ", ".join(map(_literal, runs)) or "NULL"
    narrowed = ",\n  ".join(
        f"{view} AS (SELECT * FROM {view} WHERE {_condition(table, wanted)})"  # noqa: S608 - views are ours, runs are spelled as literals
        for view, table in _VIEWS.items()
        if table in query.tables
    )
    found = _COMMENT.match(query.sql)
    comment = found[0] if found else ""
    text = query.sql.removeprefix(comment)
    return f"{comment}WITH {narrowed}\n{text}"


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
