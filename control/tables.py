"""The terminal as a rich console, and the tables and JSON printed on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.table import Table

from kohort.control.terminal import printable

PIPE_WIDTH = 1000
"""Width of a stream that is not a terminal, so that piped rows do not wrap."""


def terminal(*, err: bool = False) -> Console:
    """A console that prints plain text: no markup, no emoji, no highlighting.

    Args:
        err: on stderr.
    """
    stream = sys.stderr if err else sys.stdout
    return Console(
        width=None if stream.isatty() else PIPE_WIDTH,
        stderr=err,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_at_once(print_on: Callable[[Console], None], *, err: bool = False) -> None:
    """Prints in one write: rich ends the command if the reader of a pipe is gone."""
    console = terminal(err=err)
    with console.capture() as captured:
        print_on(console)
    lines = captured.get().splitlines()
    click.echo("\n".join(line.rstrip() for line in lines), err=err)


def show(*parts: RenderableType) -> None:
    """Prints tables and lines."""

    def print_on(console: Console) -> None:
        for part in parts:
            console.print(part)

    print_at_once(print_on)


def show_json(found: Any) -> None:
    """Prints JSON."""
    click.echo(json.dumps(found, indent=2))


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    numbers: Collection[str] = (),
) -> Table:
    """A table; columns of numbers are aligned on the right, and None is "-"."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(
            column.upper(),
            justify="right" if column in numbers else "left",
            overflow="fold",
        )
    for row in rows:
        made.add_row(*("-" if cell is None else printable(str(cell)) for cell in row))
    return made
