"""Tasks of a sweep on Spark: the same results, and events in bronze."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.test_sweep import SWEEP
from tests.simulation.test_scenario import SMALL

from kohort.pipeline import bronze
from kohort.pipeline.lake import Lake
from kohort.pipeline.played import played
from kohort.simulation.scenario.runs import play_all
from kohort.simulation.sweep.grid import load
from kohort.simulation.sweep.work import lines, packed, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_plays_the_same(java: SparkSession, tmp_path: Path) -> None:
    """To the byte; an event that is played again counts once."""
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("0..4", "0..1"))
    tasks = [*load(str(tmp_path / "sweep.toml")).tasks()]
    texts = [packed(number, *each) for number, each in enumerate(tasks)]
    lake = Lake(java, tmp_path / "lake")
    results = played(lake, texts, lines, "simulation/small", keeps=True)
    found = dict(map(json.loads, results))
    for number, measures in play_all([task for _, task in tasks], 1):
        settings, task = tasks[number]
        assert found[number] == rows_of(settings, task.seeds, measures)
    count = bronze.events(lake).count()
    assert count > 100
    assert len(bronze.events(lake).groupBy("run").count().collect()) == 4
    assert played(lake, texts[:1], lines, "simulation/small", keeps=True) == [
        json.dumps([0, found[0]])
    ]
    assert bronze.events(lake).count() == count
    assert played(lake, texts[1:], lines, "", keeps=False) == [
        json.dumps([1, found[1]])
    ]
