"""Charts of runs, compared by a label."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kohort.pipeline.report.charts import (
    COLOURS,
    OTHER,
    Figure,
    as_json,
    layout,
    unlike,
)
from kohort.pipeline.report.comparison import Line


def compared(lines: Sequence[Line]) -> Markup:
    """A metric by the values of a label: its runs, their mean and its interval."""
    names = unlike(line.value for line in reversed(lines))
    known = [line for line in lines if line.mean is not None]
    metric = lines[0].metric
    value = "%{x:.3~p}" if metric.is_share else f"%{{x:,.3~r}} {metric.unit}"
    figure = Figure()
    figure.add(
        "scatter",
        x=[point for line in known for point in line.points],
        y=[names[line.value] for line in known for _ in line.points],
        mode="markers",
        name="a run",
        marker={"color": OTHER, "symbol": "circle-open", "size": 9},
        hovertemplate=f"%{{y}}: {value}<extra></extra>",
    )
    means = [line.mean for line in known if line.mean is not None]
    figure.add(
        "scatter",
        x=[mean.mean for mean in means],
        y=[names[line.value] for line in known],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [_reach(mean.mean, mean.high) for mean in means],
            "arrayminus": [_reach(mean.low, mean.mean) for mean in means],
            "thickness": 2,
            "width": 6,
        },
        mode="markers",
        name="mean, 95 % interval",
        marker={"color": COLOURS[0], "symbol": "diamond", "size": 12},
        hovertemplate=f"%{{y}}: mean {value}<extra></extra>",
    )
    layout(figure, len(names), metric.heading)
    figure.axis("yaxis", categoryorder="array", categoryarray=[*names.values()])
    percent = {"tickformat": "~%"} if metric.is_share else {}
    figure.axis("xaxis", rangemode="tozero", **percent)
    return as_json(figure)


def _reach(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low
