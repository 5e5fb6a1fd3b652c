"""Failures that happen for real, in the test's own Spark: the sentences of commands."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.broker_thread import serving
from tests.pipeline.test_bronze import write
from tests.pipeline.test_build import RECIPE, built, failing
from tests.pipeline.test_stream import event, once

from kohort.pipeline import bronze, session
from kohort.pipeline import build as builds
from kohort.pipeline.bronze import stream
from kohort.pipeline.build import Recipe
from kohort.pipeline.commands.work import told
from kohort.pipeline.lake import Lake
from kohort.pipeline.spark_engine import LOOK_S
from kohort.pipeline.table_functions import Frames, Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

EVENTS = 2_000
ROOM = 4_096
"""Bytes that a file may have on the small disk; that many events need more."""


@contextmanager
def small_disk(lake: Lake) -> Iterator[None]:
    """Limits the size of files that Spark's Java process writes."""
    # Java unpacks its compressors on first use, and never tries again.
    lake.spark.range(1).write.parquet(f"{lake.path}-before")
    process = session.process(lake.spark)
    assert process is not None
    java = process.pid
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
    assert f"({lake.path}/bronze/files/" in sentence
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
    """The advice repairs it: the entry is removed, and the file ingested again."""
    path = write(tmp_path / "e.jsonl", event(1), event(2))
    ingest = bronze.ingest(lake, [path]).id
    base = Path(lake.path) / "bronze"
    (part,) = (base / "files" / str(ingest) / "events").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    sentence = failure(lake)
    assert sentence.startswith(f"ingest {ingest} ({part}) cannot be read: it is dam")
    assert f"Remove {base}/ledger/{ingest}.json, ingest its files again" in sentence
    (base / "ledger" / f"{ingest}.json").unlink()
    assert bronze.ingest(lake, [path]).events == 2
    assert builds.build(lake, recipe=RECIPE).is_published


def test_a_full_disk_ends_a_stream_and_is_named(lake: Lake) -> None:
    """Once there is room the stream continues, with each event once."""
    from pyspark.errors import StreamingQueryException

    with serving() as served:
        served.commit(EVENTS // 10)
        served.written()
        with small_disk(lake), pytest.raises(StreamingQueryException) as raised:
            once(lake, served)
        problem = stream.problem(raised.value, served.address, lake.path)
        full = "the stream has ended: the disk is full: "
        assert str(problem).startswith(f"{full}{lake.path}, or Spark's temporary")
        once(lake, served)
        assert bronze.events(lake).count() == len(served.events())


def test_the_folder_of_a_failed_build_goes_after_running_tasks(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled task that still runs would make the folder anew."""
    started, ending, ended = (tmp_path / name for name in ("started", "ending", "end"))

    def task(_: int) -> None:
        started.touch()
        while not ending.exists():
            pass
        ended.touch()

    def busy(job: str) -> None:
        lake.engine.begin(job, "")
        lake.spark.sparkContext.parallelize([0], 1).foreach(task)

    threads: list[threading.Thread] = []

    def late(frames: Frames, options: Options) -> DataFrame:
        job = lake.spark.sparkContext.getLocalProperty("spark.jobGroup.id")
        threads.append(threading.Thread(target=busy, args=(job,)))
        threads[0].start()
        while not started.exists():
            threads[0].join(LOOK_S)
        return failing(frames, options)

    wait, remove = lake.engine.wait_for_tasks, lake.remove
    removed: list[bool] = []

    def wait_for_tasks(job: str) -> None:
        ending.touch()
        wait(job)

    def remove_late(path: str) -> None:
        removed.append(ended.exists())
        remove(path)

    # The task goes on, as one does that heeds it late.
    monkeypatch.setattr(lake.engine, "cancel", lambda _: None)
    monkeypatch.setattr(lake.engine, "wait_for_tasks", wait_for_tasks)
    monkeypatch.setattr(lake, "remove", remove_late)
    broken = Recipe(RECIPE.tables, {**RECIPE.functions, "silver/counts": late})
    try:
        with pytest.raises(Exception, match="no"):
            built(lake, {"a": 1}, recipe=broken)
    finally:
        ending.touch()
        threads[0].join()
    assert (removed, lake.names("builds")) == ([True], [])
