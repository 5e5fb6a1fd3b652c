"""The records of ``__consumer_offsets``, as Apache Kafka 4.3 writes and reads them.

A key starts with an int16 that says of what type the record is, a value with an
int16 version; a null value is a tombstone. Types 0 and 1 are committed offsets,
2 is a group of the classic protocol; the others belong to consumer, share and
streams groups (KIP-848, KIP-932, KIP-1071), and are told apart, but not read.

Kafka 4.3 writes an offset in version 4, the first flexible one, with the id of
its topic; in version 1 where the commit brought a retention time, which no other
version has; and a group in version 3, the last one that is not flexible.

The declarations hold for all versions. Committed offsets come by the million
when a log is loaded, and on each commit when it is written: for the form that
they nearly always have, version 4 without metadata, there is a path by hand.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final, Generic, TypeVar

from kohort.protocol import compression, records
from kohort.protocol.messages import (
    ZERO_UUID,
    Buffer,
    Bytes,
    Codec,
    Int32,
    Int64,
    String,
    Uuid,
    V,
    WireError,
    codec,
    slotted,
)
from kohort.protocol.record_rows import bytes_at, varint_at

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2

RECORD_TYPES: Final = {
    0: "LEGACY_OFFSET_COMMIT",
    1: "OFFSET_COMMIT",
    2: "GROUP_METADATA",
    3: "CONSUMER_GROUP_METADATA",
    4: "CONSUMER_GROUP_PARTITION_METADATA",
    5: "CONSUMER_GROUP_MEMBER_METADATA",
    6: "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA",
    7: "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER",
    8: "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    10: "SHARE_GROUP_MEMBER_METADATA",
    11: "SHARE_GROUP_METADATA",
    12: "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA",
    13: "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER",
    14: "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    15: "SHARE_GROUP_STATE_PARTITION_METADATA",
    16: "CONSUMER_GROUP_REGULAR_EXPRESSION",
    17: "STREAMS_GROUP_METADATA",
    19: "STREAMS_GROUP_MEMBER_METADATA",
    20: "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA",
    21: "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER",
    22: "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    23: "STREAMS_GROUP_TOPOLOGY",
}
"""Kafka's names of the types, by the number that a key starts with."""

GROUP_TYPES: Final = {3: "consumer", 11: "share", 17: "streams"}
"""The record that stands for a group of another protocol, and that protocol."""

NEWEST_VALUE: Final = 4
FIRST_FLEXIBLE: Final = 4
OFFSET_COMMIT_VALUE: Final = 4
OFFSET_COMMIT_VALUE_WITH_EXPIRY: Final = 1
GROUP_METADATA_VALUE: Final = 3


@slotted
class OffsetCommitKey:
    """The key of types 0 and 1."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@slotted
class OffsetCommitValue:
    """A committed offset; times in ms since the epoch.

    `expire_timestamp` is when it is to go, where the commit said so; else -1.
    """

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, V(3)] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, V(1, 1)] = -1
    topic_id: Annotated[Uuid, V(4, tag=0)] = ZERO_UUID


@slotted
class GroupMetadataKey:
    """The key of type 2."""

    group: String = ""


@slotted
class MemberMetadata:
    """One member; timeouts in ms. `rebalance_timeout` -1 means the session's."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, V(3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, V(1)] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@slotted
