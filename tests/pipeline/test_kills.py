"""Killed in the middle, an ingest or a build leaves nothing that counts.

Ten kills of the stream take minutes: they are a program, `tests.pipeline.kills`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.kills import go, kill, start, until
from tests.pipeline.test_bronze import numbers, write
from tests.pipeline.test_build import RECIPE, SUMS, rows
from tests.pipeline.test_stream import event

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.lake import Lake

pytestmark = pytest.mark.spark

EVENTS = 20_000
"""Enough events for phases that last."""


def in_the_middle(folder: Path) -> bool:
    """Records are being written."""
    return any(folder.glob("bronze/new/*/0/_temporary/0/_temporary/*/*"))


def before_it_counts(folder: Path) -> bool:
    """All are written; only the move that makes them count is missing."""
    return any(folder.glob("bronze/new/*/0/_SUCCESS"))


@pytest.mark.parametrize("moment", [in_the_middle, before_it_counts])
def test_an_ingest_that_is_killed(
    lake: Lake, tmp_path: Path, moment: Callable[[Path], bool]
) -> None:
    """Nothing of it counts, its lock is gone; the next one takes each once."""
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
    assert bronze.events(lake).count() == 0
    assert len(lake.names(bronze.NEW)) == 1
    assert bronze.ingest(lake, [file]).events == EVENTS
    assert numbers(lake) == [*range(1, EVENTS + 1)]
    assert lake.names(bronze.NEW) == []


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
