"""The settings of charts, by plotly's own checks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
import pytest
from tests.pipeline import report_builds

from kohort.pipeline.report.charts import Figure
from kohort.pipeline.report.comparison import compare
from kohort.pipeline.report.page import page

if TYPE_CHECKING:
    from kohort.pipeline.report.queries import Answers

pytestmark = pytest.mark.spark

_CHART = re.compile(
    r'<script type="application/json" data-chart="([\w-]+)">(.*?)</script>', re.DOTALL
)


def charts(text: str) -> dict[str, Any]:
    """The charts of a page by their ids."""
    return {name: json.loads(found) for name, found in _CHART.findall(text)}


def test_plotly_knows_all_settings(ten: Answers, large: Answers) -> None:
    """It takes each chart of a report, and of a comparison."""
    compared = compare(large["run_metrics"], "scenario")
    found = charts(page(ten, about=report_builds.ABOUT))
    more = charts(page(large, about=report_builds.ABOUT, compared=compared))
    assert len(found) == 11
    assert "chart-downtime_s" in more
    for name, chart in (found | more).items():
        made = go.Figure(chart)
        assert len(made.data) == len(chart["data"]) > 0, name


def test_a_figure() -> None:
    """Traces keep their order; nothing ends the script element."""
    figure = Figure(layout={"xaxis": {"automargin": True}})
    figure.add("bar", x=[1])
    figure.add("scatter", name="</script>")
    text = figure.as_json()
    assert "<" not in text
    assert json.loads(text) == {
        "data": [{"type": "bar", "x": [1]}, {"type": "scatter", "name": "</script>"}],
        "layout": {"xaxis": {"automargin": True}},
    }
