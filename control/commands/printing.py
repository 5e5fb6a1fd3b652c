"""What the commands that list something print: tables, JSON, and what went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from kohort.client.admin_values import Results
from kohort.client.errors import KohortError
from kohort.control.commands.options import say
from kohort.control.commands.rendering import printable
from kohort.control.tables import table, terminal

K = TypeVar("K")


def show(*parts: RenderableType) -> None:
    """Prints tables and lines."""
    console = terminal()
    # All at once: rich would end the command if nobody reads it.
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = captured.get().splitlines()
    click.echo("\n".join(line.rstrip() for line in lines))


def rows(
    columns: Iterable[str],
    found: Iterable[Iterable[object]],
    numbers: Collection[str] = (),
) -> RenderableType:
    """A table; None in a cell is nothing, "-"."""
    made = table(*columns, numbers=numbers)
    for row in found:
        made.add_row(*("-" if cell is None else printable(str(cell)) for cell in row))
    return made


def show_json(found: Any) -> None:
    """Prints JSON."""
    click.echo(json.dumps(found, indent=2))


def report(errors: Iterable[KohortError]) -> int:
    """Says what went wrong; the exit code."""
    code = 0
    for error in errors:
        say(str(error))
        code = 1
    return code


def report_all(
    results: Results[K, Any],
    text: Callable[[K], str],
    ignored: type[KohortError] | None = None,
    otherwise: Callable[[K], str] | None = None,
) -> int:
    """Says what has become of each item; the exit code.

    Args:
        results: the items.
        text: of one that worked.
        ignored: an error that is none.
        otherwise: what is printed for it.
    """
    code = 0
    errors: Mapping[K, KohortError] = results.errors
    for item in results:
        error = errors.get(item)
        if error is None:
            click.echo(printable(text(item)))
        elif ignored is not None and isinstance(error, ignored):
            if otherwise is not None:
                click.echo(printable(otherwise(item)))
        else:
            code = report([error])
    return code
