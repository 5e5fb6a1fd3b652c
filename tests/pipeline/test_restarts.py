"""A restart is one in all views: the explainer's, gold's, and the report's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.events.findings import quiet
from tests.pipeline.events import Event, as_run, frame, made, rows, with_findings

from kohort.control.why import history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = ("ana", "ben", "cleo")


def restarted(away_s: float) -> Sequence[Event]:
    """Three members leave and come back, one after the other; dora stays."""
    stream = quiet(*NAMES, "dora")
    for name in NAMES:
        stream.leaves(name)
        stream.rebalance("member_left", name)
        stream.wait(away_s)
        stream.comes(name)
        stream.rebalance("member_joined", name)
    return as_run(stream.events, "r", f"away {away_s}")


def test_all_views_count_the_same_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Three members were away for 400 s, and three others for 700: those were not."""
    from kohort.pipeline import gold, silver
    from kohort.pipeline.report.queries import ask

    events = [*restarted(400), *restarted(700)]
    events = [{**event, "sequence": n} for n, event in enumerate(events, 1)]
    told = {
        group: {each.code: each for each in history(events, group).findings}
        for group in ("away 400", "away 700")
    }
    assert told["away 400"]["rolling-restart"].title.startswith(
        "3 members restarted one after the other and caused 6 rebalances"
    )
    assert "rolling-restart" not in told["away 700"]
    assert history(events, "away 400").text().count(" was back after 6 min 40 s;") == 3
    assert " was back after " not in history(events, "away 700").text()

    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    tables = made(functions, frame(spark, tmp_path, with_findings(events)), tmp_path)
    (rolled,) = [
        row for row in rows(tables["gold/findings"]) if row["code"] == "rolling-restart"
    ]
    assert (rolled["group"], rolled["cases"]) == ("away 400", 6)
    # Without assignments, nobody knows what that saves.
    assert rolled["setting"] == "group.instance.id"
    assert rolled["downtime_saved_s"] is None

    for path, table in tables.items():
        table.createOrReplaceTempView(path.replace("/", "_"))
    found = {row["group"]: row for row in ask(spark, "groups")}
    assert {
        group: (row["restarts"], row["restarted"], row["away_s"])
        for group, row in found.items()
    } == {"away 400": (3, 3, 400.0), "away 700": (0, 0, None)}
