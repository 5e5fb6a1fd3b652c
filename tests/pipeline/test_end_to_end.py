"""The build of a running stream of real clients has the right numbers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline import silver_oracle
from tests.pipeline.events import counted, in_order
from tests.pipeline.events import rows as read
from tests.pipeline.live_groups import KNOWN, SESSION_MS, Known, playing

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.bronze import Ingested
from kohort.pipeline.build import Build
from kohort.pipeline.commands.progress import Progress
from kohort.pipeline.commands.stream import Live
from kohort.pipeline.commands.work import Access
from kohort.pipeline.lake import Lake
from kohort.pipeline.quality import Rules
from kohort.pipeline.stream import Stream
from kohort.pipeline.table_functions import Options
from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
EVERY_S = 1.0
"""Interval between rounds."""


@dataclass(frozen=True)
class Played:
    """Results of the play.

    Attributes:
        lake: the lake with all events.
        file: the broker's events file.
        first: the stream's build while the clients were running.
        build: the build at the end.
        late: the new events in the file.
        after: the build with the file's events.
        folder: a folder for the tests' files.
    """

    lake: Lake
    file: Path
    first: Build
    build: Build
    late: Ingested
    after: Build
    folder: Path


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Runs the play once for all tests.

    A stream reads and builds while clients join and leave, and stops after its first
    build. A second stream continues after the last client. Then the broker's events
    file is ingested as well.
    """
    folder = tmp_path_factory.mktemp("played")
    lake = Lake(spark, folder / "lake")
    with playing(folder / "events.jsonl") as play:
        live = _live(lake, play.address)

        def say(line: str) -> None:
            if ": published" in line:
                play.go_on.set()
                live.access.stopping.set()

        live.say = say
        assert live.run(EVERY_S) == 0
        play.wait(play.calm)
        first = live.last
        rest = _live(lake, play.address)
        assert rest.once() == 0
    assert first is not None
    assert rest.last is not None
    late = bronze.ingest(lake, [str(play.file)])
    after = builds.build(lake)
    return Played(lake, play.file, first, rest.last, late, after, folder)


def _live(lake: Lake, address: str) -> Live:
    access = Access(lake.path, "local", None, {}, None, None, [], Progress())
    return Live(access, lake, Stream(lake, address), Options(), Rules(), 3, builds=True)


@pytest.fixture(scope="module")
def spark(java: SparkSession) -> SparkSession:
    """Spark alone reads streams."""
    return java


def rows(played: Played, path: str, build: Build | None = None) -> list[dict[str, Any]]:
    """Rows of a table in the final build of the play."""
    return read(builds.read(played.lake, (build or played.build).id, BY_PATH[path]))


def of_group(played: Played, path: str, group: str) -> list[dict[str, Any]]:
    """Rows of one group in the final build."""
    return [row for row in rows(played, path) if row["group"] == group]


def test_the_stream_builds_while_clients_come_and_go(played: Played) -> None:
    """The first build ended before the second half, and lacks it."""
    assert played.first.is_published
    (half,) = rows(played, "gold/runs", played.first)
    (whole,) = rows(played, "gold/runs")
    assert 0 < half["rebalances"] < whole["rebalances"]
    assert half["expired"] == half["refused_full"] == 0


@pytest.mark.parametrize("group", KNOWN)
def test_gold_is_what_the_script_says(played: Played, group: str) -> None:
    """Rebalances by cause and culprit, refusals, expiries and commits are as played."""
    known: Known = KNOWN[group]
    (gold,) = of_group(played, "gold/groups", group)
    assert gold["by_cause"] == known.causes
    assert gold["rebalances"] == sum(known.causes.values())
    assert gold["interrupted"] == 0
    assert gold["expired"] == known.crashes
    assert gold["refused_full"] == known.refusals
    assert gold["refused_full_names"] == len(known.refused)
    culprits = of_group(played, "gold/culprits", group)
    found = {(row["cause"], row["name"]): row["rebalances"] for row in culprits}
    assert found == known.culprits
    refusals = of_group(played, "silver/refusals", group)
    assert {row["name"] for row in refusals} == {*known.refused}
    if known.commits is not None:
        assert gold["commits"] == known.commits
    assert gold["went_back"] == known.went_back


def test_commits_are_those_of_the_file(played: Played) -> None:
    """Commits equal the lines in the file, auto-commits included."""
    events = [json.loads(line) for line in played.file.read_text().splitlines()]
    commits = Counter(e["group"] for e in events if e["kind"] == "offsets_committed")
    offsets: Counter[str] = Counter()
    for event in events:
        if event["kind"] == "offsets_committed":
            offsets[event["group"]] += len(event["offsets"])
    for gold in rows(played, "gold/groups"):
        group = gold["group"]
        assert (gold["commits"], gold["offsets"]) == (commits[group], offsets[group])


@pytest.mark.parametrize("group", KNOWN)
def test_silver_is_what_loops_make_of_the_file(played: Played, group: str) -> None:
    """Silver of real clients' events equals the rows that plain loops compute."""
    lines = map(json.loads, played.file.read_text().splitlines())
    own = in_order(event for event in lines if event["group"] == group)
    for path, wanted in silver_oracle.of_group(own).items():
        keys = {"run", "group"}
        found = [
            {name: row[name] for name in row.keys() - keys}
            for row in of_group(played, path, group)
        ]
        assert counted(found) == counted(wanted), path


def test_a_crash_is_unread_since_its_last_sign(played: Played) -> None:
    """Each partition is unread for the session timeout and the rebalance after it."""
    found = of_group(played, "silver/unread", "crash")
    (gone,) = [
        row
        for row in of_group(played, "silver/memberships", "crash")
        if row["how"] == "expired"
    ]
    crash = [row for row in found if row["cause"] == "expired"]
    assert {row["name"] for row in crash} == {"ben"}
    sign_ns = gone["until_ns"] - gone["silent_ns"]
    # Its connection was closed a little later, or the broker saw that only then.
    assert all(sign_ns <= row["from_ns"] < gone["until_ns"] for row in crash)
    assert gone["silent_ns"] >= SESSION_MS * 10**6
    (gold,) = of_group(played, "gold/groups", "crash")
    assert gold["expired_unread_s"] == pytest.approx(
        sum(row["unread_ns"] for row in crash) / 1e9
    )
    assert gold["downtime_s"] >= gold["expired_unread_s"] > SESSION_MS / 1000


def test_events_that_come_again_change_nothing(played: Played) -> None:
    """The events file repeats the topic's events; no table has one twice."""
    assert played.late.events == 0
    assert played.late.known == len(played.file.read_text().splitlines())
    assert not played.late.quarantined
    assert played.after.id != played.build.id
    for path in BY_PATH:
        before, after = rows(played, path), rows(played, path, played.after)
        assert sorted(map(repr, before)) == sorted(map(repr, after)), path


def test_the_data_is_good(played: Played) -> None:
    """Every check passes, except that events are late while Spark starts."""
    found = {check.name: check.found for check in played.build.checks}
    del found["late_events"]
    assert not any(found.values()), found
