"""Columns of a table that has as many of them as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

Row = TypeVar("Row")
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column.

    Attributes:
        title: its heading.
        cell: makes its text for a row.
        least: its least width in characters, so that it does not come and go with its
            contents.
        may_be_cut: whether it is worth something with no more than `least`.
        is_number: numbers stand on the right.
    """

    title: str
    cell: Callable[[Row], str | Text]
    least: int = 0
    may_be_cut: bool = False
    is_number: bool = True


def fitting(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    last: Iterable[str],
    width: int | None,
) -> Table:
    """A table of the columns that fit.

    Args:
        rows: its rows.
        columns: from left to right; the first is always there.
        last: the titles of those that are left out first, beginning with that one.
        width: available characters; None for no limit.
    """
    cells = {
        c.title: [
            text if isinstance(text := c.cell(row), Text) else Text(text)
            for row in rows
        ]
        for c in columns
    }
    natural = {
        c.title: max(
            len(c.title), c.least, *(cell_len(t.plain) for t in cells[c.title]), 0
        )
        for c in columns
    }
    shown = [*columns]
    widths = natural
    if width is not None:
        gone = [*last]
        while True:
            spare = width + _GAP - sum(_least(c, natural) + _GAP for c in shown)
            if spare >= 0 or not gone:
                break
            title = gone.pop(0)
            shown = [c for c in shown if c.title != title]
        widths = {}
        for c in shown:
            more = min(max(spare, 0), natural[c.title] - _least(c, natural))
            widths[c.title] = _least(c, natural) + more
            spare -= more
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for c in shown:
        table.add_column(
            c.title,
            justify="right" if c.is_number else "left",
            width=widths[c.title],
            no_wrap=True,
            overflow="ellipsis",
        )
    for index in range(len(rows)):
        table.add_row(*(cells[c.title][index] for c in shown))
    return table


def _least(column: Column[Row], natural: dict[str, int]) -> int:
    """The characters that a column needs."""
    most = natural[column.title]
    return (
        min(most, max(column.least, len(column.title))) if column.may_be_cut else most
    )
