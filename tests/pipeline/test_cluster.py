"""The pipeline on a cluster of Spark, with its lake in an object store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.broker_thread import Serving, serving
from tests.pipeline.cluster import BUCKET, Store, cluster, store
from tests.pipeline.cluster_job import FIRST
from tests.pipeline.events import Row, counted, rows

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.lake import CURRENT, Lake
from kohort.pipeline.stream import Stream
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def spark(java: SparkSession) -> SparkSession:
    """Spark with two cores."""
    return java


def events_of_another(path: Path) -> str:
    """A file with the events of a broker that has ended."""
    with serving() as served:
        for name in ("a", "b"):
            served.group(name)
        served.commit(30)
        path.write_text("".join(f"{json.dumps(each)}\n" for each in served.events()))
    return str(path)


def on_a_cluster(folder: Path, kept: Store, served: Serving, file: str) -> None:
    """Runs the job, and kills an executor once it has built its first table."""
    with cluster(folder) as spark:
        command = [
            *(sys.executable, "-m", "tests.pipeline.cluster_job", spark.master),
            *(f"s3a://{BUCKET}/lake", served.address, file),
            json.dumps({**kept.settings}),
        ]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as job:
            assert job.stdout is not None
            try:
                assert job.stdout.readline() == f"{FIRST}\n"
                spark.kill_an_executor()
                job.communicate("\n")
            finally:
                job.kill()
    assert job.returncode == 0


def whenever_read(table: list[Row]) -> list[Row]:
    """The rows that do not depend on the time of reading: all but one check's."""
    return [row for row in table if row.get("check") != "late_events"]


def test_a_cluster_makes_the_same_tables(lake: Lake, tmp_path: Path) -> None:
    """An executor dies in the middle of the build; all rows are those of local[2].

    Both ingest the same file, and stream from the same broker; one after the other,
    so that they may differ in whether an event came late.
    """
    file = events_of_another(tmp_path / "events.jsonl")
    there = Lake(lake.spark, tmp_path / "there")
    with serving() as served, store() as kept:
        served.group("c")
        served.commit(50)
        served.written()
        on_a_cluster(tmp_path, kept, served, file)
        kept.download("lake", Path(there.path))
        bronze.ingest(lake, [file])
        Stream(lake, served.address).read()
    assert builds.build(lake).is_published
    here = builds.current(lake)
    assert here is not None
    # In a store it is a folder, with a line for each build.
    (line,) = there.spark.read.text(there.uri(CURRENT)).collect()
    cluster_build = json.loads(line["value"])["build"]
    for table in TABLES:
        ours = whenever_read(rows(builds.read(lake, here, table)))
        theirs = whenever_read(rows(builds.read(there, cluster_build, table)))
        assert counted(theirs) == counted(ours), table.path
