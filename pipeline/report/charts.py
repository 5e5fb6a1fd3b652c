"""Charts, by plotly: each as JSON that the page draws, in the colours of the reader.

plotly takes some HTML in names for markup, so all names go through `label`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from markupsafe import Markup

from kohort.pipeline.report import formats
from kohort.pipeline.report.affected import CAUSES, cause
from kohort.pipeline.report.formats import label
from kohort.pipeline.report.queries import Answers, Row

BARS: Final = 15
"""Groups in a chart of groups."""
_ROW_PX: Final = 26
_FRAME_PX: Final = 130
_SMALLEST: Final = 6
_LARGEST: Final = 26
COLOURS: Final = (
    "#3b82c4",
    "#d06a00",
    "#d64550",
    "#9a6fd0",
    "#2e8b57",
    "#1f8f9c",
    "#9c7a3c",
    "#6b7f2a",
    "#c0559c",
    "#5b6ee1",
    "#a8504a",
)
"""Each is seen on white and on near black alike (3 to 1, WCAG 1.4.11)."""
OTHER: Final = "#7a8694"
_SYMBOLS: Final = (
    "circle",
    "triangle-down",
    "x",
    "diamond",
    "star",
    "square",
    "hourglass",
    "hexagon",
    "pentagon",
    "bowtie",
    "hexagram",
)
_LOOKS: Final = {
    name: (colour, symbol)
    for name, colour, symbol in zip(CAUSES, COLOURS, _SYMBOLS, strict=True)
}
"""A cause looks the same in all charts."""


def _look(of: str | None) -> tuple[str, str]:
    return _LOOKS.get(of or "", (OTHER, "cross"))


@dataclass(slots=True)
class Figure:
    """A chart, as plotly.js reads it.

    plotly's own class checks each setting, which takes longer than to render the rest
    of the page; tests check them all.

    Attributes:
        data: its traces.
        layout: its axes, title, size.
    """

    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)

    def add(self, kind: str, **settings: Any) -> None:
        """Adds a trace; settings that are None are left out."""
        given = {name: each for name, each in settings.items() if each is not None}
        self.data.append({"type": kind, **given})

    def axis(self, name: str, **settings: Any) -> None:
        """Adds settings of ``xaxis`` or ``yaxis``."""
        self.layout[name] = {**self.layout.get(name, {}), **settings}


def as_json(figure: Figure) -> Markup:
    """JSON for a script element: nothing in it can end the element."""
    text = json.dumps({"data": figure.data, "layout": figure.layout})
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - as above


def layout(figure: Figure, rows: int, x: str, **more: Any) -> None:
    """Gives a chart its size, margins, legend and axes: categories from top to bottom.

    Args:
        figure: the chart.
        rows: the height, in lines of text.
        x: title of the x axis.
        **more: other settings of plotly's layout.
    """
    figure.layout |= {
        "height": _FRAME_PX + _ROW_PX * max(rows, 3),
        "margin": {"l": 10, "r": 16, "t": 40, "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "xaxis": {"title": {"text": x}, "automargin": True},
        "yaxis": {"automargin": True, "type": "category"},
        **more,
    }


def unlike(names: Iterable[str | None]) -> dict[str | None, str]:
    """Labels of names, no two alike: cut names may be."""
    found: dict[str | None, str] = {}
    for each in names:
        text, copies = label(each), 1
        while text in found.values():
            copies += 1
            text = f"{label(each)} ({copies})"
        found[each] = text
    return found


def timeline(rows: Sequence[Row]) -> Markup:
    """Rebalances over time: a row for each group, a mark for each rebalance."""
    often = Counter(row["group"] for row in rows)
    names = unlike(sorted(often, key=lambda group: (often[group], group)))
    longest = max((row["duration_s"] or 0.0 for row in rows), default=0.0) or 1.0
    figure = Figure()
    for each in _by_cause(rows):
        some = [row for row in rows if row["cause"] == each]
        colour, symbol = _look(each)
        figure.add(
            "scatter",
            x=[formats.iso(row["started_ns"]) for row in some],
            y=[names[row["group"]] for row in some],
            mode="markers",
            name=label(cause(each), 60),
            marker={
                "color": colour,
                "symbol": symbol,
                "opacity": 0.8,
                "size": [_size(row, longest) for row in some],
            },
            text=[_told(row) for row in some],
            hovertemplate="%{x|%H:%M:%S}<br>%{y}<br>%{text}<extra></extra>",
        )
    layout(figure, len(names), "time, UTC")
    figure.axis("yaxis", categoryorder="array", categoryarray=[*names.values()])
    figure.axis("xaxis", type="date")
    return as_json(figure)


def _by_cause(rows: Iterable[Row]) -> list[str | None]:
    seen = {row["cause"] for row in rows}
    known = [each for each in CAUSES if each in seen]
    return [*known, *sorted(seen.difference(known), key=str)]


def _size(row: Row, longest: float) -> float:
    """The diameter of a dot: its area grows with the duration."""
    part: float = ((row["duration_s"] or 0.0) / longest) ** 0.5
    return round(_SMALLEST + (_LARGEST - _SMALLEST) * part, 1)


def _told(row: Row) -> str:
    took = (
        "open"
        if row["duration_s"] is None
        else f"{formats.seconds(row['duration_s'])}, {label(row['outcome'])}"
    )
    return f"{label(cause(row['cause']), 60)}: {label(row['culprit_name'])}<br>{took}"


def downtime(answers: Answers) -> Markup:
    """Downtime of groups in partition-seconds, by cause."""
    groups = [row for row in answers["groups"] if row["downtime_s"]][:BARS]
    names = unlike(row["group"] for row in reversed(groups))
    rows = [
        row
        for row in answers["unread"]
        if row["group"] in names and row["cause"] != "group_empty"
    ]
    figure = Figure()
    for place, each in enumerate(sorted({row["cause"] for row in rows})):
        some = [row for row in rows if row["cause"] == each]
        figure.add(
            "bar",
            orientation="h",
            x=[row["downtime_s"] for row in some],
            y=[names[row["group"]] for row in some],
            name=label(each, 60),
            marker={"color": COLOURS[place % len(COLOURS)]},
            text=[f"{row['partitions']:,} times" for row in some],
            textposition="none",
            hovertemplate="%{y}: %{x:,.3~r} partition-seconds<br>%{text}",
        )
    layout(figure, len(names), "partition-seconds", barmode="stack")
    figure.axis("yaxis", categoryorder="array", categoryarray=[*names.values()])
    return as_json(figure)


def ranges(
    rows: Sequence[Row],
    by: str,
    columns: Sequence[tuple[str, str]],
    x: str,
) -> Markup:
    """From least to most: a line for each row, with marks at some of its formats.

    Args:
        rows: the first is at the top.
        by: the column with their names.
        columns: (column, label) of the numbers, from least to most.
        x: title of the axis.
    """
    names = unlike(row[by] for row in reversed(rows))
    figure = Figure()
    first, last = columns[0][0], columns[-1][0]
    spans: list[float | None] = []
    places: list[str | None] = []
    for row in rows:
        spans += [row[first], row[last], None]
        places += [names[row[by]], names[row[by]], None]
    figure.add(
        "scatter",
        x=spans,
        y=places,
        mode="lines",
        line={"color": OTHER, "width": 2},
        hoverinfo="skip",
        showlegend=False,
    )
    for place, (column, called) in enumerate(columns):
        figure.add(
            "scatter",
            x=[row[column] for row in rows],
            y=[names[row[by]] for row in rows],
            mode="markers",
            name=called,
            marker={
                "color": COLOURS[place],
                "symbol": _SYMBOLS[place],
                "size": 11,
            },
            hovertemplate=f"%{{y}}<br>{called}: %{{x:,.3~r}}<extra></extra>",
        )
    layout(figure, len(names), x)
    figure.axis("yaxis", categoryorder="array", categoryarray=[*names.values()])
    figure.axis("xaxis", rangemode="tozero")
    return as_json(figure)


def hours(rows: Sequence[Row]) -> Markup:
    """Rebalances by hour, groups on top of each other."""
    names = unlike(dict.fromkeys(row["group"] for row in rows))
    figure = Figure()
    for place, (group, called) in enumerate(names.items()):
        some = [row for row in rows if row["group"] == group]
        figure.add(
            "bar",
            x=[row["hour"].strftime("%Y-%m-%d %H:%M") for row in some],
            y=[row["rebalances"] for row in some],
            name=called,
            marker={"color": COLOURS[place % len(COLOURS)]},
            hovertemplate="%{x|%Y-%m-%d %H:%M}: %{y:,} rebalances",
        )
    layout(figure, 8, "hour, UTC", barmode="stack")
    figure.axis("yaxis", type="linear", title={"text": "rebalances"})
    figure.axis("xaxis", type="date")
    return as_json(figure)


def lags(rows: Sequence[Row]) -> Markup:
    """Durations of rebalances, and the lag that each built up."""
    names = unlike(dict.fromkeys(row["group"] for row in rows))
    figure = Figure()
    for place, (group, called) in enumerate(names.items()):
        some = [row for row in rows if row["group"] == group]
        figure.add(
            "scatter",
            x=[row["duration_s"] for row in some],
            y=[row["lag_built"] for row in some],
            mode="markers",
            name=called,
            marker={
                "color": COLOURS[place % len(COLOURS)],
                "symbol": _SYMBOLS[place % len(_SYMBOLS)],
                "size": 10,
                "opacity": 0.8,
            },
            text=[_caught_up(row) for row in some],
            hovertemplate="%{x:.3~r} s: %{y:,} records<br>%{text}",
        )
    layout(figure, 8, "the rebalance took, s")
    figure.axis(
        "yaxis",
        type="linear",
        title={"text": "records of lag more"},
        rangemode="tozero",
    )
    figure.axis("xaxis", rangemode="tozero")
    return as_json(figure)


def _caught_up(row: Row) -> str:
    why = f"{label(cause(row['cause']), 60)}: {label(row['culprit_name'])}"
    if row["catch_up_s"] is None:
        return why
    return f"{why}<br>worked off after {formats.seconds(row['catch_up_s'])}"
