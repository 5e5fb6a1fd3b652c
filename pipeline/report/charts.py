"""Charts, by plotly: each as JSON that the page draws, in the colours of the reader.

plotly takes some HTML in names for markup, so all names go through `formats.unlike`.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from kohort.pipeline.report.comparison import Line
from kohort.pipeline.report.formats import LONGEST, iso, label, unlike
from kohort.pipeline.report.queries import Row

NAMES: Final = 30
"""Members in the chart of a group: those with the most memberships."""
_LANE_PX: Final = 24
_FRAME_PX: Final = 76
_TALL: Final = 0.8
"""Height of the largest number of partitions, as a part of a lane."""
ALIVE: Final = "#2e8b57"
DEAD: Final = "#7a8694"
BAD: Final = "#d64550"
MEAN: Final = "#3b82c4"
LINES: Final = (ALIVE, MEAN, BAD, "#a8741a", "#8a63c9", DEAD, "#b8558f", "#2a8f8f")
"""Each is seen on white and on near black alike (3 to 1, WCAG 1.4.11)."""
DASHES: Final = ("solid", "dash", "dot")
MOST_LINES: Final = len(LINES) * len(DASHES)
_CURVES_PX: Final = 330
_WIDE: Final = 20
"""The largest value by the smallest one, from which on an axis is logarithmic."""


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
        """Adds a trace."""
        self.data.append({"type": kind, **settings})

    def as_json(self) -> Markup:
        """JSON for a script element: nothing in it can end the element."""
        text = json.dumps({"data": self.data, "layout": self.layout})
        return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - as above

    def lanes(self, names: Sequence[str], x: str, **axis: Any) -> None:
        """Gives it a lane for each name, from top to bottom, and an x axis.

        Args:
            names: of the lanes.
            x: title of the x axis.
            **axis: its settings.
        """
        places = [*range(len(names), 0, -1)]
        self.layout |= {
            "height": _FRAME_PX + _LANE_PX * max(len(names), 3),
            "margin": {"l": 8, "r": 8, "t": 8, "b": 40},
            "showlegend": False,
            "hovermode": "closest",
            "barmode": "overlay",
            "xaxis": {"automargin": True, "title": {"text": x}, **axis},
            "yaxis": {
                "automargin": True,
                "tickvals": places,
                "ticktext": [*names],
                "range": [0.4, len(names) + 0.6],
                "showgrid": False,
                "zeroline": False,
            },
        }

    def steps(self, at: int, spans: Sequence[Row], most: int) -> None:
        """Fills a lane as high as the number of partitions without a reader."""
        steps = [
            (since, until - since, number)
            for (since, number), (until, _) in itertools.pairwise(_steps(spans))
            if number
        ]
        self.add(
            "bar",
            x=[iso(since) for since, _, _ in steps],
            width=[ns / 1e6 for _, ns, _ in steps],
            offset=0,
            base=at - _TALL / 2,
            y=[_TALL * number / most for *_, number in steps],
            # Short times have a border that is seen.
            marker={"color": BAD, "line": {"color": BAD, "width": 1}},
            customdata=[number for *_, number in steps],
            hovertemplate="%{x|%H:%M:%S}: %{customdata:,} without a reader"
            "<extra></extra>",
        )


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis of all charts of a report.

    Attributes:
        title: its title.
        first_ns: its begin.
        last_ns: its end.
    """

    title: str
    first_ns: int
    last_ns: int

    def settings(self) -> dict[str, Any]:
        """As plotly takes them."""
        margin = (self.last_ns - self.first_ns) // 50 + 1
        ends = self.first_ns - margin, self.last_ns + margin
        return {"type": "date", "range": [*map(iso, ends)]}


