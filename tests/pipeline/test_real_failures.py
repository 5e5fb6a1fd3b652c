"""Failures that happen for real, in the test's own Spark: the sentences of commands."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.broker_thread import serving
from tests.pipeline.test_bronze import write
from tests.pipeline.test_build import RECIPE
from tests.pipeline.test_stream import event, once

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.commands.work import told
from kohort.pipeline.lake import Lake
from kohort.pipeline.stream import StreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVENTS = 2_000
ROOM = 4_096
"""Bytes that a file may have on the small disk; that many events need more."""


@pytest.fixture(scope="module")
def spark(java: SparkSession) -> SparkSession:
    """Spark: its Java process is another one than that of the test."""
    return java


@contextmanager
def small_disk(lake: Lake) -> Iterator[None]:
    """Limits the size of files that Spark's Java process writes."""
    # Java unpacks its compressors on first use, and never tries again.
    lake.spark.range(1).write.parquet(f"{lake.path}-before")
    context: Any = type(lake.spark.sparkContext)
    java = context._gateway.proc.pid  # noqa: SLF001 - PySpark has no other way to it
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (ROOM, before[1]))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, before)


def failure(lake: Lake) -> str:
    """The sentence about a build that fails."""
    with pytest.raises(Exception, match=r".") as raised:
        builds.build(lake, recipe=RECIPE)
    sentence = told(raised.value, lake.path)
    assert "\n" not in sentence
    return sentence


def test_a_full_disk_is_named_with_the_table(lake: Lake, tmp_path: Path) -> None:
    """Nothing of an ingest or a build counts, and both work once there is room."""
    lines = [event(n, member=f"m{n * n}") for n in range(1, EVENTS)]
    path = write(tmp_path / "e.jsonl", *lines)
    with small_disk(lake), pytest.raises(Exception, match=r".") as raised:
        bronze.ingest(lake, [path])
    sentence = told(raised.value, lake.path)
    assert sentence.startswith("the disk is full: ingest ")
    assert f"({lake.path}/bronze/new/" in sentence
    assert sentence.endswith("what was not finished does not count")
    assert bronze.events(lake).count() == 0
    assert bronze.ingest(lake, [path]).events == len(lines)


def test_damaged_inputs_are_named_with_the_reason(lake: Lake, tmp_path: Path) -> None:
    """The others are ingested: see `test_bronze` for the rest."""
    write(tmp_path / "a.jsonl", event(1))
    cut = Path(write(tmp_path / "b c.jsonl.gz", event(2)))
    cut.write_bytes(cut.read_bytes()[:-12])
    parquet = write(tmp_path / "d.parquet", "PAR1 it is not")
    done = bronze.ingest(lake, [str(tmp_path)])
    assert (done.files, done.events) == (1, 1)
    assert done.unread == {
        str(cut): "it is cut off",
        parquet: "it is no Parquet file, or is cut off",
    }


def test_a_damaged_lake_says_which_file_and_what_to_do(
    lake: Lake, tmp_path: Path
) -> None:
    """The advice repairs it: its folder is removed, and the file ingested again."""
    path = write(tmp_path / "e.jsonl", event(1), event(2))
    bronze.ingest(lake, [path])
    base = Path(lake.path) / "bronze"
    (ingest,) = lake.names(bronze.EVENTS)
    (part,) = (base / "events" / ingest).glob("*/*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    sentence = failure(lake)
    assert sentence.startswith(f"ingest {ingest} ({part}) cannot be read: it is ")
    assert f"Remove {base}/events/{ingest} and {base}/files.json, ing" in sentence
    shutil.rmtree(base / "events" / ingest)
    (base / "files.json").unlink()
    assert bronze.ingest(lake, [path]).events == 2
    assert builds.build(lake, recipe=RECIPE).is_published


def test_a_full_disk_ends_a_stream_and_is_named(lake: Lake) -> None:
    """Once there is room the stream continues, with each event once."""
    with serving() as served:
        served.commit(EVENTS // 10)
        served.written()
        with small_disk(lake), pytest.raises(StreamError) as raised:
            once(lake, served)
        full = "the stream has ended: the disk is full: "
        assert str(raised.value).startswith(full)
        once(lake, served)
        assert bronze.events(lake).count() == len(served.events())
