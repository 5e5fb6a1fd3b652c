"""Whether two of the same table are equal: as another program wrote it, and ours.

Rows are told apart by the table's key. Integers, strings, times and lists have to be
the same, maps the same in any order, doubles to a part in 10^9.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from kohort.pipeline.tables import Column, Table

TOLERANCE: Final = 1e-9
SHOWN: Final = 5
"""Rows of each sort of difference that are shown."""

_Row = Mapping[str, Any]


def compare(
    folder: Path | str,
    calculated: str,
    table: Table,
    connection: duckdb.DuckDBPyConnection,
) -> list[str]:
    """Compares a table that was written as Parquet with a calculated one.

    Args:
        folder: with the Parquet files.
        calculated: the other one, by its name in the connection.
        table: which it is.
        connection: of the calculation.

    Returns:
        Differences, in words; empty: they are equal.
    """
    files = f"{folder}/*.parquet"
    written = connection.read_parquet(files)
    wanted = [column.name for column in table.columns]
    if written.columns != wanted:
        return [f"{table.path}: has columns {written.columns}, not {wanted}"]
    written.create_view("written", replace=True)
    mine = _differences(connection, "written", calculated, table)
    theirs = _differences(connection, calculated, "written", table)
    told = [*_told(table, mine, theirs)]
    if not told:
        told = [*_doubles(connection, calculated, table)]
    return [f"{table.path}: {line}" for line in told]


def _plain(column: Column) -> str:
    """A column as it is compared exactly; doubles only by whether they are null."""
    name = f'"{column.name}"'
    if column.type == "double":
        return f"{name} IS NULL AS {name}"
    if column.type.startswith("map"):
        return f"list_sort(map_entries({name})) AS {name}"
    if column.type == "timestamp":
        return f"epoch_us({name}) AS {name}"
    return name


def _differences(
    connection: duckdb.DuckDBPyConnection, one: str, other: str, table: Table
) -> list[_Row]:
    """What is in one and not in the other, at most some thousand rows."""
    columns = ", ".join(_plain(column) for column in table.columns)
    key = ", ".join(f'"{name}"' for name in table.key)
    found = connection.execute(
        f"SELECT * FROM (SELECT {columns} FROM {one} EXCEPT ALL"
        f" SELECT {columns} FROM {other}) ORDER BY {key} LIMIT 2000"
    )
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _told(table: Table, written: list[_Row], mine: list[_Row]) -> Iterable[str]:
    """The rows that differ, in words: by column where both have one with the key."""
    ours: defaultdict[tuple[Any, ...], list[_Row]] = defaultdict(list)
    for row in mine:
        ours[_key(table, row)].append(row)
    missing = 0
    for count, row in enumerate(written):
        same = ours[_key(table, row)]
        if same:
            other = same.pop(0)
            if count < SHOWN:
                yield f"{_named(table, row)}: {_changes(row, other)}"
        else:
            missing += 1
            if missing <= SHOWN:
                yield f"only written: {_full(row)}"
    left = [row for rows in ours.values() for row in rows]
    yield from (f"not written: {_full(row)}" for row in left[:SHOWN])
    if written or mine:
        yield f"{len(written)} rows are only written, {len(mine)} only calculated"


def _key(table: Table, row: _Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.key)


def _named(table: Table, row: _Row) -> str:
    return ", ".join(f"{name}={row[name]!r}" for name in table.key)


def _full(row: _Row) -> str:
    said = {name: value for name, value in row.items() if value is not None}
    return ", ".join(f"{name}={value!r}" for name, value in said.items())


def _changes(written: _Row, mine: _Row) -> str:
    return "; ".join(
        f"{name} is {value!r}, calculated {mine[name]!r}"
        for name, value in written.items()
        if value != mine[name]
    )


def _doubles(
    connection: duckdb.DuckDBPyConnection, calculated: str, table: Table
) -> Iterable[str]:
    """Doubles that differ; both have the same keys."""
    names: Sequence[str] = [c.name for c in table.columns if c.type == "double"]
    if not names:
        return
    same = " AND ".join(f'w."{n}" IS NOT DISTINCT FROM c."{n}"' for n in table.key)
    keys = ", ".join(f'w."{name}"' for name in table.key)
    for name in names:
        found = connection.execute(
            f'SELECT {keys}, w."{name}", c."{name}"'
            f" FROM written AS w JOIN {calculated} AS c ON {same}"
            f' WHERE NOT abs(w."{name}" - c."{name}")'
            f' <= {TOLERANCE} * greatest(abs(w."{name}"), abs(c."{name}"))'
        ).fetchall()
        for *key, one, other in found[:SHOWN]:
            where = ", ".join(f"{n}={v!r}" for n, v in zip(table.key, key, strict=True))
            yield f"{where}: {name} is {one!r}, calculated {other!r}"
