"""Files about transactions: the index of aborted ones, in Kafka's format."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from tests.log.life import NOW, Life

from kohort.broker.log.producers import Verification
from kohort.broker.log.transactions import EndMarker
from kohort.control.data_dir.verification import verify
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

FIRST = "00000000000000000000.txnindex"
Live = Callable[..., Life]


def transact(life: Life, producer: int, *, is_commit: bool) -> None:
    """A transaction of one record."""
    state = life.partition.producers.get(producer)
    batch = build_batch(
        [Record(0, NOW, b"k", bytes(10))],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0 if state is None else state.last_sequence + 1,
        attributes=TRANSACTIONAL,
    )
    found = life.partition.verify(batch, now_ms=NOW, adds=False)
    assert isinstance(found, Verification)
    assert not life.partition.append(batch, now_ms=NOW, verification=found).error_code
    end = EndMarker(producer, 0, is_commit, 0, 1)
    assert not life.partition.append_marker(end, now_ms=NOW).error_code


def aborted(life: Life) -> list[int]:
    """The first offset of each aborted transaction."""
    found = life.partition.read(0, 10**6, minimum_one=True, committed=True)
    return [each.first_offset for each in found.aborted or ()]


def test_the_index_is_that_of_kafka(live: Live) -> None:
    """Version, producer, first offset, marker, last stable offset; no file for none."""
    life = live()
    transact(life, 5, is_commit=True)
    life.stop()
    assert not (life.path / FIRST).exists()
    life.start()
    transact(life, 5, is_commit=False)
    life.stop()
    assert (life.path / FIRST).read_bytes() == struct.pack(">hqqqq", 0, 5, 2, 3, 4)


@pytest.mark.parametrize("segment_bytes", [200, 10**6])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="none"),
        pytest.param(b"\1" * 34, id="an entry"),
        pytest.param(b"half an entry", id="half an entry"),
    ],
)
def test_a_damaged_index_is_made_anew(
    live: Live, damage: bytes, segment_bytes: int
) -> None:
    """The batches have the same information; after a crash they are read anyway."""
    life = live(segment_bytes=segment_bytes)
    for _ in range(3):
        transact(life, 5, is_commit=False)
    assert aborted(life) == [0, 2, 4]
    life.stop()
    with (life.path / FIRST).open("ab") as file:
        file.write(damage)
    (report,) = verify(life.path.parent).partitions
    names = [finding.path.name for finding in report.findings]
    assert names == ([FIRST] if damage else [])
    life.start()
    assert aborted(life) == [0, 2, 4]
    life.stop()
    life.start()
    life.crash()
    life.start()
    assert aborted(life) == [0, 2, 4]
