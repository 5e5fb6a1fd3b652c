"""Record batches, format 2 (KIP-98): headers, checks, reading and building.

A batch is 61 bytes of header and then its records, which are compressed as one piece if
a codec is set. Its CRC covers the bytes after the CRC: base offset and partition leader
epoch precede it, so a broker may set both in a batch and pass the rest on as it was
sent.

A broker reads records to validate them (`read_heads`, `record_survey`) and for lookups
by timestamp; it passes them on as bytes. Clients, tools and tests read them as a whole.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kohort.protocol import compression
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.record_heads import Heads, RecordHead
from kohort.protocol.record_rows import RecordRow, rows_of
from kohort.protocol.slotted import slotted
from kohort.protocol.varints import put_varint, wrapped

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and length; the length counts the bytes after them."""
CRC_START: Final = 21
"""Position of the attributes, the first bytes that the CRC covers."""
ATTRIBUTES_AT: Final = 22
"""Position of the second byte of the attributes, the only one in use."""
COUNT_AT: Final = 57
"""Position of the number of records."""
PLACE: Final = struct.Struct(">qii")
"""Base offset, length, partition leader epoch: the first bytes of a batch, which
a broker sets without a new CRC."""
OUTLINE: Final = struct.Struct(">qi4xb6xi8xq")
"""Base offset, length, magic, last offset delta, largest timestamp: enough to walk
through a file, in a third of the time of `read_header`."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

MAGIC: Final = 2
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

MAX_RECORDS: Final = 1_000_000
"""Records of a batch in Produce: the maximum of librdkafka's ``batch.num.messages``. A
Java producer, which has no limit, would have to put a million empty records into one
partition within its ``linger.ms``. A broker that reads them all is busy for a second, a
piece at a time."""

# The smallest length that any format allows, and the first bytes, up to the magic,
# without which a batch cannot be identified.
_SMALLEST_LENGTH = 14
_UP_TO_MAGIC = 17
_MAGIC_AT = 16
_CRC_AT = 17
_UP_TO_EPOCH = 51
_CORRUPT = ErrorCode.CORRUPT_MESSAGE
_MAX_TIMESTAMP_AT = 35
KEPT_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON
_START = struct.Struct(">qiib").unpack_from
_UNPACK = HEADER.unpack_from
_LENGTH = struct.Struct(">i").unpack_from
# The header in two parts: up to the CRC, and the part that the CRC covers.
_UNCOVERED = struct.Struct(">qiibI").pack
_COVERED = struct.Struct(">hiqqqhii").pack


@slotted
class BatchHeader:
    """The header of one batch, in wire order; times in ms since the epoch.

    `length` counts the bytes after itself; `crc` is the crc32c of those after it.
    """

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def codec(self) -> int:
        """Number of the compression codec; 5 to 7 do not exist."""
        return self.attributes & CODEC_MASK

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_log_append_time(self) -> bool:
        """True if all records have the time of their append."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction (KIP-98)."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the batch is a marker for brokers, not data (KIP-98)."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """True if the base timestamp is a delete horizon (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)


@slotted
class Record:
    """One record; key and value are None where they are null."""

    offset: int = 0
    timestamp_ms: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@slotted
class BatchError:
    """The reason for refusing a batch.

    Attributes:
        error_code: as Kafka's broker answers.
        reason: the error in words, for logs.
        on_wire: whether Kafka sends a message with this error code; for most it sends
            null.
    """

    error_code: int
    reason: str
    on_wire: bool = False


def advance_sequence(sequence: int, by: int) -> int:
    """The sequence `by` records later; 0 follows 2^31 - 1."""
    return (sequence + by) & MAX_SEQUENCE


@functools.cache
def crc32c() -> Callable[..., int]:
    """The function of the library's C extension.

    The package around it imports importlib.metadata, email and argparse, which takes
    longer than a broker's start and as much memory as its topics. It is loaded if the
    extension is not where it is today.
    """
    package = importlib.util.find_spec("crc32c")
    path = None if package is None else package.submodule_search_locations
    spec = importlib.machinery.PathFinder.find_spec("_crc32c", path)
    if spec is None or spec.loader is None:
        return importlib.import_module("crc32c").crc32c  # type: ignore[no-any-return]
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., int] = module.crc32c
    return found


