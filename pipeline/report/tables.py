"""Tables of the report: a row for a row of an answer, each number with its link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.pipeline.report.asking import Row
from kohort.pipeline.report.markup import Html, join, tag
from kohort.pipeline.report.numbers import From

SHOWN = 12
"""So many rows are shown; the query has the rest."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of a table.

    Attributes:
        heading: what it is called.
        key: the column of the answer.
        as_text: how its values are written.
        is_number: it is to the right, and is a link to its query.
    """

    heading: str
    key: str
    as_text: Callable[[Any], Html | str]
    is_number: bool = True


def table(
    caption: str,
    query: str,
    cells: Sequence[Cell],
    rows: Sequence[Row],
    *,
    most: int = SHOWN,
    limit: int = 500,
) -> Html:
    """A table, and how many rows more there are.

    Args:
        caption: what it has.
        query: that gave its numbers.
        cells: its columns; the first one heads its rows.
        rows: all that there are.
        most: so many are shown.
        limit: so many the query gives at the most.
    """
    said = From(query)
    head = tag(
        "tr",
        *(
            tag("th", cell.heading, scope="col", class_="r" if cell.is_number else None)
            for cell in cells
        ),
    )
    body = [tag("tr", *_row(cells, row, said)) for row in rows[:most]]
    shown = tag(
        "table",
        tag("caption", caption, " ", _source(query)),
        tag("thead", head),
        tag("tbody", *body),
    )
    left = len(rows) - most
    parts = [
        tag(
            "div", shown, class_="wide", tabindex="0", role="region", aria_label=caption
        )
    ]
    if left > 0:
        least = "at least " if len(rows) >= limit else ""
        parts.append(
            tag("p", f"And {least}", said(f"{left:,} more"), ".", class_="more")
        )
    return join(*parts)


def _row(cells: Sequence[Cell], row: Row, said: From) -> list[Html]:
    made = []
    for place, cell in enumerate(cells):
        text = cell.as_text(row[cell.key])
        if cell.is_number:
            made.append(tag("td", said(text, is_cell=True), class_="r"))
        elif place == 0:
            made.append(tag("th", text, scope="row"))
        else:
            made.append(tag("td", text))
    return made


def _source(query: str) -> Html:
    return tag("a", f"query {query}", href=f"#q-{query}", class_="source")


def figure(chart: str, name: str, caption: str, query: str) -> Html:
    """A chart, with what it shows, and where its numbers come from.

    Args:
        chart: plotly's JSON.
        name: its id.
        caption: what it shows.
        query: that gave its numbers.
    """
    return tag(
        "figure",
        tag(
            "div",
            class_="chart",
            id=name,
            role="group",
            aria_label=f"Chart: {caption} Its numbers are in the table below it.",
            data_query=query,
        ),
        tag("script", Html(chart), type="application/json", data_chart=name),
        tag("figcaption", caption, " ", _source(query)),
    )
