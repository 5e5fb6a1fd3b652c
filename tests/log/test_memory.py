"""The store of batches: what it keeps, what it copies, what it joins."""

from __future__ import annotations

import pytest

from kohort.broker.log.memory import JOIN_BELOW, LONG_BATCH, BatchStore, packed

HEAD = b"H" * 16


def batch(size: int) -> memoryview:
    """A view of as many bytes, in a buffer of its own."""
    return memoryview(bytes(size))


def test_short_batches_are_copied() -> None:
    """A short batch does not keep the buffer alive that it arrived in."""
    kept = packed(HEAD, batch(LONG_BATCH - 1))
    assert kept == HEAD + bytes(LONG_BATCH - 17)


def test_long_batches_are_not_copied() -> None:
    """A long batch stays where it is, behind its new first bytes."""
    view = batch(LONG_BATCH)
    kept = packed(HEAD, view)
    assert isinstance(kept, tuple)
    head, rest = kept
    assert head == HEAD
    assert rest.obj is view.obj
    assert len(rest) == LONG_BATCH - 16


def test_a_small_part_of_a_large_buffer_is_copied() -> None:
    """No batch keeps more than twice its size alive."""
    buffer = memoryview(bytes(2 * LONG_BATCH + 1))
    assert isinstance(packed(HEAD, buffer[:LONG_BATCH]), bytes)
    assert isinstance(packed(HEAD, buffer[: LONG_BATCH + 1]), tuple)


def test_a_buffer_that_may_change_is_copied() -> None:
    """A bytearray belongs to somebody else, who may write to it."""
    buffer = bytearray(LONG_BATCH)
    kept = packed(HEAD, memoryview(buffer))
    buffer[:] = b"x" * LONG_BATCH
    assert kept == HEAD + bytes(LONG_BATCH - 16)


def test_many_small_batches_are_handed_out_as_one_buffer() -> None:
    """Below a mean size, a copy is cheaper than one more buffer on a socket."""
    store = BatchStore()
    for offset in range(100):
        store.append(b"%3d" % offset, offset, offset, 0, 0)
    buffers, size = store.read(5, 30, minimum_one=False)
    assert (buffers, size) == ((b"  5  6  7  8  9 10 11 12 13 14",), 30)


def test_larger_batches_are_handed_out_as_they_are() -> None:
    """Reading copies nothing from there on."""
    store = BatchStore()
    kept = [bytes(JOIN_BELOW), bytes(JOIN_BELOW)]
    for offset, one in enumerate(kept):
        store.append(one, offset, offset, 0, 0)
    buffers, _ = store.read(0, 10**6, minimum_one=False)
    assert [id(b) for b in buffers] == [id(b) for b in kept]


def test_long_and_short_batches_together() -> None:
    """Two buffers for a long batch, in order, and none lost when it is dropped."""
    store = BatchStore()
    view = batch(LONG_BATCH)
    store.append(b"one", 0, 0, 0, 0)
    store.append(packed(HEAD, view), 1, 1, 0, 0)
    store.append(b"two", 2, 2, 0, 0)
    buffers, size = store.read(0, 10**6, minimum_one=False)
    assert [len(b) for b in buffers] == [3, 16, LONG_BATCH - 16, 3]
    assert size == store.size_in_bytes == LONG_BATCH + 6
    assert store.batch(1) == HEAD + bytes(LONG_BATCH - 16)
    store.drop_before(2, 3)
    assert len(store) == 1
    store.append(b"three", 3, 3, 0, 0)
    assert store.read(2, 10**6, minimum_one=False) == ((b"twothree",), 8)


@pytest.mark.parametrize(
    ("max_bytes", "minimum_one", "count"),
    [
        (0, False, 0),
        (9, False, 0),
        (9, True, 1),
        (0, True, 1),
        (10, False, 1),
        (29, True, 2),
        (30, True, 3),
        (-1, True, 1),
        (-1, False, 0),
    ],
)
def test_whole_batches_up_to_a_limit(
    max_bytes: int, minimum_one: bool, count: int
) -> None:
    """Never part of a batch; the first one in any case, if that is asked for."""
    store = BatchStore()
    for offset in range(10):
        store.append(bytes(10), offset, offset, 0, 0)
    _, size = store.read(4, max_bytes, minimum_one=minimum_one)
    assert size == 10 * count