def axis(runs: Sequence[Row], *, is_utc: bool) -> Axis:
    """The axis from the first to the last event, or to that of the longest run.

    Args:
        runs: rows of the query ``run_metrics``.
        is_utc: whether times are UTC, not since the start of their run.
    """
    if is_utc:
        ends = [row[key] for row in runs for key in ("first_ns", "last_ns")]
        return Axis("time, UTC", min(ends, default=0), max(ends, default=0))
    longest = max(row["last_ns"] - row["first_ns"] for row in runs)
    return Axis("time since the start of the run", 0, longest)


def times(rows: Iterable[Row], starts: Mapping[str, int]) -> list[Row]:
    """Rows of several runs with times since the start of their run."""
    return [
        {
            name: value - starts[row["run"]]
            if name.endswith("_ns") and value is not None
            else value
            for name, value in row.items()
        }
        for row in rows
    ]


def unread(groups: Sequence[str], gaps: Sequence[Row], x: Axis) -> Markup:
    """Partitions without a reader: a lane for each group."""
    figure = Figure()
    figure.lanes([*unlike(groups).values()], x.title, **x.settings())
    found = {group: [row for row in gaps if row["group"] == group] for group in groups}
    most = max(map(_most, found.values()), default=0)
    for at, rows in zip(range(len(groups), 0, -1), found.values(), strict=True):
        if rows:
            figure.steps(at, rows, most)
    return figure.as_json()


def _most(rows: Iterable[Row]) -> int:
    return max((number for _, number in _steps(rows)), default=0)


def _steps(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """How many partitions have no reader, from each time on."""
    changes = Counter[int]()
    for row in rows:
        changes[row["from_ns"]] += row["partitions"]
        changes[row["until_ns"]] -= row["partitions"]
    times = sorted(changes)
    return [*zip(times, itertools.accumulate(changes[at] for at in times), strict=True)]


def names_of(rows: Sequence[Row]) -> list[str | None]:
    """Names in the order of their first membership; at most `NAMES`."""
    often = Counter(row["name"] for row in rows)
    kept = {name for name, _ in often.most_common(NAMES)}
    return [name for name in often if name in kept]


def course(members: Sequence[Row], gaps: Sequence[Row], x: Axis) -> Markup:
    """A group over time: a lane for each member, and one for idle partitions.

    As on the timeline, a member that expired is dead from its last sign of life.
    """
    names = unlike(names_of(members))
    figure = Figure()
    figure.lanes(["no reader", *names.values()], x.title, **x.settings())
    if gaps:
        figure.steps(len(names) + 1, gaps, _most(gaps))
    at = {name: len(names) - place for place, name in enumerate(names)}
    shown = [row for row in members if row["name"] in names]
    dead = [row for row in shown if row["dead_ns"] is not None]
    alive = [(r["name"], r["from_ns"], _ended(r)) for r in shown]
    _lines(figure, "member", alive, at, color=ALIVE, width=9)
    spans = [(r["name"], _ended(r), r["until_ns"]) for r in dead]
    _lines(figure, "dead", spans, at, color=DEAD, width=3, dash="2px,3px")
    figure.add(
        "scatter",
        name="expired",
        mode="markers",
        x=[iso(row["until_ns"]) for row in dead if row["how"] != "replaced"],
        y=[at[row["name"]] for row in dead if row["how"] != "replaced"],
        marker={"symbol": "x", "color": BAD, "size": 9},
        hovertemplate="expired: %{x|%H:%M:%S}<extra></extra>",
    )
    return figure.as_json()


def _ended(row: Row) -> int:
    """The last sign of life of a member."""
    until: int = row["until_ns"]
    return until if row["dead_ns"] is None else max(row["dead_ns"], row["from_ns"])


def _lines(
    figure: Figure,
    name: str,
    spans: Iterable[tuple[str | None, int, int]],
    at: Mapping[str | None, int],
    **line: Any,
) -> None:
    """Lines in the lanes of members; None parts one from the next."""
    ends = [(at[who], end) for who, *both in spans for end in (*both, None)]
    figure.add(
        "scatter",
        name=name,
        mode="lines",
        x=[None if end is None else iso(end) for _, end in ends],
        y=[place for place, _ in ends],
        line=line,
        hovertemplate=f"{name}: %{{x|%H:%M:%S}}<extra></extra>",
    )


def compared(lines: Sequence[Line]) -> Markup:
    """A metric by the values of a label: its runs, their mean and its interval."""
    known = [(line, line.mean) for line in lines if line.mean is not None]
    at = {line.value: len(lines) - place for place, line in enumerate(lines)}
    metric = lines[0].metric
    value = "%{x:.3~p}" if metric.is_share else f"%{{x:,.3~r}} {metric.unit}"
    figure = Figure()
    percent = {"tickformat": "~%"} if metric.is_share else {}
    names = [*unlike(at).values()]
    figure.lanes(names, metric.heading, rangemode="tozero", **percent)
    figure.add(
        "scatter",
        x=[point for line, _ in known for point in line.points],
        y=[at[line.value] for line, _ in known for _ in line.points],
        mode="markers",
        name="a run",
        marker={"color": DEAD, "symbol": "circle-open", "size": 9},
        hovertemplate=f"{value}<extra></extra>",
    )
    figure.add(
        "scatter",
        x=[mean.mean for _, mean in known],
        y=[at[line.value] for line, _ in known],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [_reach(mean.mean, mean.high) for _, mean in known],
            "arrayminus": [_reach(mean.low, mean.mean) for _, mean in known],
            "thickness": 2,
            "width": 6,
        },
        mode="markers",
        name="mean, 95 % interval",
        marker={"color": MEAN, "symbol": "diamond", "size": 12},
        hovertemplate=f"mean {value}<extra></extra>",
    )
    return figure.as_json()


