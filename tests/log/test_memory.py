"""The store in memory: batches that it keeps, copies and joins."""

from __future__ import annotations

import pytest

from kohort.broker.log.memory import JOIN_BELOW, LONG_BATCH, BatchStore, packed
from kohort.protocol.records import Record, build_batch

HEAD = b"H" * 16


def batch(size: int) -> memoryview:
    """A view of this many bytes, in its own buffer."""
    return memoryview(bytes(size))


def test_short_batches_are_copied() -> None:
    """A short batch does not keep its received buffer alive."""
    kept = packed(HEAD, batch(LONG_BATCH - 1))
    assert kept == HEAD + bytes(LONG_BATCH - 17)


def test_long_batches_are_not_copied() -> None:
    """A long batch stays in its buffer, behind its new first bytes."""
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
    """The owner of a bytearray may change it."""
    buffer = bytearray(LONG_BATCH)
    kept = packed(HEAD, memoryview(buffer))
    buffer[:] = b"x" * LONG_BATCH
    assert kept == HEAD + bytes(LONG_BATCH - 16)


def test_a_read_only_view_is_not_copied() -> None:
    """Its owner promises not to change the bytes."""
    view = memoryview(bytearray(LONG_BATCH)).toreadonly()
    kept = packed(HEAD, view)
    assert isinstance(kept, tuple)
    assert kept[1].obj is view.obj


def test_many_small_batches_are_handed_out_as_one_buffer() -> None:
    """For a small mean size, a copy is cheaper than one more buffer on a socket."""
    store = BatchStore()
    for offset in range(100):
        store.append(b"%3d" % offset, offset, offset, 0, 0)
    buffers, size = store.read(5, 30, minimum_one=False)
    assert (buffers, size) == ((b"  5  6  7  8  9 10 11 12 13 14",), 30)


def test_larger_batches_are_handed_out_as_they_are() -> None:
    """Above that size, reading copies nothing."""
    store = BatchStore()
    kept = [bytes(JOIN_BELOW), bytes(JOIN_BELOW)]
    for offset, one in enumerate(kept):
        store.append(one, offset, offset, 0, 0)
    buffers, _ = store.read(0, 10**6, minimum_one=False)
    assert [id(b) for b in buffers] == [id(b) for b in kept]


def test_long_and_short_batches_together() -> None:
    """A long batch has two buffers, in order, and none is lost when it is dropped."""
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
    ("max_bytes", "minimum_one", "expected"),
    [
        (0, False, 0),
        (9, False, 0),
        (9, True, 10),
        (0, True, 10),
        (10, False, 10),
        (11, False, 11),
        (29, True, 29),
        (30, True, 30),
        (99, True, 60),
    ],
)
def test_batches_up_to_a_limit(
    max_bytes: int, minimum_one: bool, expected: int
) -> None:
    """The last one is cut off; the first one is whole, or missing."""
    store = BatchStore()
    for offset in range(10):
        store.append(bytes(10), offset, offset, 0, 0)
    _, size = store.read(4, max_bytes, minimum_one=minimum_one)
    assert size == expected


def stored(base_offset: int, count: int = 1, time: int = 5) -> bytes:
    """A batch with records, as a partition stores it."""
    some = [Record(0, time, b"k", b"v")] * count
    return build_batch(some, base_offset=base_offset)


def with_gaps() -> tuple[BatchStore, list[bytes]]:
    """Batches at 10 to 12, 20, and 30 to 31, in a log that starts at 0."""
    store = BatchStore()
    made = [stored(10, 3), stored(20), stored(30, 2)]
    for batch, first, last in zip(made, (10, 20, 30), (12, 20, 31), strict=True):
        store.append(batch, first, last, 5, 5)
    return store, made


@pytest.mark.parametrize(
    ("offset", "first"),
    [(0, 0), (9, 0), (10, 0), (12, 0), (13, 1), (20, 1), (21, 2), (29, 2), (31, 2)],
)
def test_what_follows_a_gap_is_found_from_within(offset: int, first: int) -> None:
    """Finds the batch with an offset, or the first one after it."""
    store, made = with_gaps()
    assert store.read(offset, 0, minimum_one=True)[0] == made[first : first + 1]
    assert list(store.batches(offset, 100)) == made[first:]
    assert store.size_before(offset) == sum(map(len, made[:first]))
    assert list(store.since(5, offset)) == made[first:]
    store.drop_before(offset, 32)
    assert list(store.batches(0, 100)) == made[first:]
    assert store.size_in_bytes == sum(map(len, made[first:]))


