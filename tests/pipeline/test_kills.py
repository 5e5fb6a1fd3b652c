"""Killed in the middle, an ingest, a build or a compaction leaves nothing that counts.

Ten kills of the stream take minutes: they are a program, `tests.pipeline.kills`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from tests.pipeline.kills import go, kill, start, until
from tests.pipeline.test_bronze import numbers, write
from tests.pipeline.test_build import RECIPE, SUMS, rows
from tests.pipeline.test_compaction import (
    BATCHES,
    assert_each_once,
    stored,
    streamed,
)
from tests.pipeline.test_stream import event

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.lake import Lake

pytestmark = pytest.mark.spark

EVENTS = 20_000
"""Enough events for phases that last."""


def in_the_middle(folder: Path) -> bool:
    """Parts are being written, and none counts."""
    return any(folder.glob("bronze/files/*/events/_temporary/0/_temporary/*/*"))


def before_the_ledger(folder: Path) -> bool:
    """Everything is written; only the entry that makes it count is missing."""
    return any(folder.glob("bronze/files/*/events/_SUCCESS"))


@pytest.mark.parametrize("moment", [in_the_middle, before_the_ledger])
def test_an_ingest_that_is_killed(
    lake: Lake, tmp_path: Path, moment: Callable[[Path], bool]
) -> None:
    """Nothing of it is in bronze, its lock is gone; the next one takes each once."""
    line = event(1)
    file = write(
        tmp_path / "e.jsonl", *({**line, "sequence": n} for n in range(1, EVENTS + 1))
    )
    process = start("ingest", lake.path, file)
    try:
        go(process)
        until(process, lambda: moment(Path(lake.path)))
    finally:
        kill(process)
    assert lake.names("bronze/ledger") == []
    assert bronze.events(lake).count() == 0
    left = lake.names("bronze/files")
    assert len(left) == 1
    assert bronze.ingest(lake, [file]).events == EVENTS
    assert numbers(lake) == [*range(1, EVENTS + 1)]
    assert left[0] not in lake.names("bronze/files")


def with_some_tables(build: Path) -> bool:
    """The first table is written, and others are being made of it."""
    return (build / "silver/runs/_SUCCESS").exists()


def with_all_tables(build: Path) -> bool:
    """The last one is written; now it is looked at, and published."""
    return (build / "gold/sums/_SUCCESS").exists()


@pytest.mark.parametrize("moment", [with_some_tables, with_all_tables])
def test_a_build_that_is_killed(
    lake: Lake, tmp_path: Path, moment: Callable[[Path], bool]
) -> None:
    """Readers always have a whole build; the next one removes the remains."""
    bronze.ingest(lake, [write(tmp_path / "e.jsonl", event(1), event(2), event(3))])
    first = builds.build(lake, recipe=RECIPE).id
    process = start("build", lake.path)
    try:
        go(process)
        others = Path(lake.path) / "builds"
        until(
            process,
            lambda: any(moment(o) for o in others.iterdir() if o.name != first),
        )
    finally:
        kill(process)
    seen = builds.current(lake)
    assert seen == first or (
        moment is with_all_tables and builds.about(lake, str(seen))
    )
    assert rows(lake, SUMS) == [(3,)]
    last = builds.build(lake, recipe=RECIPE).id
    assert rows(lake, SUMS) == [(3,)]
    assert lake.names("builds") == sorted({first, str(seen), last})


COMPACTED = "bronze/compacted/live"
MOMENTS = (
    f"{COMPACTED}/*/events/_temporary",
    f"{COMPACTED}/*/quarantine/_SUCCESS",
    f"{COMPACTED}.json",
)
"""Files of a compaction: it writes, has written everything, and has begun to count."""


def _more(folder: Path, pattern: str, before: set[Path]) -> bool:
    return bool({*folder.glob(pattern)} - before)


def test_a_compaction_that_is_killed(lake: Lake) -> None:
    """At each moment all events are there once; the next compaction cleans up."""
    streamed(lake, range(BATCHES))
    folder = Path(lake.path)
    with ExitStack() as ends:
        processes = [start("compact", lake.path) for _ in MOMENTS]
        for process in processes:
            ends.callback(kill, process)
        for process, moment in zip(processes, MOMENTS, strict=True):
            has_come = partial(_more, folder, moment, {*folder.glob(moment)})
            go(process)
            until(process, has_come)
            kill(process)
            assert_each_once(lake, BATCHES)
    bronze.compact(lake, 1)
    assert_each_once(lake, BATCHES)
    assert stored(lake) == 2
    assert len(lake.names(COMPACTED)) == 1
