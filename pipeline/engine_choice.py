"""Chooses the engine of a command, before one is started.

The local engine starts in a second, and needs no Java. It has no limit of memory, so
above `MOST_EVENTS` Spark, which writes to the disk what does not fit, is the better
choice. Spark alone reads streams, and other file systems.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kohort.pipeline.engines import LOCAL, SPARK
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import PARQUET, LocalFiles, absolute, is_local, plain
from kohort.pipeline.lake import ICEBERG, LEDGER, STREAMS
from kohort.pipeline.lake import PARQUET as FORMAT

AUTO: Final = "auto"
CHOICES: Final = (AUTO, LOCAL, SPARK)
MOST_EVENTS: Final = 3_000_000
"""Events that the local engine takes: they need some 4 GB of memory, and a fourth of
the CPU time that Spark takes."""
FEW_EVENTS: Final = 50_000
"""Events for which one core is best: to divide the work costs more than it saves."""
_BYTES: Final = ((".gz", 40), (PARQUET, 30), ("", 400))
"""Bytes per event in files by the end of their name; events with lists have more, so
that the number of events is guessed too high rather than too low."""


@dataclass(frozen=True, slots=True)
class Work:
    """The properties of a command on which the choice depends.

    Attributes:
        lake: path or URI of the lake.
        inputs: the paths and patterns that it ingests.
        reads_events: whether it reads events, and not only tables.
        option: an option of Spark's that is given; empty: none is.
        is_stream: whether it reads a topic.
        format: the format of the lake's tables.
    """

    lake: str
    inputs: Sequence[str] = ()
    reads_events: bool = True
    option: str = ""
    is_stream: bool = False
    format: str = FORMAT


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine.

    Attributes:
        engine: its name.
        why: the reason if it has to be Spark.
        cores: of the local engine, for one query; 0: all.
    """

    engine: str
    why: str = ""
    cores: int = 0


def choose(asked: str, work: Work) -> Choice:
    """The engine for some work.

    Args:
        asked: one of `CHOICES`.
        work: the work.

    Raises:
        PipelineError: the local engine is asked for, and cannot do it.
    """
    if asked == SPARK:
        return Choice(SPARK)
    why = _only_spark(work)
    if asked == LOCAL:
        if why:
            raise PipelineError(f"--engine local is not possible: {why}", 2)
        return _local(_events(work))
    if why or find_spec("pysail") is None:
        return Choice(SPARK, why)
    count = _events(work)
    if count > MOST_EVENTS:
        why = f"about {count:,} events are many for the local engine"
        return Choice(SPARK, why)
    return _local(count)


def _local(events: int) -> Choice:
    return Choice(LOCAL, cores=1 if events <= FEW_EVENTS else 0)


def _only_spark(work: Work) -> str:
    """The reason why only Spark can do the work; empty: there is none."""
    if work.is_stream:
        return "only Spark reads streams"
    if work.format == ICEBERG:
        return "only Spark has Iceberg tables"
    if work.option:
        return f"{work.option} is an option of Spark"
    remote = next((p for p in (work.lake, *work.inputs) if not is_local(p)), None)
    if remote is not None:
        return f"only Spark reaches {remote}"
    if work.reads_events and LocalFiles().names(_in(work.lake, STREAMS)):
        return f"{work.lake} has events of a stream, which only Spark reads"
    return ""


def _events(work: Work) -> int:
    """The number of events, those of new files guessed."""
    return _stored(work.lake) + sum(map(_guessed, work.inputs))


def _stored(lake: str) -> int:
    """The number of events in a lake, by its ledger."""
    files, ledger = LocalFiles(), _in(lake, LEDGER)
    texts = (files.read_text(f"{ledger}/{name}") for name in files.names(ledger))
    return sum(int(json.loads(text).get("events", 0)) for text in texts if text)


def _guessed(pattern: str) -> int:
    """The number of events in input files, by their sizes."""
    return sum(
        file.size // next(size for end, size in _BYTES if file.path.endswith(end))
        for file in LocalFiles().inputs(absolute(pattern))
    )


def _in(lake: str, path: str) -> str:
    return str(Path(plain(lake)) / path)
