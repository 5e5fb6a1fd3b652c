"""Charts of one group over time: its members, its capacity, its lag."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from kohort.pipeline.report import formats
from kohort.pipeline.report.charts import (
    COLOURS,
    OTHER,
    Figure,
    as_json,
    layout,
    unlike,
)
from kohort.pipeline.report.queries import Row

NAMES: Final = 30
"""Names in the chart of a group's members: those with the most memberships."""
_ENDS: Final = {
    "left": (COLOURS[0], "circle"),
    "removed": (COLOURS[5], "square"),
    "expired": (COLOURS[2], "x"),
    "kicked": (COLOURS[1], "diamond"),
    "replaced": (COLOURS[3], "triangle-right"),
    "unseen": (COLOURS[6], "hourglass"),
}
"""Colour and symbol of the end of a membership."""


def names_of(rows: Sequence[Row]) -> list[str | None]:
    """Names in the order of their first membership; at most `NAMES`."""
    often: dict[str | None, int] = {}
    for row in rows:
        often[row["name"]] = often.get(row["name"], 0) + 1
    kept = {*sorted(often, key=lambda name: -often[name])[:NAMES]}
    return [name for name in often if name in kept]


def members(rows: Sequence[Row]) -> Markup:
    """A line for each membership, and a mark for its end; a row for each name."""
    names = unlike(reversed(names_of(rows)))
    shown = [row for row in rows if row["name"] in names]
    figure = Figure()
    figure.add(
        "scatter",
        x=[
            at and formats.iso(at)
            for row in shown
            for at in (row["from_ns"], row["until_ns"], None)
        ],
        y=[names[row["name"]] for row in shown for _ in range(3)],
        mode="lines",
        name="member",
        line={"color": OTHER, "width": 5},
        hovertemplate="%{y}: %{x|%H:%M:%S}<extra></extra>",
    )
    for how, (colour, symbol) in _ENDS.items():
        ends = [row for row in shown if row["how"] == how]
        if ends:
            figure.add(
                "scatter",
                x=[formats.iso(row["until_ns"]) for row in ends],
                y=[names[row["name"]] for row in ends],
                mode="markers",
                name=how,
                marker={"symbol": symbol, "color": colour, "size": 12},
                hovertemplate=f"%{{y}}, {how}: %{{x|%H:%M:%S}}<extra></extra>",
            )
    layout(figure, len(names), "time, UTC")
    figure.axis("yaxis", categoryorder="array", categoryarray=[*names.values()])
    _show_time(figure, rows)
    return as_json(figure)


def capacity(members: Sequence[Row], gaps: Sequence[Row]) -> Markup:
    """Steps: members in the group, and partitions that have no reader."""
    figure = Figure()
    spans = [(row["from_ns"], row["until_ns"], 1) for row in members]
    _add_steps(figure, "members", spans, COLOURS[0], fill=None)
    spans = [(row["from_ns"], row["until_ns"], row["partitions"]) for row in gaps]
    _add_steps(figure, "partitions without a reader", spans, COLOURS[2], fill="tozeroy")
    layout(figure, 6, "time, UTC")
    figure.axis("yaxis", type="linear", rangemode="tozero", title={"text": "number"})
    _show_time(figure, members)
    return as_json(figure)


def _add_steps(
    figure: Figure,
    name: str,
    spans: Iterable[tuple[int, int, int]],
    colour: str,
    fill: str | None,
) -> None:
    changes: dict[int, int] = {}
    for start, end, number in spans:
        changes[start] = changes.get(start, 0) + number
        changes[end] = changes.get(end, 0) - number
    times = sorted(changes)
    figure.add(
        "scatter",
        x=[formats.iso(at) for at in times],
        y=[*itertools.accumulate(changes[at] for at in times)],
        name=name,
        mode="lines",
        line={"shape": "hv", "color": colour, "width": 2},
        fill=fill,
        hovertemplate=f"%{{x|%H:%M:%S}}: %{{y:,}} {name}<extra></extra>",
    )


def lag(rows: Sequence[Row], members: Sequence[Row]) -> Markup:
    """Records of lag over time."""
    figure = Figure()
    figure.add(
        "scatter",
        x=[formats.iso(row["time_ns"]) for row in rows],
        y=[row["lag"] for row in rows],
        mode="lines",
        name="lag",
        line={"color": COLOURS[3], "width": 2},
        hovertemplate="%{x|%H:%M:%S}: %{y:,} records<extra></extra>",
    )
    layout(figure, 5, "time, UTC")
    figure.axis("yaxis", type="linear", rangemode="tozero", title={"text": "records"})
    _show_time(figure, members)
    return as_json(figure)


def _show_time(figure: Figure, members: Sequence[Row]) -> None:
    """The time axis, the same in all charts of a group: that of its members."""
    figure.axis("xaxis", type="date")
    if members:
        first = min(row["from_ns"] for row in members)
        last = max(row["until_ns"] for row in members)
        margin = (last - first) // 50
        ends = (first - margin, last + margin)
        figure.axis("xaxis", range=[formats.iso(at) for at in ends])
