"""A broker, real clients, and the stream at work meanwhile: are the numbers right?"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.pipeline.duck.calculate import PATHS, calculate
from tests.pipeline.duck.compare import compare
from tests.pipeline.played import KNOWN, Known, playing

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.bronze import Ingested
from kohort.pipeline.build import Build
from kohort.pipeline.lake import Lake
from kohort.pipeline.live import Live
from kohort.pipeline.makers import Options
from kohort.pipeline.progress import Progress
from kohort.pipeline.quality import Rules
from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NEVER_S = 1e9
"""Between builds: each life of the stream has one at the most."""


@dataclass(frozen=True)
class Played:
    """What has come of it.

    Attributes:
        lake: has it all.
        file: of events, as the broker wrote it.
        first: the build that the stream made while the clients were at it.
        build: the build when all was over.
        late: what was new in the file.
        after: the build after that was taken in.
        folder: for whoever needs files.
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
    """Plays it once for all tests.

    A stream reads while clients come and go, builds, and is stopped when they are gone.
    A second one goes on where it was. Then the broker's file is taken in as well.
    """
    folder = tmp_path_factory.mktemp("played")
    lake = Lake(spark, folder / "lake")
    with playing(folder / "events.jsonl") as play:
        stopping = threading.Event()

        def say(line: str) -> None:
            if ": published" in line:
                play.go_on.set()

        def until_calm() -> None:
            play.calm.wait()
            stopping.set()

        watching = threading.Thread(target=until_calm)
        watching.start()
        live = _live(lake, play.address, stopping, say)
        assert live.run() == 0
        watching.join()
        play.wait(play.calm)
        first = live.last
        rest = _live(lake, play.address, threading.Event(), lambda _: None)
        assert rest.run(once=True) == 0
    assert first is not None
    assert rest.last is not None
    late = bronze.ingest(lake, [str(play.file)])
    after = builds.build(lake)
    return Played(lake, play.file, first, rest.last, late, after, folder)


def _live(lake: Lake, address: str, stopping: threading.Event, say: Any) -> Live:
    return Live(
        lake,
        stopping,
        address,
        "__kohort_events",
        "live",
        NEVER_S,
        Options(),
        Rules(),
        3,
        Progress(),
        say,
    )


def rows(played: Played, path: str, build: Build | None = None) -> list[dict[str, Any]]:
    """A table of the build when all was over."""
    folder = played.lake.uri(f"builds/{(build or played.build).id}/{path}")
    found = (
        duckdb.connect()
        .execute("SET TimeZone = 'UTC'")
        .read_parquet(f"{folder}/*.parquet")
    )
    names = found.columns
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def of_group(played: Played, path: str, group: str) -> list[dict[str, Any]]:
    """Its rows of one group."""
    return [row for row in rows(played, path) if row["group"] == group]


def test_the_stream_builds_while_clients_come_and_go(played: Played) -> None:
    """Its build was there before the second half was played, and lacks that."""
    assert played.first.is_published
    (half,) = rows(played, "gold/runs", played.first)
    (whole,) = rows(played, "gold/runs")
    assert 0 < half["rebalances"] < whole["rebalances"]
    assert half["crashes"] == half["refused_full"] == 0


@pytest.mark.parametrize("group", KNOWN)
def test_gold_is_what_the_script_says(played: Played, group: str) -> None:
    """Rebalances by cause and culprit, refusals, crashes and commits are as played."""
    known: Known = KNOWN[group]
    (gold,) = of_group(played, "gold/groups", group)
    assert gold["by_cause"] == known.causes
    assert gold["rebalances"] == sum(known.causes.values())
    assert gold["interrupted"] == 0
    assert gold["crashes"] == known.crashes
    assert gold["refused_full"] == known.refusals
    assert gold["refused_full_names"] == len(known.refused)
    culprits = of_group(played, "gold/culprits", group)
    found = {(row["cause"], row["name"]): row["rebalances"] for row in culprits}
    assert found == known.culprits
    refusals = of_group(played, "silver/refusals", group)
    assert {row["name"] for row in refusals} == {*known.refused}
    if known.commits is not None:
        assert gold["commits"] == known.commits
    assert gold["records_rewound"] == known.rewound


def test_commits_are_those_of_the_file(played: Played) -> None:
    """Also of clients that commit by themselves, as a count of lines has them."""
    events = [json.loads(line) for line in played.file.read_text().splitlines()]
    commits = Counter(e["group"] for e in events if e["kind"] == "offsets_committed")
    offsets: Counter[str] = Counter()
    for event in events:
        if event["kind"] == "offsets_committed":
            offsets[event["group"]] += len(event["offsets"])
    for gold in rows(played, "gold/groups"):
        group = gold["group"]
        assert (gold["commits"], gold["offsets"]) == (commits[group], offsets[group])


def test_all_tables_are_as_calculated_independently(played: Played) -> None:
    """DuckDB, by its own statements, makes the same of the same events."""
    events = played.folder / "events"
    bronze.events(played.lake).write.parquet(str(events))
    calculated = calculate(f"{events}/*.parquet")
    told = [
        line
        for path in PATHS
        for line in compare(
            played.lake.uri(f"builds/{played.build.id}/{path}"),
            path.replace("/", "."),
            BY_PATH[path],
            calculated,
        )
    ]
    assert not told
    empty = {path for path in PATHS if not rows(played, path)}
    # They would need another broker, and more happenings in less time.
    assert empty <= {"gold/initial_delay", "gold/storms"}


def test_events_that_come_again_change_nothing(played: Played) -> None:
    """The broker's own file has what the topic brought, and no table has it twice."""
    assert played.late.events == 0
    assert played.late.known == len(played.file.read_text().splitlines())
    assert not played.late.quarantined
    assert played.after.id != played.build.id
    for path in BY_PATH:
        before, after = rows(played, path), rows(played, path, played.after)
        assert sorted(map(repr, before)) == sorted(map(repr, after)), path


def test_the_data_is_good(played: Played) -> None:
    """No check finds anything, but that events took a while while Spark began."""
    found = {check.name: check.found for check in played.build.checks}
    del found["late_events"]
    assert not any(found.values()), found
