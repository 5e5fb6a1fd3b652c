"""Compaction of batches that have the same keys, as commits do."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from tests.log.test_compaction import Scene

from kohort.broker.log.repeated_keys import MOST_BYTES, RepeatedKeys
from kohort.protocol.records import Record, build_batch

KINDS = [
    (b"a", b"b"),
    (b"a", b"c"),
    (b"b", b"a"),
    (b"a", b"a"),
    (b"d",),
    (b"e" * 200, b"a"),
]
"""Keys of batches; some have the same size, and the same first key."""


def batch(*keys: bytes | None, value: bytes = b"1", base: int = 0) -> bytes:
    """A batch with these keys."""
    return build_batch([Record(base + i, 0, key, value) for i, key in enumerate(keys)])


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_record_of_each_key_stays(seed: int) -> None:
    """Cleans three times, with other batches repeated each time."""
    rng = random.Random(seed)
    scene = Scene()
    written: list[bytes] = []
    for kinds in (KINDS, rng.sample(KINDS, 2), KINDS[4:5]):
        for _ in range(rng.randrange(1, 60)):
            keys = rng.choice(kinds)
            scene.send(*[(key, rng.choice([b"1", b"2", None])) for key in keys])
            written += keys
        scene.clean(records_per_step=rng.choice([1, 7, 1000]))
        end = scene.first_dirty_offset
        newest = {key: offset for offset, key in enumerate(written[:end])}
        tail = range(end, len(written))
        assert scene.offsets() == [*sorted(newest.values()), *tail]


def found(repeated: RepeatedKeys, *batches: tuple[bytes, int]) -> Sequence[bool]:
    """Which of the batches are known."""
    return [repeated.find(data, count) is not None for data, count in batches]


def test_which_batches_are_known() -> None:
    """The second of a kind is known; another second key, or count, is not."""
    repeated = RepeatedKeys(bytes)
    same = batch(b"a", b"b"), 2
    other = batch(b"a", b"c"), 2
    assert found(repeated, same, same, other, same) == [False, True, False, True]
    later = batch(b"a", b"b", value=b"2"), 2
    assert found(repeated, later, (same[0], 1)) == [True, False]


def test_a_key_that_the_dirty_part_does_not_have() -> None:
    """Its newest record may be in this batch."""
    repeated = RepeatedKeys(bytes)
    data = batch(b"a", b"b")
    repeated.find(data, 2)
    known = repeated.find(data, 2)
    assert known is not None
    assert not known.is_superseded(0, {b"a": 9})


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (batch(b"a", None), 2),
        (batch(b"a", value=bytes(MOST_BYTES)), 1),
        (batch(b"a")[:-4], 1),
        (batch(b"a", b"b"), 3),
    ],
    ids=["no key", "long", "cut off", "fewer records"],
)
def test_batches_that_are_never_known(data: bytes, count: int) -> None:
    """Reading all of their records says what they are."""
    assert not any(found(RepeatedKeys(bytes), *[(data, count)] * 3))
