"""Builds after each of several ingests make the tables of one build of all events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.events import Event, counted, rows, with_accounts, with_findings
from tests.pipeline.played_scenes import played
from tests.pipeline.random_histories import history
from tests.pipeline.test_transactions import known

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.build import Build
from kohort.pipeline.gold.initial_delay import DELAY
from kohort.pipeline.lake import BUILDS, Lake
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GROWING = "a crash loop, eager"
FIRST = "a start, without a delay"
SECOND = "a start, with a delay"


@pytest.fixture(scope="module")
def spark(without_java: SparkSession) -> SparkSession:
    """These builds are of any engine."""
    return without_java


def told(name: str) -> list[Event]:
    """The events of a scene, as a run of its name that can be compared."""
    events = with_findings(played(name).events(name, "g"))
    delay_ms = "3000" if name == SECOND else "0"
    labels = {"scenario": "one", "seed": "1", DELAY: delay_ms}
    rewind = {"topic": "t", "partition": 0, "previous_offset": 9, "offset": 5}
    last, number = events[-1], max(each["sequence"] for each in events) + 1
    back = {"kind": "offsets_went_back", "sequence": number, "rewinds": [rewind]}
    return [{**event, "labels": labels} for event in (*events, {**last, **back})]


def write(path: Path, events: Iterable[Event]) -> str:
    """Writes a file of events."""
    path.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return str(path)


def tables_of(lake: Lake, made: Build) -> dict[str, Counter[str]]:
    """The rows of all tables that readers see, counted."""
    assert builds.current(lake) == made.id
    return {
        table.path: counted(rows(builds.read(lake, made.id, table))) for table in TABLES
    }


def test_builds_in_rounds_are_one_build_of_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A run comes, another one, then the rest of the first with events that are known.

    Without news a build computes no run, writes only checks, and has the same rows.
    """
    growing = told(GROWING)
    half = len(growing) // 2
    random = [event for seed in (0, 1) for event in with_accounts(history(seed))]
    files = [
        write(tmp_path / "1.jsonl", [*growing[:half], *told(FIRST), *known()]),
        write(tmp_path / "2.jsonl", [*told(SECOND), *random]),
        write(tmp_path / "3.jsonl", growing[half // 2 :]),
    ]
    lake, whole = Lake(spark, tmp_path / "rounds"), Lake(spark, tmp_path / "whole")
    computed = []
    for file in files:
        bronze.ingest(lake, [file])
        made = builds.build(lake)
        computed.append(made.runs)
    assert computed == [None, [SECOND, "history-0", "history-1"], [GROWING]]
    rounds = tables_of(lake, made)
    last = builds.build(lake)
    assert last.runs == []
    folders = {each.path: f"{BUILDS}/{last.id}/{each.path}" for each in TABLES}
    written = [path for path in folders if lake.footers(folders[path]).files]
    assert written == ["gold/quality"]
    (parts,) = (e.parts for e in last.tables if e.path == "silver/memberships")
    assert len(parts) > 1

    assert bronze.ingest(whole, files).known > 0
    expected = tables_of(whole, builds.build(whole, is_whole=True))
    assert all(expected.values())
    for found in (rounds, tables_of(lake, last)):
        for path, wanted in expected.items():
            assert found[path] == wanted, path
