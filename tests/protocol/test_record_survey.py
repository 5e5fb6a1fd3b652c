"""The quick look at the records of a batch, compared with the thorough one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kohort.protocol import records
from kohort.protocol.messages import WireError
from kohort.protocol.record_heads import Heads
from kohort.protocol.record_survey import SOME, Survey
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000


def surveyed(batch: bytes, count: int) -> tuple[int, int, bool] | None:
    """First and last time, and whether all have keys; None for anything unusual."""
    survey = Survey(memoryview(batch)[records.HEADER_SIZE :], count)
    while survey.read_some():
        if survey.is_done:
            return survey.earliest, survey.latest, survey.has_keys
    return None


def thorough(batch: bytes, count: int) -> tuple[int, int, bool] | None:
    """The same facts from the heads of the records."""
    heads = Heads(iter([batch[records.HEADER_SIZE :]]), count, 0, 0)
    try:
        found = [head for some in heads.read() for head in some]
    except WireError:
        return None
    times = [time for _, time, _ in found]
    return min(times), max(times), all(has_key for _, _, has_key in found)


def of_one_size(count: int, **fields: object) -> list[Record]:
    """Records that form runs."""
    made = {"key": b"k", "value": b"v" * 70, **fields}
    return [Record(0, NOW + at // 3, **made) for at in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2, 9, 64, 65, 200, SOME, 3 * SOME])
@pytest.mark.parametrize(
    "headers", [(), (("h", b"1"), ("i", None)), (("h", b""),) * 40]
)
@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_records_of_one_size(
    count: int, headers: tuple[tuple[str, bytes | None], ...], key: bytes | None
) -> None:
    """A run ends where an offset or a time has more bytes."""
    batch = build_batch(of_one_size(count, headers=headers, key=key))
    expected = (0, (count - 1) // 3, key is not None)
    assert surveyed(batch, count) == thorough(batch, count) == expected


@pytest.mark.parametrize("odd", range(0, 60, 7))
@pytest.mark.parametrize(
    "fields", [{"key": None}, {"value": None}, {"timestamp_ms": NOW - 7}, {"key": b""}]
)
def test_one_record_that_differs(odd: int, fields: dict[str, object]) -> None:
    """A run ends before it, and another one begins after it."""
    some = of_one_size(60)
    made = {"timestamp_ms": NOW, "key": b"k", "value": b"v" * 70, **fields}
    some[odd] = Record(0, **made)  # type: ignore[arg-type]
    batch = build_batch(some)
    assert surveyed(batch, 60) == thorough(batch, 60) is not None


@given(
    some=st.lists(
        st.builds(
            Record,
            st.just(0),
            st.integers(-1, 2**62) | st.integers(NOW, NOW + 9000),
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=200),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_records(some: list[Record]) -> None:
    """The quick look agrees with the thorough one, or finds something unusual."""
    batch = build_batch(some)
    found = surveyed(batch, len(some))
    assert found in (None, thorough(batch, len(some)))


@example([(0, 0)], 40, None)
@given(
    flips=st.lists(
        st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=3
    ),
    count=st.integers(38, 42),
    key=st.sampled_from([None, b"k"]),
)
def test_damaged_records(
    flips: list[tuple[int, int]], count: int, key: bytes | None
) -> None:
    """It never accepts records that the thorough look refuses."""
    batch = bytearray(build_batch(of_one_size(40, key=key, value=b"v" * 3)))
    for position, bit in flips:
        at = records.HEADER_SIZE + position % (len(batch) - records.HEADER_SIZE)
        batch[at] ^= 1 << bit
    found = surveyed(bytes(batch), count)
    assert found in (None, thorough(bytes(batch), count))
