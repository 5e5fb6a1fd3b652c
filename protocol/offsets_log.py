"""The records of ``__consumer_offsets``, as Apache Kafka 4.3 writes and reads them.

A key starts with an int16, the record type, a value with an int16, its version; a null
value is a tombstone. Types 0 and 1 are committed offsets, 2 is a group of the classic
protocol; `consumer_groups_log` has the records of consumer groups (KIP-848). The others
belong to share and streams groups (KIP-932, KIP-1071): their type is recognised, their
values are not read.

Kafka 4.3 writes an offset in version 4, the first flexible one, with the topic's id; in
version 1 if the commit has a retention time, which no other version has; and a group in
version 3, the last one that is not flexible.

The declarations cover all versions. Committed offsets are written on each commit: their
usual form, version 4 without metadata, has hand-written code. `offsets_reader` reads
whole batches.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeVar

from kohort.protocol import compression, records
from kohort.protocol.consumer_groups_log import (
    KEYS,
    VALUES,
    ConsumerGroupKey,
    ConsumerGroupValue,
)
from kohort.protocol.fields import ZERO_UUID, Bytes, Int32, Int64, String, Uuid, V
from kohort.protocol.generated_calls import uvarint
from kohort.protocol.messages import Codec, WireError, codec
from kohort.protocol.slotted import slotted
from kohort.protocol.varints import varint

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
"""Kafka's names of the types, by the number at the start of a key."""

GROUP_TYPES: Final = {11: "share", 17: "streams"}
"""The record type of a group of another protocol, and that protocol."""

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

    `expire_timestamp` is set if the commit has a retention time; else it is -1.
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
    """The key of a record of another protocol.

    `group` is None for a type that Kafka 4.3 does not know either.
    """

    type: int
    group: str | None


KnownKey = OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey
Key = KnownKey | OtherKey
Value = OffsetCommitValue | GroupMetadataValue | ConsumerGroupValue

_FLEXIBLE: Final = frozenset(VALUES.values())
_NUMBERS: Final[dict[type[KnownKey], int]] = {
    OffsetCommitKey: OFFSET_COMMIT,
    GroupMetadataKey: GROUP_METADATA,
    **{key: number for number, key in KEYS.items()},
}

_VERSION = struct.Struct(">h")
_LONGEST = 0x7FFF
"""Bytes of a text that readers accept, including compact ones."""


# -- keys and values, one by one


def decode_key(data: bytes) -> Key:
    """Decodes the key of a record.

    Raises:
        WireError: the key is malformed. An unknown type is not an error.
    """
    if len(data) < 2:
        raise WireError(f"a key of {len(data)} bytes")
    (number,) = _VERSION.unpack_from(data)
    if number in {LEGACY_OFFSET_COMMIT, OFFSET_COMMIT}:
        return _decoded(OffsetCommitKey, _codec(OffsetCommitKey, 0), data)
    if number == GROUP_METADATA:
        return _decoded(GroupMetadataKey, _codec(GroupMetadataKey, 0), data)
    if number in KEYS:
        return _decoded(KEYS[number], _codec(KEYS[number], 0), data)
    if number not in RECORD_TYPES:
        return OtherKey(number, None)
    # All of them begin with their group's id.
    group, _ = _codec(GroupMetadataKey, 0).decode(data, 2, len(data))
    return OtherKey(number, group.group)


def decode_offset_commit(data: bytes) -> OffsetCommitValue:
    """Decodes the value of types 0 and 1, in any version.

    Raises:
        WireError: the bytes are malformed.
    """
    return _decoded_value(OffsetCommitValue, data)


def decode_group_metadata(data: bytes) -> GroupMetadataValue:
    """Decodes the value of type 2, in any version.

    Raises:
        WireError: the bytes are malformed.
    """
    return _decoded_value(GroupMetadataValue, data)


def decode_consumer_group(
    key: ConsumerGroupKey, data: bytes
) -> ConsumerGroupValue | None:
    """Decodes the value of a consumer group's key; None for type 4, which is ignored.

    Raises:
        WireError: the bytes are malformed.
    """
    cls = VALUES.get(type(key))
    return None if cls is None else _decoded_value(cls, data, 0)


