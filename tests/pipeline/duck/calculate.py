"""The pipeline's tables in DuckDB's SQL, from the words of `kohort.pipeline.tables`.

It is there to be another opinion: nothing of it is taken from the pipeline's code, and
nothing of the pipeline's is taken from here. Left out are ``gold/settings`` (rules, not
definitions) and ``gold/quality`` (of the lake, not of the events).

A file here is one SELECT; what is in ``part`` is used by several tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb

from kohort.pipeline.makers import Options
from kohort.pipeline.tables import BY_PATH, Table

HERE: Final = Path(__file__).parent
HOUR_NS: Final = 3_600_000_000_000

_GRAINS: Final = MappingProxyType(
    {
        "gold/hours": (
            'run, "group", hour',
            (
                'SELECT run, "group", hour FROM part.counted'
                ' UNION SELECT run, "group", hour FROM part.spans'
            ),
        ),
        "gold/groups": (
            'run, "group"',
            'SELECT DISTINCT run, "group" FROM part.counted',
        ),
        "gold/runs": ("run", "SELECT * EXCLUDE (nodes) FROM silver.runs"),
    }
)
"""What the rows of a table of metrics are for, and which there are."""

_STEPS: Final = (
    "silver/runs",
    "silver/rebalances",
    "part/steps",
    "part/ends",
    "silver/memberships",
    "silver/ownership",
    "silver/stand_stills",
    "silver/commits",
    "part/partitions",
    "silver/reprocessed",
    "silver/refusals",
    "silver/moves",
    "silver/lags",
    "part/spans",
    "part/counted",
    "part/rebalances",
    "gold/storms",
    "gold/hours",
    "gold/groups",
    "gold/runs",
    "gold/causes",
    "gold/culprits",
    "gold/waited_for",
    "gold/initial_delay",
)

_SCHEMAS: Final = ("silver", "gold", "part")

PATHS: Final = tuple(path for path in _STEPS if path in BY_PATH)
"""The tables that are calculated."""

_TYPES: Final = MappingProxyType(
    {
        "bigint": "BIGINT",
        "int": "INTEGER",
        "double": "DOUBLE",
        "string": "VARCHAR",
        "boolean": "BOOLEAN",
        "timestamp": "TIMESTAMPTZ",
        "array<string>": "VARCHAR[]",
        "array<int>": "INTEGER[]",
        "map<string,string>": "MAP(VARCHAR, VARCHAR)",
        "map<string,bigint>": "MAP(VARCHAR, BIGINT)",
    }
)
"""DuckDB's names of the types that tables have."""


def calculate(
    events: str | Sequence[str],
    options: Options | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
    done: Callable[[str], object] = lambda _: None,
    folder: Path | None = None,
) -> duckdb.DuckDBPyConnection:
    """Calculates all tables of `PATHS`.

    Args:
        events: Parquet files, or patterns, with events as bronze has them, each once.
        options: what is to be a storm; None for the usual.
        connection: where to calculate; None for a new database in memory.
        done: is told of each table that is done.
        folder: where tables are written as Parquet, and read back from by others, as
            the pipeline does it; None: they stay in the database.

    Returns:
        A connection that has them as ``silver.rebalances`` and so on, with the columns
        and types of `kohort.pipeline.tables`.
    """
    made = duckdb.connect() if connection is None else connection
    for text in ("SET TimeZone = 'UTC'", *(f"CREATE SCHEMA {s}" for s in _SCHEMAS)):
        made.execute(text).fetchall()
    files = made.read_parquet(
        [events] if isinstance(events, str) else [*events], union_by_name=True
    )
    files.create_view("events")
    for path in _STEPS:
        for text in _statements(path, options or Options(), folder):
            made.execute(text).fetchall()
        done(path)
    return made


def _statements(path: str, options: Options, folder: Path | None) -> Iterator[str]:
    """Make a table, or a part that several need; of some parts only a view."""
    layer, name = path.split("/")
    query = _query(path, options)
    if layer == "part":
        kind = "VIEW" if name in {"steps", "ends"} else "TABLE"
        yield f"CREATE {kind} part.{name} AS {query}"
    elif folder is None:
        yield f"CREATE TABLE {layer}.{name} AS {_typed(BY_PATH[path], query)}"
    else:
        (folder / path).mkdir(parents=True)
        to = folder / path / "part.parquet"
        query = _typed(BY_PATH[path], query)
        yield f"COPY ({query}) TO '{to}' (FORMAT parquet, COMPRESSION zstd)"
        yield f"CREATE VIEW {layer}.{name} AS FROM '{to}'"


def _query(path: str, options: Options) -> str:
    if path in _GRAINS:
        by, spine = _GRAINS[path]
        text = (HERE / "gold" / "metrics.sql").read_text(encoding="utf-8")
        return text.replace("{by}", by).replace("{spine}", spine)
    text = (HERE / f"{path}.sql").read_text(encoding="utf-8")
    for option in ("storm_rebalances", "storm_seconds"):
        text = text.replace(f"${option}", str(getattr(options, option)))
    return text


def _typed(table: Table, query: str) -> str:
    """The columns of a table, in order, with their types; none more."""
    return f"SELECT {', '.join(_columns(table))} FROM ({query})"


def _columns(table: Table) -> Iterator[str]:
    for column in table.columns:
        name = f'"{column.name}"'
        if column.name == "hour":
            yield f"to_timestamp({name} * 3600) AS {name}"
        else:
            yield f"{name}::{_TYPES[column.type]} AS {name}"


def rows(connection: duckdb.DuckDBPyConnection, path: str) -> list[Mapping[str, Any]]:
    """All rows of a table as dicts, by its key.

    Args:
        connection: of `calculate`.
        path: of the table.

    Returns:
        Python's own values; maps are dicts, hours aware datetimes.
    """
    table = BY_PATH[path]
    key = ", ".join(f'"{name}"' for name in table.key)
    found = connection.execute(f"FROM {path.replace('/', '.')} ORDER BY {key}")
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
