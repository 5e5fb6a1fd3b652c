"""Findings in tables and report: as the broker published them, added up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.events import Event, Row, as_run, frame, made, rows, with_findings
from tests.pipeline.played_scenes import played

from kohort.control.why import history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAME = "a rolling restart, eager"
NEEDED = ("silver/findings", "gold/findings")
SECOND = 1_000_000_000


def tables(
    spark: SparkSession, folder: Path, events: Sequence[Event]
) -> dict[str, list[Row]]:
    """The rows of both tables."""
    from kohort.pipeline import gold, silver

    functions = {
        "silver/findings": silver.TABLE_FUNCTIONS["silver/findings"],
        "gold/findings": gold.TABLE_FUNCTIONS["gold/findings"],
    }
    found = made(functions, frame(spark, folder, events), folder, NEEDED)
    return {path: rows(found[path]) for path in NEEDED}


def test_tables_have_the_broker_s_findings(spark: SparkSession, tmp_path: Path) -> None:
    """Each with its cost and saving; the group of another run has its own rows."""
    events = with_findings(played(NAME).events("one", "g"))
    both = [*events, *as_run(events, "two")]
    found = tables(spark, tmp_path, both)
    told = history(played(NAME).events("one", "g"), "g").findings
    assert {"rolling-restart", "eager-for-nothing"} <= {each.code for each in told}
    for run in ("one", "two"):
        silver = {r["finding"]: r for r in found["silver/findings"] if r["run"] == run}
        assert silver.keys() == {each.key for each in told}
        for each in told:
            row, json = silver[each.key], each.as_json()
            same = ("code", "title", "advice", "unread_ns", "setting", "saving_ns")
            assert {name: row[name] for name in same} == {n: json[n] for n in same}
            assert row["members"] == json["members"]
        (gold,) = [
            row
            for row in found["gold/findings"]
            if (row["run"], row["code"]) == (run, "rolling-restart")
        ]
        (roll,) = [each for each in told if each.code == "rolling-restart"]
        assert roll.setting is not None
        assert gold["downtime_s"] == roll.cost.unread_ns / SECOND
        assert gold["downtime_saved_s"] == (roll.setting.saving_ns or 0) / SECOND
        assert (gold["findings"], gold["cases"]) == (1, len(roll.evidence))


def test_the_latest_revision_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Not one that was withdrawn; findings of one code add up."""
    events = with_findings(played(NAME).events("one", "g"))
    (first,) = [each for each in events if each.get("code") == "rolling-restart"]
    sequence = max(each["sequence"] for each in events)
    more: list[Event] = [
        {**first, "finding": "crash-loop/a", "code": "crash-loop", "unread_ns": 5},
        {**first, "finding": "crash-loop/b", "code": "crash-loop", "unread_ns": 7},
        {**first, "revision": 2, "title": "later"},
        {**first, "finding": "idle", "code": "idle"},
        {**first, "finding": "idle", "code": "idle", "revision": 2}
        | {"is_withdrawn": True},
    ]
    more = [{**each, "sequence": n} for n, each in enumerate(more, sequence + 1)]
    found = tables(spark, tmp_path, [*events, *more])
    silver = {row["finding"]: row for row in found["silver/findings"]}
    assert silver["rolling-restart"]["title"] == "later"
    assert "idle" not in silver
    gold = {row["code"]: row for row in found["gold/findings"]}
    assert gold["crash-loop"]["findings"] == 2
    assert gold["crash-loop"]["downtime_s"] == 12 / SECOND