def crc_of(data: Buffer, crc: int = 0) -> int:
    """The crc32c of the data; `crc` is that of the bytes before it."""
    return crc32c()(data, crc)


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`.

    Raises:
        WireError: there are fewer bytes than a header has.
    """
    try:
        return BatchHeader(*_UNPACK(data, position))
    except struct.error:
        left = len(data) - position
        raise WireError(f"{left} bytes are no batch header") from None


def read_headers(data: Buffer) -> Iterator[tuple[BatchHeader, int]]:
    """The batches in the records of a Fetch response: (header, position) each.

    An incomplete batch at the end is left out: Kafka fills a response up to its limit
    with part of one.

    Raises:
        WireError: an invalid length, or a batch of another format.
    """
    position, end = 0, len(data)
    while end - position >= _UP_TO_MAGIC:
        _, length, _, magic = _START(data, position)
        if magic != MAGIC or length + LOG_OVERHEAD < HEADER_SIZE:
            raise WireError(f"a batch of magic {magic}, length {length}")
        if position + length + LOG_OVERHEAD > end:
            return
        yield read_header(data, position), position
        position += length + LOG_OVERHEAD


def check_first(data: Buffer) -> BatchError | None:
    """Checks that the data of a partition in Produce can be read.

    Kafka's broker checks the first batch of each partition for transactions, before it
    does anything else: an error here refuses the whole request.

    Args:
        data: the records of one partition in the request.
    """
    size = _whole_batch(data, 0)
    if not isinstance(size, int):
        return BatchError(size.error_code, size.reason, True)
    return None


def is_transactional(data: Buffer) -> bool:
    """Returns whether the data begins with a transaction's batch."""
    return bool(
        len(data) > ATTRIBUTES_AT
        and data[ATTRIBUTES_AT] & TRANSACTIONAL
        and data[_MAGIC_AT] == MAGIC
        and _whole_batch(data, 0)
    )


def check_framing(data: Buffer, *, zstd: bool = True) -> BatchError | None:
    """Checks that the data of a partition in Produce is one whole batch.

    Kafka checks this before it uses the log. Bytes after the batch that are not a whole
    batch are ignored, as in Kafka, unless they cannot be the start of one.

    Args:
        data: the records of one partition in the request, after `check_first`.
        zstd: whether the version of Produce allows zstd, that is v7 (KIP-110).
    """
    size = _whole_batch(data, 0)
    if not isinstance(size, int):
        return size
    behind = _whole_batch(data, size) if 0 < size < len(data) else 0
    if not size:
        reason = f"no whole batch in {len(data)} bytes"
    elif data[_MAGIC_AT] != MAGIC:
        reason = "Produce takes magic 2 only"
    elif not zstd and data[ATTRIBUTES_AT] & CODEC_MASK > compression.ZSTD:
        # Only these versions read the codec here, and Kafka's lookup fails.
        return BatchError(ErrorCode.UNKNOWN_SERVER_ERROR, "the codec does not exist")
    elif not zstd and data[ATTRIBUTES_AT] & CODEC_MASK == compression.ZSTD:
        return BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later"
        )
    elif not isinstance(behind, int):
        return behind
    elif behind:
        reason = "more than one batch"
    elif size < HEADER_SIZE:
        # Kafka looks for a producer before it checks the size.
        lacks_producer = size < _UP_TO_EPOCH
        code = ErrorCode.UNKNOWN_SERVER_ERROR if lacks_producer else _CORRUPT
        return BatchError(code, f"a batch of {size} bytes")
    else:
        return None
    return BatchError(ErrorCode.INVALID_RECORD, reason)


def _whole_batch(data: Buffer, position: int) -> int | BatchError:
    """The size of the batch at `position`; 0 if it is incomplete."""
    left = len(data) - position
    if left >= _UP_TO_MAGIC:
        _, length, _, magic = _START(data, position)
    elif left >= LOG_OVERHEAD:
        (length,), magic = _LENGTH(data, position + 8), MAGIC
    else:
        return 0
    if length < _SMALLEST_LENGTH:
        return BatchError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length}")
    if not 0 <= magic <= MAGIC:
        return BatchError(ErrorCode.CORRUPT_MESSAGE, f"a batch of magic {magic}")
    return length + LOG_OVERHEAD if left >= length + LOG_OVERHEAD else 0


def check_batch(
    header: BatchHeader, batch: Buffer, max_message_bytes: int
) -> BatchError | None:
    """Checks a client's batch as Kafka's log does before appending, in its order.

    Args:
        header: the batch's header.
        batch: exactly the batch, after `check_framing`.
        max_message_bytes: ``max.message.bytes`` of the topic.
    """
    size = header.length + LOG_OVERHEAD
    if header.base_offset:
        return BatchError(
            ErrorCode.INVALID_RECORD, f"base offset {header.base_offset}, not 0"
        )
    if size > max_message_bytes:
        return BatchError(
            ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes of {max_message_bytes}"
        )
    if crc32c()(memoryview(batch)[CRC_START:]) != header.crc:
        return BatchError(ErrorCode.CORRUPT_MESSAGE, f"CRC is not {header.crc:#x}")
    return _check_fields(header)


def _check_fields(header: BatchHeader) -> BatchError | None:
    count, attributes = header.record_count, header.attributes
    if attributes & CODEC_MASK > compression.ZSTD:
        # The exception that Kafka throws here has no code.
        return BatchError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"codec {attributes & CODEC_MASK}"
        )
    if count <= 0 or count != header.last_offset_delta + 1:
        return BatchError(
            ErrorCode.INVALID_RECORD,
            f"{count} records, last offset delta {header.last_offset_delta}",
        )
    if count > MAX_RECORDS:
        # A Java producer splits the batch after this code, and sends it again.
        return BatchError(
            ErrorCode.MESSAGE_TOO_LARGE, f"{count} records of {MAX_RECORDS}"
        )
    if attributes & CONTROL:
        return BatchError(ErrorCode.INVALID_RECORD, "control records of a client")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        return BatchError(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id}, sequence {header.base_sequence}",
        )
    return None


def with_timestamps(
    batch: Buffer, *, is_append_time: bool, max_timestamp: int
) -> bytes:
    """The first 61 bytes of a batch with another timestamp type, and its CRC.

    Only the type and the largest timestamp change, as in Kafka: if the type is
    LogAppendTime, readers use the largest for every record.

    Args:
        batch: exactly the batch.
        is_append_time: whether the type is LogAppendTime.
        max_timestamp: the largest timestamp.
    """
    # Kafka drops unknown attributes when it writes new ones.
    attributes = batch[ATTRIBUTES_AT] & KEPT_ATTRIBUTES
    if is_append_time:
        attributes |= LOG_APPEND_TIME
    made = bytearray(batch[:HEADER_SIZE])
    struct.pack_into(">h", made, CRC_START, attributes)
    struct.pack_into(">q", made, _MAX_TIMESTAMP_AT, max_timestamp)
    crc = crc_of(memoryview(batch)[HEADER_SIZE:], crc_of(made[CRC_START:]))
    struct.pack_into(">I", made, _CRC_AT, crc)
    return bytes(made)


def read_records(
    data: Buffer, position: int = 0, *, limit: int = compression.LIMIT
) -> Iterator[Record]:
    """The records of the batch at `position`; see `read_rows`."""
    rows = read_rows(data, position, limit=limit)
    return (Record(*row) for some in rows for row in some)


def read_rows(
    data: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    limit: int = compression.LIMIT,
) -> Iterator[list[RecordRow]]:
    """The records of the batch at `position`, some at a time, never an empty list.

    Args:
        data: a buffer that contains the whole batch.
        position: start of the batch.
        header: of the batch, if it was read before.
        limit: maximum bytes of its records, decompressed.

    Raises:
        WireError: the batch is damaged. Records before the damage are returned.
    """
    if header is None:
        header = read_header(data, position)
    size = header.size
    end = position + size
    if header.magic != MAGIC or size < HEADER_SIZE or end > len(data):
        raise WireError(f"no whole batch of {size} bytes at {position}")
    packed = memoryview(data)[position + HEADER_SIZE : end]
    records = compression.decompress(header.codec, packed, limit=limit)
    append_time = header.max_timestamp if header.is_log_append_time else None
    return rows_of(
        records,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        append_time,
    )


def read_heads(
    batch: Buffer, *, limit: int = compression.LIMIT
) -> Iterator[list[RecordHead]]:
    """The heads of the records of a batch, some at a time.

    Other tasks may run in between: each step decompresses and reads little. A list may
    be empty.

    Args:
        batch: the whole batch.
        limit: maximum bytes of its records, decompressed.

    Raises:
        WireError: the batch is damaged, a `TooLargeError` if it decompresses to more.
            Records before the damage are returned.
    """
    header = read_header(batch)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(batch):
        raise WireError(f"no whole batch of {header.size} bytes")
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    heads = Heads(
        compression.decompress_in_pieces(header.codec, packed, limit=limit),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
    )
    append_time = header.max_timestamp
    for some in heads.read():
        if header.is_log_append_time:
            yield [(offset, append_time, has_key) for offset, _, has_key in some]
        else:
            yield some


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # -1 as a zigzag varint
    else:
        put_varint(out, len(data))
        out += data


def _put_record(out: bytearray, record: Record, position: int, delta_ms: int) -> None:
    body = bytearray(1)
    put_varint(body, delta_ms)
    put_varint(body, position)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, name.encode())
        _put_bytes(body, value)
    put_varint(out, len(body))
    out += body


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = compression.NONE,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Builds a batch of these records, in this order.

    Records get offsets from `base_offset` on; their previous offsets are ignored.

    Args:
        records: at least one.
        codec: 0 to 4.
        base_offset: 0 in Produce.
        producer_id: of an idempotent producer, with its epoch and the sequence of the
            first record.
        producer_epoch: see `producer_id`.
        base_sequence: see `producer_id`.
        attributes: flags in addition to the codec, for example `TRANSACTIONAL`.
        partition_leader_epoch: -1 in Produce.

    Raises:
        WireError: no records, or an unknown codec.
    """
    if not records:
        raise WireError("a batch without records")
    base_timestamp = records[0].timestamp_ms
    body = bytearray()
    for position, record in enumerate(records):
        delta_ms = wrapped(record.timestamp_ms - base_timestamp)
        _put_record(body, record, position, delta_ms)
    fields = (
        attributes & ~CODEC_MASK | codec,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp_ms for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    packed = compression.compress(codec, bytes(body))
    return sealed(base_offset, partition_leader_epoch, fields, packed)


def sealed(
    base_offset: int, leader_epoch: int, fields: tuple[int, ...], packed: bytes
) -> bytes:
    """Builds a batch from the fields that its CRC covers, and its records."""
    covered = _COVERED(*fields) + packed
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    crc = crc_of(covered)
    return _UNCOVERED(base_offset, length, leader_epoch, MAGIC, crc) + covered
