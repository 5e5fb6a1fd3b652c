"""Readers of committed records drop exactly those of aborted transactions."""

from __future__ import annotations

from tests.exactly_once.reader import readable

from kohort.protocol import records
from kohort.protocol.apis.k01_fetch import AbortedTransaction
from kohort.protocol.markers import Marker, marker_batch
from kohort.protocol.records import Record


def log(*batches: str) -> bytes:
    """Batches of two records "3a", of producer 3, and markers "3+" and "3-"."""
    data, offset = b"", 0
    for producer, kind in map(tuple, batches):
        if kind in "+-":
            batch = marker_batch(Marker(kind == "+", 0), int(producer), 0, 0)
            batch = offset.to_bytes(8, "big") + batch[8:]
        else:
            batch = records.build_batch(
                [Record(value=kind.encode())] * 2,
                base_offset=offset,
                producer_id=int(producer),
                producer_epoch=0,
                base_sequence=0,
                attributes=records.TRANSACTIONAL if producer != "0" else 0,
            )
        data += batch
        offset += 1 if kind in "+-" else 2
    return data


def read(data: bytes, *aborted: tuple[int, int], position: int = 0) -> tuple[str, int]:
    """The values, and the next position."""
    rows, after = readable(data, position, [AbortedTransaction(*a) for a in aborted])
    return "".join(value.decode() for _, value in rows), after


def test_markers_are_no_records() -> None:
    """A transaction that is not in the list is returned whole, without its marker."""
    assert read(log("1a", "1b", "1+")) == ("aabb", 5)


def test_aborted_transactions_are_dropped() -> None:
    """From their first offset to their marker; others between them stay."""
    data = log("1a", "2b", "0c", "1d", "1-", "1e", "2f", "2-", "1+", "2g", "2+")
    assert read(data, (1, 0), (2, 2)) == ("cceegg", 18)
    assert read(data, (2, 2)) == ("aaccddeegg", 18)


def test_a_position_within_a_batch() -> None:
    """Earlier records of the batch were read before."""
    assert read(log("1a", "1b", "1+"), position=1) == ("abb", 5)
    assert read(log("1a", "1b", "1-"), (1, 0), position=1) == ("", 5)


def test_an_answer_without_records() -> None:
    """The position stays."""
    assert read(b"", position=7) == ("", 7)
