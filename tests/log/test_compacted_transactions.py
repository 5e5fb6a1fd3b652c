"""Transactions in a compacted log, as Apache Kafka's cleaner leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.storage import BATCH_BY_BATCH, Keeper
from tests.log.transacting import Scene

from kohort.protocol.records import read_header

HOUR = 3_600_000


@pytest.fixture(params=BATCH_BY_BATCH)
def keeper(request: pytest.FixtureRequest, root: Path) -> Iterator[Keeper]:
    """Only stores in which each batch can be cleaned."""
    made = Keeper(request.param, root)
    yield made
    made.close()


@pytest.fixture
def scene(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A log that is due for cleaning whenever it has grown."""
    monkeypatch.setattr(Scene, "keeper", keeper, raising=False)
    return Scene(
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=HOUR,
    )


def test_aborted_records_are_dropped(scene: Scene) -> None:
    """They replace no earlier ones of their keys."""
    scene.plain()
    scene.send(1, 2, key=b"k")
    scene.send(1, key=b"l")
    scene.abort(1)
    scene.plain()
    scene.now_ms += 1
    scene.send(2, key=b"x")
    scene.send(3, key=b"y")
    scene.commit(2)
    scene.commit(3)
    scene.clean()
    assert scene.offsets() == [4, 5, 6, 7, 8, 9]
    assert scene.committed() == [5, 6, 7]


def test_an_open_transaction_ends_the_cleaning(scene: Scene) -> None:
    """It goes up to the last stable offset."""
    scene.plain()
    scene.plain()
    scene.send(1, key=b"a")
    scene.plain()
    scene.plain()
    scene.clean()
    assert scene.offsets() == [1, 2, 3, 4]
    assert scene.partition.store.first_dirty_offset == 2
    scene.commit(1)
    scene.plain()
    scene.plain(key=b"z")
    scene.clean()
    assert scene.offsets() == [2, 5, 6, 7]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_outlives_its_records(scene: Scene, is_commit: bool) -> None:
    """It is dropped delete.retention.ms after the first cleaning without them."""
    scene.send(1)
    scene.mark(1, is_commit=is_commit)
    # Another transaction, so that the first one's batches are not the producer's last.
    scene.send(1)
    scene.mark(1, is_commit=is_commit)
    for _ in range(2):
        scene.plain()
    markers = []
    for wait_ms in (0, 0, 0, HOUR - 1, 1):
        scene.now_ms += wait_ms
        scene.plain()
        scene.clean()
        batches = scene.partition.batches(0)
        found = [read_header(batch) for batch in batches]
        markers.append([h.base_offset for h in found if h.is_control])
    assert markers == [[1, 3], [1, 3], [1, 3], [1, 3], [3]]


def test_the_index_loses_what_the_log_has_lost(scene: Scene) -> None:
    """A transaction without records is not listed any more."""
    scene.send(1)
    scene.abort(1)
    scene.send(1)
    scene.abort(1)
    assert scene.aborted() == [[1, 0], [1, 2]]
    scene.plain()
    scene.plain()
    scene.clean()
    assert scene.aborted() == [[1, 0], [1, 2]]
    scene.plain()
    scene.plain(key=b"z")
    scene.clean()
    # The last batch of the producer stays, without its record.
    assert scene.aborted() == [[1, 2]]
    assert scene.committed() == [6, 7]
