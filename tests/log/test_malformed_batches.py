"""Invalid batches, and Apache Kafka 4.3's answers to them.

`malformed_batches.json` has Kafka's answers: error code, log start offset, the
positions of refused records, whether there was a message, and, if Kafka changed the
largest timestamp of a batch, the new one, relative to the time of the request.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.scene import EVERYTHING, NOW
from tests.protocol.other_clients import module_of
from tests.wire.malformed_batches import CODECS, batch, compressed, malformed_batches

from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

memory_records = module_of("kafka.record.memory_records")

ANSWERS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("malformed_batches.json").read_text()
)
BATCHES = malformed_batches(NOW)

ONLY_JAVA = {"size beyond 32 bits", "delta beyond 32 bits"}
"""Java drops the upper bits of these varints; other clients do not."""
ONLY_HERE = {
    f"{codec}: {fault}"
    for codec in CODECS
    for fault in (
        "size too small",
        "size too large",
        "size 0",
        "size -1",
        "size beyond the batch",
        "size 2^31 - 1",
        *ONLY_JAVA,
    )
} | ONLY_JAVA
"""Kafka stores these, as it does not check the sizes of compressed records, and no
consumer can read them; kohort refuses them."""

BY_REQUEST = {"transactional", "transactional producer"}
"""Kafka refuses the request that had these, as it had no transactional id."""


def stored(partition: Partition) -> bytes:
    """All bytes of a partition."""
    found = partition.read(0, EVERYTHING, minimum_one=True)
    return b"".join(found.buffers)


@pytest.mark.parametrize("name", sorted(BATCHES.keys() - ONLY_HERE - BY_REQUEST))
def test_answers_as_kafka(name: str) -> None:
    """Code, log start offset, refused records, and the stored timestamp are Kafka's."""
    partition, answer = Partition("t-0"), ANSWERS[name]
    result = partition.append(BATCHES[name], now_ms=NOW)
    assert (result.error_code, result.log_start_offset) == (
        answer["code"],
        answer["start"],
    )
    errors = [position for position, _ in result.record_errors]
    assert errors == answer.get("errors", [])
    assert bool(result.error_message) == ("message" in answer)
    data = stored(partition)
    if answer["code"]:
        assert not data
        assert result.reason
        return
    sent = BATCHES[name]
    if "max" in answer:
        latest = -1 if answer["max"] == "none" else NOW + answer["max"]
        assert records.read_header(data).max_timestamp == latest
        assert data[records.HEADER_SIZE :] == sent[records.HEADER_SIZE : len(data)]
    else:
        assert data[16:] == sent[16 : len(data)]


@pytest.mark.parametrize("name", sorted(ONLY_HERE))
def test_batches_that_no_consumer_can_read(name: str) -> None:
    """Kafka stores them."""
    assert ANSWERS[name]["code"] == ErrorCode.NONE
    result = Partition("t-0").append(BATCHES[name], now_ms=NOW)
    assert result.error_code == ErrorCode.INVALID_RECORD


def test_each_malformed_batch_has_an_answer() -> None:
    """The recording and the list of batches match."""
    assert ANSWERS.keys() == BATCHES.keys()


def test_a_negative_timestamp_when_a_batch_is_written_anew() -> None:
    """Kafka's builder refuses it, and its exception has no code."""
    partition = Partition("t-0", LogConfig(compression_codec=4))
    result = partition.append(BATCHES["timestamp -2"], now_ms=NOW)
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


SOME = [
    Record(0, NOW, b"k", b"v"),
    Record(0, NOW + 5, None, b"v" * 70, (("h", b"1"), ("i", None))),
    Record(0, NOW - 9, b"", None),
    Record(0, NOW, b"key", b"v" * 9000),
]


@given(
    codec=st.integers(0, 4),
    count=st.integers(1, 5),
    cut=st.integers(0, 40),
    flips=st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 7)), min_size=0, max_size=3
    ),
    compresses_after=st.booleans(),
)
def test_accepted_batches_can_be_read(
    codec: int,
    count: int,
    cut: int,
    flips: list[tuple[int, int]],
    compresses_after: bool,
) -> None:
    """kafka-python reads what is stored, also after flipped bits or a missing end."""
    plain = build_batch(SOME)[records.HEADER_SIZE :]
    data = bytearray(plain if compresses_after else compressed(codec, plain))
    for position, bit in flips:
        data[position % len(data)] ^= 1 << bit
    data = data[: len(data) - cut]
    packed = compressed(codec, bytes(data)) if compresses_after else bytes(data)
    partition = Partition("t-0")
    result = partition.append(batch(NOW, packed, count, attributes=codec), now_ms=NOW)
    if result.error_code:
        assert not stored(partition)
        return
    read = memory_records.MemoryRecords(stored(partition))
    found = list(read.next_batch())
    assert len(found) == count
    assert read.next_batch() is None
