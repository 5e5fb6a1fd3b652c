"""Power cuts, in their short form, and a proof that they can detect losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.storage import temporary_folder
from tests.power import batches
from tests.power.disk import Kind
from tests.power.run import Run, Settings

from kohort.protocol.records import Record, build_batch, read_records

LIFE = 30
"""Cuts in one life of a broker."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for images."""
    with temporary_folder() as path:
        yield Path(path)


@pytest.mark.parametrize(
    ("kind", "flushes_all"), [("journal", False), ("folders", True)]
)
def test_power_cuts(folder: Path, kind: Kind, flushes_all: bool) -> None:
    """No data that the disk had to keep is lost, and each directory opens."""
    report = Run(Settings(7, LIFE, kind, flushes_all, folder), lambda _: None).play()
    assert report.failures == []
    assert report.cuts == LIFE
    assert report.records > LIFE


def test_a_disk_that_forgets_is_found(folder: Path) -> None:
    """If the disk ignores syncs, lost acknowledged records are detected."""
    settings = Settings(7, LIFE, "journal", True, folder, ignores_syncs=True)
    report = Run(settings, lambda _: None).play()
    assert len(report.failures) > LIFE // 2


def test_batches_are_kafkas() -> None:
    """The test and kohort read each other's batches."""
    data = batches.written([(b"k", b"v"), (b"gone", None)], 5, 9, 70)
    found = [(r.offset, r.key, r.value) for r in read_records(data)]
    assert found == [(0, b"k", b"v"), (1, b"gone", None)]
    built = build_batch([Record(0, 5, b"k", b"v" * 200), Record(1, 6, b"l", None)])
    (batch,) = batches.read(built)
    assert (batch.first, batch.last) == (0, 1)
    assert batch.records == [(0, b"k", b"v" * 200), (1, b"l", None)]
    with pytest.raises(batches.BatchError):
        list(batches.read(built[:-1] + b"x"))
