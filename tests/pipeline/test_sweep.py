"""``kohort sweep``, and simulated events in bronze."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.simulation.test_scenario import SMALL

from kohort.control.cli import cli
from kohort.pipeline import bronze
from kohort.pipeline.lake import Lake
from kohort.pipeline.report import charts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWEEP = """
title = "A small one"
scenario = "small.toml"
seeds = "0..4"
seeds_per_task = 5
set = { duration = "30s" }
goals = { unread_s = 5 }
[grid]
groups.billing.settings."session.timeout.ms" = [6000, 10000]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a sweep."""
    (tmp_path / "small.toml").write_text(SMALL)
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def sweep(*arguments: object) -> str:
    """Runs the command; returns its output."""
    done = CliRunner().invoke(cli, ["sweep", *map(str, arguments)])
    assert not done.exit_code, done.output
    return done.output


def test_a_sweep(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    """Its report, its results and its events; the second time nothing is played."""
    out, lake = tmp_path / "out", tmp_path / "lake"
    said = sweep(file, "--out", out, "--lake", lake)
    assert "10 runs: 2 combinations of settings, each with" in said
    assert "all settings of this grid" in said
    results = (out / "results.jsonl").read_text()
    assert json.loads(results.splitlines()[0])["numbers"]["rebalances"] == 1
    page = (out / "report.html").read_text()
    assert "<h1>A small one</h1>" in page
    assert "<dd>all settings of this grid</dd>" in page
    rows = bronze.events(Lake(spark, lake))
    runs = rows.groupBy("run").count().collect()
    assert len(runs) == 10
    (first,) = rows.where("kind = 'join_completed'").limit(1).collect()
    assert first["labels"]["scenario"] == "small"
    assert set(rows.columns) == set(bronze.bronze_schema().names) - {"raw", "why"}
    kept = sorted((out / "results").iterdir())
    written = [path.stat().st_mtime_ns for path in kept]
    assert sweep(file, "--out", out, "--lake", lake) == said
    assert [path.stat().st_mtime_ns for path in kept] == written
    assert (out / "results.jsonl").read_text() == results


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "SWEEP is missing"),
        (("none",), "ready sweeps are commits"),
        (("protocols", "--seeds", "3"), "must be A..B"),
    ],
)
def test_mistakes_end_the_command(arguments: tuple[str, ...], message: str) -> None:
    """With code 2 and one line."""
    done = CliRunner().invoke(cli, ["sweep", *arguments])
    assert done.exit_code == 2
    assert message in done.output


def test_curves_have_axes_by_their_values() -> None:
    """Numbers, large ratios, names; a goal is a line."""

    def layout(*values: str) -> dict[str, object]:
        marks = [charts.Mark(value, 1.0, None, None) for value in values]
        made = json.loads(charts.curves("x", "y", {"a": marks}, 3.0))
        assert made["layout"]["shapes"][0]["y0"] == 3.0
        assert made["data"][0]["error_y"]["array"] == [0.0] * len(values)
        return dict(made["layout"]["xaxis"])

    assert layout("500", "3000")["type"] == "linear"
    assert layout("10", "1000")["type"] == "log"
    assert layout("eager", "consumer")["type"] == "category"
