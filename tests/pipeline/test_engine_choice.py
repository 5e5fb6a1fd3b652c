"""The engine of a command: the local one, unless only Spark can do the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kohort.pipeline import engine_choice
from kohort.pipeline.engine_choice import AUTO, Choice, Work, choose
from kohort.pipeline.engines import LOCAL, SPARK
from kohort.pipeline.errors import PipelineError

pytestmark = pytest.mark.spark  # the extras read patterns of files


@pytest.fixture(autouse=True)
def both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines are installed."""
    monkeypatch.setattr(engine_choice, "find_spec", lambda _: True)


def file_of(folder: Path, name: str, size: int) -> str:
    """A file of this size, without contents."""
    path = folder / name
    with path.open("wb") as file:
        file.truncate(size)
    return str(path)


def test_a_test_s_events_need_no_spark(tmp_path: Path) -> None:
    """A small file needs one core of the local engine; Spark can be forced."""
    work = Work(str(tmp_path / "lake"), [file_of(tmp_path, "e.jsonl", 900_000)])
    assert choose(AUTO, work) == choose(LOCAL, work) == Choice(LOCAL, cores=1)
    assert choose(SPARK, work) == Choice(SPARK)


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (Work("lake", is_stream=True), "only Spark reads streams"),
        (Work("lake", option="--master"), "--master is an option of Spark"),
        (Work("s3a://b/lake"), "only Spark reaches s3a://b/lake"),
        (Work("lake", ["hdfs:///e.jsonl"]), "only Spark reaches hdfs:///e.jsonl"),
    ],
)
def test_work_that_only_spark_can_do(work: Work, why: str) -> None:
    """Spark is chosen; asked for the local engine, the command is wrong."""
    assert choose(AUTO, work) == Choice(SPARK, why)
    with pytest.raises(PipelineError, match=why) as raised:
        choose(LOCAL, work)
    assert raised.value.code == 2


def test_events_of_a_stream_are_for_spark(tmp_path: Path) -> None:
    """The tables of a build that a stream has made are not."""
    (tmp_path / "bronze/stream/live").mkdir(parents=True)
    lake = str(tmp_path)
    assert "events of a stream" in choose(AUTO, Work(lake)).why
    assert choose(AUTO, Work(lake, reads_events=False)) == Choice(LOCAL, cores=1)


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz", "e.parquet"])
def test_many_events_are_for_spark(tmp_path: Path, name: str) -> None:
    """Stored ones, and those of new files; the local engine still takes them."""
    ledger = tmp_path / "lake" / "bronze" / "ledger"
    ledger.mkdir(parents=True)
    (ledger / "1.json").write_text(json.dumps({"events": 2_500_000}))
    lake = str(tmp_path / "lake")
    assert choose(AUTO, Work(lake)) == Choice(LOCAL)
    large = Work(lake, [file_of(tmp_path, name, 300_000_000)])
    assert "are many for the local engine" in choose(AUTO, large).why
    assert choose(LOCAL, large) == Choice(LOCAL)


def test_without_the_local_engine_it_is_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster, where Sail is not installed."""
    monkeypatch.setattr(engine_choice, "find_spec", lambda _: None)
    assert choose(AUTO, Work(str(tmp_path))) == Choice(SPARK)