class GroupMetadataValue:
    """A group; `current_state_timestamp` in ms since the epoch, -1 if unknown."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = None
    leader: String | None = None
    current_state_timestamp: Annotated[Int64, V(2)] = -1
    members: Sequence[MemberMetadata] = ()


@slotted
class OtherKey:
    """The key of a record that is not of the classic protocol.

    `group` is None where the type is one that Kafka 4.3 does not know either.
    """

    type: int
    group: str | None


Key = OffsetCommitKey | GroupMetadataKey | OtherKey
Value = OffsetCommitValue | GroupMetadataValue

_VERSION = struct.Struct(">h")
_LONGEST = 0x7FFF
"""Bytes of a text that readers accept, compact ones included."""


# -- keys and values, one by one


def decode_key(data: bytes) -> Key:
    """The key of a record.

    Raises:
        WireError: the bytes are none. A type that nobody knows is no error.
    """
    if len(data) < 2:
        raise WireError(f"a key of {len(data)} bytes")
    (number,) = _VERSION.unpack_from(data)
    if number in {LEGACY_OFFSET_COMMIT, OFFSET_COMMIT}:
        return _decoded(OffsetCommitKey, _codec(OffsetCommitKey, 0), data)
    if number == GROUP_METADATA:
        return _decoded(GroupMetadataKey, _codec(GroupMetadataKey, 0), data)
    if number not in RECORD_TYPES:
        return OtherKey(number, None)
    # All of them begin with their group's id.
    group, _ = _codec(GroupMetadataKey, 0).decode(data, 2, len(data))
    return OtherKey(number, group.group)


def decode_offset_commit(data: bytes) -> OffsetCommitValue:
    """The value of types 0 and 1, in any version.

    Raises:
        WireError: the bytes are none.
    """
    return _decoded_value(OffsetCommitValue, data)


def decode_group_metadata(data: bytes) -> GroupMetadataValue:
    """The value of type 2, in any version.

    Raises:
        WireError: the bytes are none.
    """
    return _decoded_value(GroupMetadataValue, data)


def encode_key(key: OffsetCommitKey | GroupMetadataKey) -> bytes:
    """The bytes of a key, as Kafka 4.3 writes it.

    Raises:
        WireError: a name is too long for the format.
    """
    is_offset = isinstance(key, OffsetCommitKey)
    number = OFFSET_COMMIT if is_offset else GROUP_METADATA
    return _VERSION.pack(number) + _encoded(_codec(type(key), 0), key)


def encode_value(value: Value, version: int) -> bytes:
    """The bytes of a value, version first.

    Raises:
        WireError: a text is too long for the format.
    """
    return _VERSION.pack(version) + _encoded(_codec(type(value), version), value)


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """What `encode_key` makes of an `OffsetCommitKey`, faster.

    Raises:
        WireError: a name is too long for the format.
    """
    group_data, topic_data = group.encode(), topic.encode()
    try:
        head = _KEY_HEAD(OFFSET_COMMIT, len(group_data))
        size = _VERSION.pack(len(topic_data))
        return head + group_data + size + topic_data + _INT32.pack(partition)
    except struct.error:
        names = f"{len(group_data)} and {len(topic_data)} bytes"
        raise WireError(f"group and topic of {names}") from None


def offset_value(
    offset: int, leader_epoch: int, metadata: str, time_ms: int, tail: bytes
) -> bytes:
    """What `encode_value` makes of an `OffsetCommitValue` in version 4, faster.

    Args:
        offset: that is committed.
        leader_epoch: of its record; -1 where the commit had none.
        metadata: of the commit.
        time_ms: of the commit, ms since the epoch.
        tail: `plain_tail` of the topic's id.

    Raises:
        WireError: the metadata is too long for any reader.
    """
    data = metadata.encode()
    if len(data) > _LONGEST:
        raise WireError(f"metadata of {len(data)} bytes")
    size = len(data) + 1
    sized = bytes((size,)) if size < 0x80 else _unsigned_varint(size)
    front = _VALUE_FRONT(OFFSET_COMMIT_VALUE, offset, leader_epoch)
    return front + sized + data + _INT64(time_ms) + tail[:-1]


_KEY_HEAD = struct.Struct(">hh").pack
_VALUE_FRONT = struct.Struct(">hqi").pack
_INT64 = struct.Struct(">q").pack


def _codec(cls: type, version: int) -> Codec:
    is_key = cls in {OffsetCommitKey, GroupMetadataKey}
    return codec(cls, version, flexible=version >= FIRST_FLEXIBLE and not is_key)


T = TypeVar("T")


def _decoded(cls: type[T], known: Codec, data: bytes) -> T:
    try:
        message, position = known.decode(data, 2, len(data))
    except WireError as error:
        raise WireError(f"{cls.__name__} of {len(data)} bytes: {error}") from None
    if position != len(data):
        behind = len(data) - position
        raise WireError(f"{behind} bytes behind an {cls.__name__}")
    assert isinstance(message, cls)  # noqa: S101
    return message


def _decoded_value(cls: type[T], data: bytes) -> T:
    if len(data) < 2:
        raise WireError(f"{cls.__name__} of {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if not 0 <= version <= NEWEST_VALUE:
        raise WireError(f"{cls.__name__} of version {version}")
    return _decoded(cls, _codec(cls, version), data)


def _encoded(known: Codec, message: object) -> bytes:
    try:
        return known.encode(message)
    except (struct.error, OverflowError) as error:
        raise WireError(f"{type(message).__name__}: {error}") from None


# -- writing whole records


@functools.lru_cache(1 << 14)
def varint(value: int) -> bytes:
    """A zigzag varint, as record batches have them; few are ever seen."""
    return _unsigned_varint((value << 1) ^ (value >> 63))


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame(position: int, key: bytes, value: bytes | None) -> bytes:
    """A record of a batch, at the batch's own time.

    Args:
        position: of the record in its batch, from 0 on.
        key: of the record.
        value: of the record; None for a tombstone.
    """
    sized = b"\1" if value is None else varint(len(value)) + value
    body = b"\0\0" + varint(position) + varint(len(key)) + key + sized + b"\0"
    return varint(len(body)) + body


# A committed offset without metadata: what stands between its key, with the
# value's size and version, and its topic's id.
_PLAIN = struct.Struct(">qiBq")
plain_offset: Final = _PLAIN.pack
"""(offset, leader epoch, 1, commit time in ms): the middle of a record, between
`plain_head` and `plain_tail`."""


def plain_tail(topic_id: bytes | None) -> bytes:
    """The end of a record of a committed offset without metadata."""
    # Tagged fields: one, tag 0, 16 bytes; then no headers of the record.
    return b"\0\0" if topic_id is None else b"\1\0\x10" + topic_id + b"\0"


def plain_head(position: int, key: bytes, tail_size: int) -> bytes:
    """The start of a record of a committed offset without metadata.

    Args:
        position: of the record in its batch.
        key: of the record, as `offset_key` makes it.
        tail_size: bytes of its `plain_tail`.
    """
    value_size = 2 + _PLAIN.size + tail_size - 1
    body = b"\0\0" + varint(position) + varint(len(key)) + key + varint(value_size)
    size = len(body) + value_size + 1
    return varint(size) + body + _VERSION.pack(OFFSET_COMMIT_VALUE)


def batch_of(body: bytes, count: int, timestamp_ms: int, codec: int) -> bytes:
    """A batch of framed records, all of one time; see `records.build_batch`."""
    if codec:
        body = compression.compress(codec, body)
    covered = _COVERED(codec, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    covered += body
    length = records.HEADER_SIZE - records.LOG_OVERHEAD + len(body)
    return _FRONT(0, length, -1, records.MAGIC, records.crc_of(covered)) + covered


_COVERED = struct.Struct(">hiqqqhii").pack
_FRONT = struct.Struct(">qiibI").pack


# -- reading whole batches

Made = TypeVar("Made")
Entry = tuple[int, int, str, int]
"""(offset, leader epoch, metadata, commit time in ms since the epoch)."""

_AT_ONCE: Final = 1000
"""Records that are read at a time: a millisecond."""

_MOST_NAMES = 1 << 16
"""How many pairs of group and topic are remembered: names of a log come again
and again, and decoding them costs more than finding them."""

# From the partition, the end of the key, on: the value's size and version,
# offset, leader epoch, no metadata, commit time, tags, topic id, no headers.
_REST = struct.Struct(">i3sqiBq3s16xB")
_REST_BEHIND_KEY = _REST.size - 4
_SIZE_AND_VERSION = b"\x54\0\4"
_TOPIC_ID_TAG = b"\1\0\x10"
_INT32 = struct.Struct(">i")
_CONTROL = struct.Struct(">hh")
_COMMIT = 1


class Reader(Generic[Made]):
    """Reads a log of groups, batch by batch, in order.

    Offsets that a producer committed in a transaction count from its end on,
    and only if it was not aborted (KIP-98).

    Args:
        offset: makes what is given for a committed offset, of group, topic,
            partition, entry (None for a tombstone) and time of expiry (-1 where
            the commit named none).
        group: makes what is given for a group, of its id and value (None for a
            tombstone).

    Attributes:
        skipped: how many records were not of the classic protocol, by type.
        others: the protocol of groups of other protocols, by group id.
    """

    def __init__(
        self,
        offset: Callable[[str, str, int, Entry | None, int], Made],
        group: Callable[[str, GroupMetadataValue | None], Made],
    ) -> None:
        self.skipped: dict[int, int] = {}
        self.others: dict[str, str] = {}
        self._offset = offset
        self._group = group
        self._names: dict[bytes, tuple[str, str]] = {}
        self._topics: dict[str, str] = {}
        # By producer id and key: what its open transaction has written.
        self._pending: dict[int, dict[bytes, Made]] = {}

    @property
    def open_transactions(self) -> int:
        """How many transactions have not ended in what was read."""
        return len(self._pending)

    def read(self, batch: Buffer) -> list[Made]:
        """What one batch brings, in order. Its CRC is not looked at.

        Raises:
            WireError: the batch, or a record in it, is damaged.
        """
        return [made for some in self.read_in_pieces(batch) for made in some]

    def read_in_pieces(self, batch: Buffer) -> Iterator[list[Made]]:
        """Like `read`, some at a time; none where others should have a turn."""
        header = records.read_header(batch)
        if header.is_control or header.is_transactional:
            yield self._read_transactional(header, batch)
            return
        if header.magic != records.MAGIC or not (
            records.HEADER_SIZE <= header.size <= len(batch)
        ):
            raise WireError(f"no whole batch of {header.size} bytes")
        packed = memoryview(batch)[records.HEADER_SIZE : header.size]
        pieces: list[bytes] = []
        for piece in compression.decompress_in_pieces(header.codec, packed):
            if pieces:
                yield []
            pieces.append(piece)
        if self._pending:
            self._supersede(batch)
        end = sum(map(len, pieces))
        # So that what is read at once may reach behind the last record.
        pieces.append(bytes(_REST.size))
        data = b"".join(pieces)
        start = 0
        for first in range(0, header.record_count, _AT_ONCE):
            last = min(first + _AT_ONCE, header.record_count)
            made: list[Made] = []
            start = self._read_some(header, data, start, end, first, last, made)
            yield made
        if start != end:
            raise WireError(
                f"{end - start} bytes behind the records of the batch at offset "
                f"{header.base_offset}"
            )

    def _read_some(
        self,
        header: records.BatchHeader,
        data: bytes,
        start: int,
        end: int,
        first: int,
        last: int,
        made: list[Made],
    ) -> int:
        """Reads the records from `first` up to `last`; gives where they end."""
        add, offset, names = made.append, self._offset, self._names
        count = first
        try:
            for count in range(first, last):  # noqa: B007 - for the error
                # A record of the usual form: its size, one byte of attributes,
                # one of time, its position and the size of its key.
                at = start + 1
                size = data[start]
                if size & 0x80:
                    size += (data[at] << 7) - 0x80
                    at += 1
                stop = at + (size >> 1)
                is_usual = data[at - 1] < 0x80 and data[at + 1] < 0x80
                at += 2
                if data[at] & 0x80:
                    at += 1
                    is_usual = is_usual and data[at] < 0x80
                at += 1
                size = data[at]
                at += 1
                if size & 0x80:
                    size += (data[at] << 7) - 0x80
                    is_usual = is_usual and data[at] < 0x80
                    at += 1
                key_end = at + (size >> 1)
                if is_usual and key_end + _REST_BEHIND_KEY == stop <= end:
                    pair = names.get(data[at : key_end - 4])
                    if pair is not None:
                        rest = _REST.unpack_from(data, key_end - 4)
                        partition, form, value, epoch, size, time, tag, size_2 = rest
                        if (
                            form == _SIZE_AND_VERSION
                            and tag == _TOPIC_ID_TAG
                            and size == 1
                            and not size_2
                        ):
                            entry = (value, epoch, "", time)
                            add(offset(pair[0], pair[1], partition, entry, -1))
                            start = stop
                            continue
                start = self._read_record(data, start, end, made)
        except (WireError, IndexError, struct.error, UnicodeDecodeError) as error:
            where = f"record {count} of the batch at offset {header.base_offset}"
            raise WireError(f"{where}: {error}") from None
        return start

    def _read_record(self, data: bytes, at: int, end: int, made: list[Made]) -> int:
        """Reads a record of any form; gives where it ends."""
        size, at = varint_at(data, at)
        stop = at + size
        if size < 0 or stop > end:
            raise WireError(f"a record of {size} bytes, where {end - at} are left")
        _, at = varint_at(data, at + 1)
        _, at = varint_at(data, at)
        key, at = bytes_at(data, at, stop)
        value, at = bytes_at(data, at, stop)
        count, at = varint_at(data, at)
        for _ in range(count):
            _, at = bytes_at(data, at, stop)
            _, at = bytes_at(data, at, stop)
        if at != stop:
            raise WireError(f"it ends at {at}, not at {stop}")
        found = self._make(key, value)
        if found is not None:
            made.append(found)
        return stop

    def _make(self, key: bytes | None, value: bytes | None) -> Made | None:
        if key is None:
            raise WireError("a null key")
        pair = self._names.get(key[:-4])
        if pair is not None:
            return self._make_offset(
                pair, _INT32.unpack_from(key, len(key) - 4)[0], value
            )
        decoded = decode_key(key)
        if isinstance(decoded, OffsetCommitKey):
            pair = self._name(key[:-4], decoded)
            return self._make_offset(pair, decoded.partition, value)
        if isinstance(decoded, GroupMetadataKey):
            if value is None:
                return self._group(decoded.group, None)
            return self._group(decoded.group, decode_group_metadata(value))
        self._skip(decoded, value)
        return None

    def _make_offset(
        self, pair: tuple[str, str], partition: int, value: bytes | None
    ) -> Made:
        if value is None:
            return self._offset(*pair, partition, None, -1)
        found = decode_offset_commit(value)
        time, expire_ms = found.commit_timestamp, found.expire_timestamp
        entry = (found.offset, found.leader_epoch, found.metadata, time)
        return self._offset(*pair, partition, entry, expire_ms)

    def _name(self, prefix: bytes, key: OffsetCommitKey) -> tuple[str, str]:
        """The names of a key, one object for as many records as have them."""
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
            self._topics.clear()
        topic = self._topics.setdefault(key.topic, key.topic)
        pair = self._names[prefix] = key.group, topic
        return pair

    def _skip(self, key: OtherKey, value: bytes | None) -> None:
        self.skipped[key.type] = self.skipped.get(key.type, 0) + 1
        protocol = GROUP_TYPES.get(key.type)
        if protocol is not None and key.group is not None:
            if value is None:
                self.others.pop(key.group, None)
            else:
                self.others[key.group] = protocol

    # -- transactions

    def _read_transactional(
        self, header: records.BatchHeader, batch: Buffer
    ) -> list[Made]:
        producer_id = header.producer_id
        if not header.is_control:
            pending = self._pending.setdefault(producer_id, {})
            for record in records.read_records(batch):
                found = self._make(record.key, record.value)
                if found is not None and record.key is not None:
                    pending[record.key] = found
            return []
        for record in records.read_records(batch):
            if record.key is None or len(record.key) != _CONTROL.size:
                raise WireError(f"a marker of key {record.key!r}")
            ended = self._pending.pop(producer_id, {})
            if _CONTROL.unpack(record.key)[1] == _COMMIT:
                return [*ended.values()]
        return []

    def _supersede(self, batch: Buffer) -> None:
        """Drops from open transactions what is committed anew outside of them.

        A transaction that ends does not bring back what is older, as in Kafka.
        """
        for record in records.read_records(batch):
            if record.key is not None and record.value is not None:
                for pending in self._pending.values():
                    pending.pop(record.key, None)