def encode_key(key: KnownKey) -> bytes:
    """Encodes a key, as Kafka 4.3 writes it.

    Raises:
        WireError: a name is too long for the format.
    """
    number = _NUMBERS[type(key)]
    return _VERSION.pack(number) + _encoded(_codec(type(key), 0), key)


def encode_value(value: Value, version: int) -> bytes:
    """Encodes a value, version first.

    Raises:
        WireError: a text is too long for the format.
    """
    return _VERSION.pack(version) + _encoded(_codec(type(value), version), value)


MemberRow = tuple[str, str | None, str, str, int, int, bytes, bytes]
"""The fields of a `MemberMetadata`."""


def encode_group(value: GroupMetadataValue, members: Sequence[MemberRow]) -> bytes:
    """Encodes the value of a group, version first, with the rows of its members.

    Faster than `encode_value`: most rows have the client, the timeouts and the
    subscription of the one before.

    Args:
        value: the group without members.
        members: the fields of each one's `MemberMetadata`.

    Raises:
        WireError: a text is too long for the format.
    """
    # The value ends with the number of members.
    parts = [encode_value(value, GROUP_METADATA_VALUE)[:-4], _INT32.pack(len(members))]
    row_codec = _codec(MemberMetadata, GROUP_METADATA_VALUE)
    latest, middle = None, b""
    pack_size, pack_length = _VERSION.pack, _INT32.pack
    for row in members:
        member_id, alike, assignment = row[0].encode(), row[1:7], row[7]
        if alike != latest:
            latest = alike
            # Without the sizes of the id and the assignment.
            middle = _encoded(row_codec, MemberMetadata("", *alike))[2:-4]
        try:
            size = pack_size(len(member_id))
        except struct.error:
            raise WireError(f"member id of {len(member_id)} bytes") from None
        parts += size, member_id, middle, pack_length(len(assignment)), assignment
    return b"".join(parts)


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """Encodes an `OffsetCommitKey` as `encode_key` does, but faster.

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
    """Encodes an `OffsetCommitValue` in version 4 as `encode_value` does, but faster.

    Args:
        offset: the committed offset.
        leader_epoch: of its record; -1 if the commit had none.
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
    sized = bytes((size,)) if size < 0x80 else uvarint(size)
    front = _VALUE_FRONT(OFFSET_COMMIT_VALUE, offset, leader_epoch)
    return front + sized + data + _INT64(time_ms) + tail[:-1]


_KEY_HEAD = struct.Struct(">hh").pack
_GROUP_AT = 4
_VALUE_FRONT = struct.Struct(">hqi").pack
_INT64 = struct.Struct(">q").pack
_INT32 = struct.Struct(">i")


def _codec(cls: type, version: int) -> Codec:
    is_flexible = version >= FIRST_FLEXIBLE or cls in _FLEXIBLE
    return codec(cls, version, flexible=is_flexible)


T = TypeVar("T")


def _decoded(cls: type[T], known: Codec, data: bytes) -> T:
    try:
        message, position = known.decode(data, 2, len(data))
    except WireError as error:
        raise WireError(f"{cls.__name__} of {len(data)} bytes: {error}") from None
    if position != len(data):
        behind = len(data) - position
        raise WireError(f"{behind} bytes behind the {cls.__name__}")
    assert isinstance(message, cls)
    return message


