"""Both engines make the same tables of the same file."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.events import counted, rows, with_findings
from tests.pipeline.played_scenes import SCRIPTS, played
from tests.pipeline.silver_rows import check_plan
from tests.pipeline.test_lag_slices import commits, hot_group

from kohort.pipeline import bronze, gold, local_engine
from kohort.pipeline import build as builds
from kohort.pipeline.engine_lookup import engine_of
from kohort.pipeline.engines import LOCAL
from kohort.pipeline.lake import Lake
from kohort.pipeline.table_functions import Options, kept
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FINDINGS = "gold/findings"


@contextlib.contextmanager
def started() -> Iterator[SparkSession]:
    """A session of the local engine."""
    local = local_engine.start()
    try:
        yield local
    finally:
        local_engine.stop(local)


def tables_of(lake: Lake, file: Path) -> Mapping[str, Counter[str]]:
    """Ingests a file and builds; returns the rows of each table, counted."""
    bronze.ingest(lake, [str(file)])
    made = builds.build(lake)
    assert made.is_published
    return {
        table.path: counted(rows(builds.read(lake, made.id, table))) for table in TABLES
    }


def test_both_engines_make_the_same_tables(lake: Lake, tmp_path: Path) -> None:
    """The groups play scripts, with findings about most of them."""
    told = (with_findings(played(name).events(name, "g")) for name in SCRIPTS)
    file = tmp_path / "events.jsonl"
    with file.open("w") as lines:
        for event in itertools.chain.from_iterable(told):
            lines.write(f"{json.dumps(event)}\n")
    assert lake.engine.name != LOCAL
    ours = tables_of(lake, file)
    with started() as local:
        theirs = tables_of(Lake(local, tmp_path / "local"), file)
    for path, expected in ours.items():
        assert theirs[path] == expected, path
    assert len(ours[FINDINGS]) > len(SCRIPTS) / 2
    made = builds.current(lake)
    assert made is not None
    frames = {table.path: builds.read(lake, made, table) for table in TABLES}
    check_plan(FINDINGS, gold.TABLE_FUNCTIONS[FINDINGS](frames, Options()))


def test_kept_rows_can_be_read_twice() -> None:
    """Rows that the local engine keeps are not doubled by a join with themselves."""
    with started() as local:
        changes = commits.lag_changes(hot_group(local))
        plain, stored = (
            counted(rows(commits.running_lag(each)))
            for each in (changes, kept(changes))
        )
    assert stored == plain


def test_rows_with_a_name() -> None:
    """They are the same rows; the session forgets the name."""
    with started() as local:
        changes = hot_group(local)["silver/commits"]
        with engine_of(local).named(changes) as named:
            assert counted(rows(named)) == counted(rows(changes))
            assert len(local.catalog.listTables()) == 1
        assert local.catalog.listTables() == []
