"""Files about transactions: the index of aborted ones, in Kafka's format."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import pytest
from tests.log.life import Life
from tests.log.test_crash_points import Door
from tests.log.transacting import transact

from kohort.broker.log import files
from kohort.control.data_dir.verification import verify

FIRST = "00000000000000000000.txnindex"
Live = Callable[..., Life]


def aborted(life: Life) -> list[int]:
    """The first offset of each aborted transaction."""
    found = life.partition.read(0, 10**6, minimum_one=True, committed=True)
    return [each.first_offset for each in found.aborted or ()]


def test_the_index_is_that_of_kafka(live: Live) -> None:
    """Version, producer, first offset, marker, last stable offset; no file for none."""
    life = live()
    transact(life.partition, 5, is_commit=True)
    life.stop()
    assert not (life.path / FIRST).exists()
    life.start()
    transact(life.partition, 5, is_commit=False)
    life.stop()
    assert (life.path / FIRST).read_bytes() == struct.pack(">hqqqq", 0, 5, 2, 3, 4)


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "nothing": lambda data: data,
    "an entry more": lambda data: data + b"\1" * 34,
    "half an entry more": lambda data: data + b"half an entry",
    "an entry less": lambda data: data[:-34],
    "another producer": lambda data: data[:9] + b"\4" + data[10:],
    "empty": lambda _: b"",
    "missing": lambda _: None,
}


@pytest.mark.parametrize("segment_bytes", [200, 10**6])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_made_anew(
    live: Live, damage: str, segment_bytes: int
) -> None:
    """The batches have the same information; after a crash they are read anyway."""
    life = live(segment_bytes=segment_bytes)
    for _ in range(3):
        transact(life.partition, 5, is_commit=False)
    assert aborted(life) == [0, 2, 4]
    life.stop()
    path = life.path / FIRST
    damaged = DAMAGE[damage](path.read_bytes())
    path.unlink() if damaged is None else path.write_bytes(damaged)
    (report,) = verify(life.path.parent).partitions
    names = [finding.path.name for finding in report.findings]
    assert names == ([] if damage == "nothing" else [FIRST])
    life.start()
    assert aborted(life) == [0, 2, 4]
    life.stop()
    assert not verify(life.path.parent).partitions[0].findings
    life.start()
    life.crash()
    life.start()
    assert aborted(life) == [0, 2, 4]


def test_a_clean_stop_flushes_the_index_before_its_marker(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all records were flushed before: a power cut would lose the index."""
    life = live(flush_messages=1)
    transact(life.partition, 5, is_commit=False)
    flushed: list[int] = []

    class Watched(Door):
        def fdatasync(self, fd: int) -> None:
            os.fdatasync(fd)
            flushed.append(os.fstat(fd).st_ino)

    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Watched(lambda: None))
        life.stop()
    crcs = life.path / "aborted-index-checkpoint"
    marker = life.path.parent / ".kafka_cleanshutdown"
    order = [
        flushed.index(path.stat().st_ino) for path in (life.path / FIRST, crcs, marker)
    ]
    assert order == sorted(order)
