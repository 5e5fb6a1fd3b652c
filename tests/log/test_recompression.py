"""Topics with their own codec, ``compression.type``."""

from __future__ import annotations

import pytest
from tests.log.scene import EVERYTHING, NOW
from tests.wire.malformed_batches import batch, compressed, record

from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LOG_APPEND_TIME, LogConfig
from kohort.broker.log.validation import UnreadBatch
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

SOME = [
    Record(0, NOW, b"k", b"v"),
    Record(0, NOW + 50, None, b"v" * 70, (("h", b"1"), ("i", None))),
    Record(0, NOW - 9, b"", None),
    Record(0, NOW, b"long", b"v" * 600_000),
]


def stored(partition: Partition) -> bytes:
    """All bytes of a partition."""
    found = partition.read(0, EVERYTHING, minimum_one=True)
    return b"".join(found.buffers)


def contents(data: bytes) -> list[Record]:
    """The records of a batch."""
    return list(records.read_records(data))


@pytest.mark.parametrize("sent", range(5))
@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("level", [None, 1, 9])
def test_a_batch_gets_the_codec_of_the_topic(
    sent: int, codec: int, level: int | None
) -> None:
    """The records stay; a batch that has the codec already is unchanged."""
    config = LogConfig(compression_codec=codec, compression_level=level)
    partition = Partition("t-0", config)
    fields = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 5}
    data = build_batch(SOME, codec=sent, **fields)
    assert not partition.append(data, now_ms=NOW).error_code
    made = stored(partition)
    header = records.read_header(made)
    assert records.crc_of(made[records.CRC_START :]) == header.crc
    assert contents(made) == contents(data)
    assert (header.codec, header.max_timestamp) == (codec, NOW + 50)
    producer = header.producer_id, header.producer_epoch, header.base_sequence
    assert producer == (7, 2, 5)
    if sent == codec:
        assert made[16:] == data[16:]


def test_offsets_become_consecutive() -> None:
    """Kafka numbers the records of a batch that it rewrites."""
    odd = b"".join(record(delta, delta) for delta in (5, 3, 3))
    partition = Partition("t-0", LogConfig(compression_codec=0))
    data = batch(NOW, compressed(1, odd), attributes=1)
    assert not partition.append(data, now_ms=NOW).error_code
    found = contents(stored(partition))
    assert [(r.offset, r.timestamp_ms - NOW) for r in found] == [(0, 5), (1, 3), (2, 3)]
    assert records.read_header(stored(partition)).base_timestamp == NOW + 5


def test_a_batch_that_grows_too_large() -> None:
    """``max.message.bytes`` counts before and after, and the log start is unknown."""
    config = LogConfig(compression_codec=0, max_message_bytes=100_000)
    partition = Partition("t-0", config)
    result = partition.append(build_batch(SOME, codec=4), now_ms=NOW)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert result.log_start_offset == -1
    assert not stored(partition)


def test_append_time_of_another_codec() -> None:
    """The broker's time applies to all records, as without a codec."""
    config = LogConfig(compression_codec=3, message_timestamp_type=LOG_APPEND_TIME)
    partition = Partition("t-0", config)
    result = partition.append(build_batch(SOME), now_ms=NOW + 7)
    assert result.log_append_time_ms == NOW + 7
    assert {r.timestamp_ms for r in contents(stored(partition))} == {NOW + 7}


def test_a_large_batch_is_written_in_pieces() -> None:
    """Other requests have turns in between."""
    partition = Partition("t-0", LogConfig(compression_codec=1))
    data = build_batch([Record(0, NOW, b"k", b"v" * 30)] * 20_000)
    unread = partition.append_or_read(data, now_ms=NOW)
    assert isinstance(unread, UnreadBatch)
    assert sum(1 for _ in unread.read()) > 50
    result = partition.append_or_read(data, now_ms=NOW, read=unread)
    assert not isinstance(result, UnreadBatch)
    assert len(contents(stored(partition))) == 20_000