def _reach(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low


class Mark(NamedTuple):
    """A point of a curve: its place, its mean, and the interval of that if known."""

    x: str
    mean: float
    low: float | None
    high: float | None


def curves(
    x: str, y: str, lines: Mapping[str, Sequence[Mark]], most: float | None
) -> Markup:
    """A number by a setting: a line for each combination of the others.

    Args:
        x: title of the axis of the setting.
        y: title of the axis of the number.
        lines: the points of each line, by its name; at most `MOST_LINES` are drawn.
        most: the goal, which gets a line of its own; None: there is none.
    """
    places = [*dict.fromkeys(mark.x for marks in lines.values() for mark in marks)]
    figure = Figure()
    for number, (name, marks) in enumerate([*lines.items()][:MOST_LINES]):
        color = LINES[number % len(LINES)]
        figure.add(
            "scatter",
            name=label(name, LONGEST),
            mode="lines+markers",
            x=[mark.x for mark in marks],
            y=[mark.mean for mark in marks],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [_reach(mark.mean, mark.high) for mark in marks],
                "arrayminus": [_reach(mark.low, mark.mean) for mark in marks],
                "thickness": 1.5,
                "width": 5,
            },
            line={"color": color, "dash": DASHES[number // len(LINES)]},
            hovertemplate="%{x}: %{y:,.3~r}<extra>%{fullData.name}</extra>",
        )
    figure.layout = {
        "height": _CURVES_PX,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 40},
        "showlegend": len(lines) > 1,
        "xaxis": {"automargin": True, "title": {"text": x}, **_places(places)},
        "yaxis": {"automargin": True, "title": {"text": y}, "rangemode": "tozero"},
    }
    if most is not None:
        ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": most, "y1": most}
        line = {"color": DEAD, "width": 1.5, "dash": "dash"}
        figure.layout["shapes"] = [{"type": "line", **ends, "line": line}]
    return figure.as_json()


def _places(texts: Sequence[str]) -> dict[str, Any]:
    """The axis of values of a setting: numbers, or names."""
    try:
        numbers = [*map(float, texts)]
    except ValueError:
        return {"type": "category"}
    is_wide = min(numbers) > 0 and max(numbers) >= _WIDE * min(numbers)
    kind = {"type": "log"} if is_wide else {"type": "linear"}
    return {**kind, "tickvals": numbers, "ticktext": [*texts]}
