"""Output of commands: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console, RenderableType
from rich.table import Table as RichTable

from kohort.pipeline import quality
from kohort.pipeline.bronze import Ingested
from kohort.pipeline.build import Build
from kohort.pipeline.tables import TABLES, view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PIPE_WIDTH: Final = 1000
"""Width when stdout is not a terminal, so that piped rows do not wrap."""
UNREAD: Final = 3
"""The exit code if some files could not be read."""
_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_NESTED: Final = ("struct", "array", "map")


def show(*parts: RenderableType) -> None:
    """Prints tables and lines."""
    console = Console(
        width=None if sys.stdout.isatty() else PIPE_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def rows(
    columns: Sequence[str],
    found: Iterable[Iterable[object]],
    numbers: Collection[str] = (),
) -> RenderableType:
    """A table; None in a cell is nothing, "-"."""
    made = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        justify = "right" if column in numbers else "left"
        made.add_column(column.upper(), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in found:
        made.add_row(*(_cell(each) for each in row))
    return made


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))


def printable(text: str) -> str:
    """Text with control characters escaped, so that it is harmless to a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
        for c in text
    )


# -- an ingest


def of_ingest(done: Ingested) -> list[RenderableType]:
    """The numbers of an ingest, and the reasons for quarantine."""
    bad = sum(done.quarantined.values())
    numbers = ("files", "skipped", "events", "known before", "quarantined")
    cells = (done.files, done.skipped, done.events, done.known, bad)
    parts: list[RenderableType] = [rows(numbers, [cells], numbers)]
    if bad:
        reasons = sorted(done.quarantined.items())
        parts += ["", rows(("in quarantine, for", "lines"), reasons, ("lines",))]
    return parts


def name_unread(done: Ingested) -> int:
    """Prints the files that were not read on stderr; returns the exit code."""
    for path, why in sorted(done.unread.items()):
        click.echo(f"kohort: {path} was not ingested: {why}", err=True)
    return UNREAD if done.unread else 0


# -- a build


def of_build(made: Build) -> list[RenderableType]:
    """The tables of a build, and the results of its checks."""
    numbers = ("rows", "seconds")
    written = rows(
        ("table", *numbers),
        ((each.path, each.rows, each.seconds) for each in made.tables),
        numbers,
    )
    return [written, "", of_checks(made.checks), "", last_line(made)]


def of_checks(checks: Sequence[quality.Check]) -> RenderableType:
    """The checks of a build."""
    numbers = ("found", "of", "share", "threshold")
    return rows(
        ("check", "outcome", *numbers, "in runs"),
        (
            (
                *(each.name, each.outcome, each.found, each.of),
                *(each.share, each.threshold, _runs(each)),
            )
            for each in checks
        ),
        numbers,
    )


def _runs(check: quality.Check) -> str | None:
    more = check.bad - len(check.runs)
    shown = [*check.runs, f"and {more} more"] if check.runs and more else [*check.runs]
    return ", ".join(shown) or None


def last_line(made: Build) -> str:
    """The outcome of a build in one line."""
    took = f"{made.seconds:.1f} s"
    if made.is_published:
        return f"build {made.id}: published, checks {made.outcome}, {took}"
    return f"build {made.id}: not published, checks failed, {took}"


# -- tables and columns


def of_tables(names: Sequence[str] = ()) -> list[RenderableType]:
    """The list of tables, or the columns of the named ones."""
    if not names:
        return [rows(("table", "a row is"), ((view(t), t.says) for t in TABLES))]
    parts: list[RenderableType] = []
    for table in TABLES:
        if view(table) in names:
            key = f"key: {', '.join(table.key)}"
            columns = ((c.name, c.type, c.says) for c in table.columns)
            shown = rows(("column", "type", "means"), columns)
            parts += [f"{view(table)}: {table.says}", key, "", shown, ""]
    return parts[:-1]


# -- answers to queries


def answer(found: DataFrame, limit: int) -> list[RenderableType]:
    """A table for people, of `limit` rows at most."""
    plain = _plain(found)
    got = plain.limit(limit + 1).collect()
    numbers = [name for name, type_ in found.dtypes if type_ in _NUMBERS]
    parts: list[RenderableType] = [rows(plain.columns, got[:limit], numbers)]
    if len(got) > limit:
        parts += ["", f"the first {limit} rows; --limit N shows more"]
    return parts


def as_json(found: DataFrame) -> Iterator[str]:
    """A JSON array, in pieces: an object per row; times are UTC."""
    plain = _plain(found)
    types = [type_ for _, type_ in found.dtypes]
    between = "[\n"
    for row in plain.toLocalIterator(prefetchPartitions=True):
        cells = map(_of_json, row, types)
        said = dict(zip(plain.columns, cells, strict=True))
        yield f"{between}  {json.dumps(said, ensure_ascii=False)}"
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


def _of_json(cell: Any, type_: str) -> Any:
    """A cell of `_plain` as a value of JSON."""
    if cell is None or type_ in _NUMBERS:
        return cell
    if type_.startswith((*_NESTED, "decimal", "boolean")):
        return json.loads(cell)
    return f"{cell.replace(' ', 'T')}Z" if type_ == "timestamp" else cell


def as_csv(found: DataFrame) -> Iterator[str]:
    """CSV with a header, in pieces; null is empty, lists and maps are JSON."""
    plain = _plain(found)
    yield _csv_line(plain.columns)
    for row in plain.toLocalIterator(prefetchPartitions=True):
        yield _csv_line(row)


def _csv_line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        ["" if cell is None else cell for cell in cells]
    )
    return text.getvalue()


def _plain(found: DataFrame) -> DataFrame:
    """Numbers as they are, all else as text: times in UTC, nested values as JSON."""
    from pyspark.sql import functions as sql

    named = _named_apart(found)
    cells = []
    for name, type_ in named.dtypes:
        cell = sql.col(f"`{name.replace('`', '``')}`")
        if type_.startswith(_NESTED):
            cell = sql.to_json(cell).alias(name)
        elif type_ not in _NUMBERS:
            cell = cell.cast("string").alias(name)
        cells.append(cell)
    return named.select(*cells)


def _named_apart(found: DataFrame) -> DataFrame:
    """The same, with no two columns of one name."""
    seen: dict[str, int] = {}
    names = []
    for name in found.columns:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found.toDF(*names)