@pytest.mark.parametrize(
    ("end", "count"), [(10, 0), (11, 1), (13, 1), (20, 1), (21, 2), (30, 2), (31, 3)]
)
def test_batches_begin_before_the_end_that_is_asked_for(end: int, count: int) -> None:
    """A gap before the end does not add a batch."""
    store, made = with_gaps()
    assert list(store.batches(0, end)) == made[:count]


def test_batches_may_come_and_go_while_they_are_read() -> None:
    """Dropped batches do not shift the others."""
    store, made = with_gaps()
    found = store.batches(0, 100)
    assert next(found) == made[0]
    store.drop_before(20, 32)
    assert next(found) == made[1]
    store.append(stored(40), 40, 40, 5, 5)
    assert next(found) == made[2]
    store.drop_before(41, 41)
    assert list(found) == []


def test_retention_starts_the_log_behind_what_goes() -> None:
    """Also if there is a gap before the first remaining batch."""
    store = BatchStore()
    for offset, time in ((10, 1), (20, 2), (30, 3)):
        store.append(stored(offset, time=time), offset, offset, time, time)
    assert store.first_offset_younger(1, 31) == 0
    assert store.first_offset_younger(2, 31) == 11
    assert store.first_offset_younger(4, 31) == 31
    store.drop_before(11, 31)
    assert store.first_offset_younger(2, 31) == 11
    assert store.first_offset_within(len(stored(30)), 31) == 21


def test_a_replacement_is_swapped_in_at_once() -> None:
    """Sizes and times follow; later batches keep their place, also long ones."""
    store = BatchStore()
    view = batch(LONG_BATCH)
    for offset, now_ms in ((0, 7), (1, 8), (2, 9)):
        store.append(stored(offset, time=-1), offset, offset, -1, now_ms)
    store.append(packed(HEAD, view), 3, 3, 5, 10)
    store.append(stored(4), 4, 4, 20, 11)
    end = store.cleanable_end(0, 100, 0)
    assert end == 4
    before = store.size_in_bytes
    made = store.replacement(end)
    made.add(stored(1, time=-1))
    assert (len(store), store.size_in_bytes) == (5, before)
    made.abort()

    made = store.replacement(end)
    made.add(stored(1, time=-1))
    store.append(stored(5), 5, 5, 20, 12)
    made.commit()
    kept = [stored(1, time=-1), stored(4), stored(5)]
    assert list(store.batches(0, 100)) == kept
    assert store.size_in_bytes == sum(map(len, kept))
    together = b"".join(kept)
    assert store.read(0, 10**6, minimum_one=True) == ((together,), len(together))
    # Without a timestamp, a batch has the time of its append.
    assert store.first_offset_younger(8, 6) == 0
    assert store.first_offset_younger(9, 6) == 2


def test_the_newest_batch_is_not_cleanable() -> None:
    """Like Kafka's active segment; nothing younger than the lag is cleanable."""
    store = BatchStore()
    assert store.cleanable_end(0, 100, 0) == 0
    for offset, time in ((0, 50), (1, 40), (2, 60), (3, 30)):
        store.append(stored(offset), offset, offset, time, 100)
    assert store.cleanable_end(0, 100, 0) == 3
    assert store.cleanable_end(0, 100, 50) == 2
    assert store.cleanable_end(0, 100, 51) == 0
    assert store.cleanable_end(1, 100, 51) == 2
    assert store.cleanable_end(3, 100, 100) == 3


def test_the_end_of_the_log_at_a_time() -> None:
    """Just before and just after a millisecond, also of dropped batches."""
    store = BatchStore()
    for number, now_ms in enumerate((10, 20, 20, 30)):
        store.append(b"-", number, number, now_ms, now_ms)
    times = (5, 10, 15, 20, 30, 99)
    found = [store.ends_at(now_ms) for now_ms in times]
    assert found == [(0, 0), (0, 1), (1, 1), (1, 3), (3, 4), (4, 4)]
    store.drop_before(2, 4)
    found = [store.ends_at(now_ms) for now_ms in times]
    assert found == [(2, 2), (2, 2), (2, 2), (2, 3), (3, 4), (4, 4)]