def _decoded_value(cls: type[T], data: bytes, newest: int = NEWEST_VALUE) -> T:
    if len(data) < 2:
        raise WireError(f"{cls.__name__} of {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if not 0 <= version <= newest:
        raise WireError(f"{cls.__name__} of version {version}")
    return _decoded(cls, _codec(cls, version), data)


def _encoded(known: Codec, message: object) -> bytes:
    try:
        return known.encode(message)
    except (struct.error, OverflowError) as error:
        raise WireError(f"{type(message).__name__}: {error}") from None


# -- writing whole records


def frame(position: int, key: bytes, value: bytes | None) -> bytes:
    """Encodes a record of a batch, at the batch's own time.

    Args:
        position: of the record in its batch, from 0 on.
        key: of the record.
        value: of the record; None for a tombstone.
    """
    sized = b"\1" if value is None else varint(len(value)) + value
    body = b"\0\0" + varint(position) + varint(len(key)) + key + sized + b"\0"
    return varint(len(body)) + body


def plain_tail(topic_id: bytes | None) -> bytes:
    """The end of a record of a committed offset without metadata: its topic's id."""
    # Tagged fields: one, tag 0, 16 bytes; then no headers of the record.
    return b"\0\0" if topic_id is None else b"\1\0\x10" + topic_id + b"\0"


class CommitTemplate:
    """The records of a commit without metadata: one `pack` call writes all of them.

    Commits of the same partitions differ in group, offsets and time only. One template
    serves all groups whose ids have the same size.

    Args:
        group_size: bytes of the group's id.
        topics: the topics of the partitions.
        partitions: the partitions, in the same order.
        topic_ids: the ids of the topics that have one.

    Attributes:
        topic_ids: the topics and their ids, None for none.

    Raises:
        WireError: a name is too long for the format.
    """

    __slots__ = ("_count", "_pack", "_values", "topic_ids")

    def __init__(
        self,
        group_size: int,
        topics: Sequence[str],
        partitions: Sequence[int],
        topic_ids: Mapping[str, bytes],
    ) -> None:
        self._count = len(partitions)
        self.topic_ids = {topic: topic_ids.get(topic) for topic in topics}
        # By record: the bytes before the group's id, the group, the bytes before the
        # offset, offset, `_PLAIN_END`.
        self._values: list[bytes | int] = []
        form = [">"]
        last, end = None, b""
        rows = zip(topics, partitions, strict=True)
        for place, (topic, partition) in enumerate(rows):
            if topic != last:
                last = topic
                # Stands for the keys of all groups and partitions.
                key = offset_key("x" * group_size, topic, 0)
                front, name = key[:_GROUP_AT], key[_GROUP_AT + group_size : -4]
                key_size = varint(len(key))
                tail = plain_tail(self.topic_ids[topic])
                value_size = _PLAIN_SIZE + len(tail) - 1
                middle = varint(value_size)
                rest = len(key) + len(middle) + value_size + 1
                middle += _PLAIN_VERSION
            start = b"\0\0" + varint(place) + key_size
            before = end + varint(len(start) + rest) + start + front
            after = name + _INT32.pack(partition) + middle
            self._values += before, b"", after, 0, b""
            form.append(f"{len(before)}s{group_size}s{len(after)}sq{_PLAIN_END.size}s")
            end = tail
        self._values.append(end)
        form.append(f"{len(end)}s")
        self._pack = _struct_of("".join(form)).pack

    def pack(
        self,
        group: bytes,
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        commit_ms: int,
    ) -> bytes:
        """Returns the framed records of a commit, for a batch."""
        values, count, epoch = self._values.copy(), self._count, leader_epochs[0]
        values[1::5] = (group,) * count
        values[3::5] = offsets
        if leader_epochs.count(epoch) == count:
            values[4::5] = (_PLAIN_END.pack(epoch, 1, commit_ms),) * count
        else:
            values[4::5] = [
                _PLAIN_END.pack(each, 1, commit_ms) for each in leader_epochs
            ]
        return self._pack(*values)


_PLAIN_VERSION = _VERSION.pack(OFFSET_COMMIT_VALUE)
_PLAIN_END = struct.Struct(">iBq")
"""Leader epoch, the size of the metadata, plus 1 as in all compact strings, and the
commit time."""
_PLAIN_SIZE = 2 + struct.calcsize(">q") + _PLAIN_END.size
"""Bytes of a value without metadata and without its tagged fields."""


_struct_of = functools.lru_cache(64)(struct.Struct)
"""Most templates have the same format as others: their names have the same size."""


def batch_of(
    body: bytes,
    count: int,
    timestamp_ms: int,
    codec: int,
    producer: tuple[int, int] | None = None,
) -> bytes:
    """A batch of framed records, all of one time; see `records.build_batch`.

    Args:
        body: the records.
        count: their number.
        timestamp_ms: their time, ms since the epoch.
        codec: compresses them.
        producer: id and epoch of the producer whose transaction they belong to
            (KIP-98); None for none.
    """
    if codec:
        body = compression.compress(codec, body)
    producer_id = producer_epoch = -1
    attributes = codec
    if producer is not None:
        producer_id, producer_epoch = producer
        attributes |= records.TRANSACTIONAL
    fields = (
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        -1,
        count,
    )
    return records.sealed(0, -1, fields, body)
