"""The coordinator's records as bytes, and back: one append is one record batch.

Commits are the most frequent writes. The part of a record that stays the same from
one commit to the next, up to the offset, is cached by group, topic, partition and
place in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kohort.broker.coordinator.effects import (
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    Record,
)
from kohort.protocol import offsets_log, records
from kohort.protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    offset_key,
    offset_value,
    plain_offset,
)
from kohort.protocol.offsets_reader import Reader

NO_TOPIC_IDS: Final[Mapping[str, bytes]] = {}

_MOST_HEADS = 1 << 16
"""Starts of records that are cached, some 200 bytes each: enough for 1,000 groups
that commit 64 partitions each."""

_PLACES = 64
"""How many places in a batch have their starts kept; a commit of more partitions
pays for the rest."""

_LONGEST_KEY = 512
"""Bytes of a key that are kept: the longest name of a topic, and a group's to match.
The wire allows 32,767 bytes of a group's name."""

_NOTHING = offsets_log.plain_tail(None)


SMALLEST_RECORD = 41
"""Bytes of a committed offset but for names, metadata, and the id of the topic."""
LARGEST_FRAME = 80
"""Bytes of a committed offset but for names and metadata, at most."""
MOST_NAME = 249
"""Characters of a topic's name; all of them are ASCII."""


class BatchSize:
    """Counts the bytes of a batch of committed offsets before it is made.

    Args:
        group_id: the group.
        has_expiry: whether the commit brought a retention time.

    Attributes:
        total: bytes of the batch, to the byte where topics have ids.
    """

    __slots__ = ("_count", "_fixed", "_names", "total")

    def __init__(self, group_id: str, *, has_expiry: bool) -> None:
        self.total = records.HEADER_SIZE
        self._count = 0
        self._names = 10 + len(group_id.encode())
        # Version, offset, leader epoch, time of commit, and the topic's id; or
        # version, offset, times of commit and of expiry.
        self._fixed = 2 + 8 + 2 + 8 + 8 if has_expiry else 2 + 8 + 4 + 8 + 19

    def add(self, topic: str, metadata: str) -> None:
        """Counts one offset."""
        key = self._names + len(topic)
        text = len(metadata) if metadata.isascii() else len(metadata.encode())
        value = self._fixed + text
        if self._fixed & 1:
            # A compact string.
            value += 1 if text < 0x7F else 2 if text < 0x3FFF else 3
        body = 2 + _zigzag(self._count) + _zigzag(key) + key
        body += _zigzag(value) + value + 1
        self.total += _zigzag(body) + body
        self._count += 1


def _zigzag(value: int) -> int:
    """Bytes of a zigzag varint, of a number from 0 on."""
    return (
        1 if value < 1 << 6 else 2 if value < 1 << 13 else 3 if value < 1 << 20 else 4
    )


class Encoder:
    """Makes batches of records.

    One serves any number of coordinators: its cache depends on the records alone.

    Args:
        topic_ids: the id of each topic that there is, looked up when an offset of
            it is written. Kafka writes it with the offset; a topic that is not
            in there gets none.
        codec: of the batches, ``offsets.topic.compression.codec``.

    Attributes:
        kept: how many starts of records are kept.
    """

    __slots__ = ("_codec", "_heads", "_topic_ids", "kept")

    def __init__(
        self, topic_ids: Mapping[str, bytes] = NO_TOPIC_IDS, *, codec: int = 0
    ) -> None:
        self._topic_ids = topic_ids
        self._codec = codec
        # By group, topic and size of the tail: by partition and place.
        self._heads: dict[tuple[str, str, int], dict[int, bytes]] = {}
        self.kept = 0

    def encode(self, records: Sequence[Record], now_ms: int) -> bytes:
        """One batch of these records, for `Partition.append_own`.

        Args:
            records: at least one.
            now_ms: the time of all of them, ms since the epoch.

        Raises:
            WireError: a name or a text is longer than the format allows, which
                is 32,767 bytes for most.
        """
        pieces: list[bytes] = []
        add = pieces.append
        group_id = topic = None
        heads: dict[int, bytes] = {}
        tail = b""
        for place, record in enumerate(records):
            if type(record) is OffsetRecord:
                entry = record.entry
                if (
                    entry is not None
                    and not entry[2]
                    and record.expire_timestamp_ms == -1
                ):
                    if topic is not record.topic or group_id is not record.group_id:
                        topic, group_id = record.topic, record.group_id
                        tail = self._tail(topic)
                        heads = self._heads_of(group_id, topic, len(tail))
                    head = heads.get(record.partition << 6 | place)
                    if head is None or place >= _PLACES:
                        head = self._head(record, place, tail, heads)
                    add(head)
                    add(plain_offset(entry[0], entry[1], 1, entry[3]))
                    add(tail)
                    continue
            add(self._framed(place, record))
        return offsets_log.batch_of(b"".join(pieces), len(records), now_ms, self._codec)

    def _tail(self, topic: str) -> bytes:
        topic_id = self._topic_ids.get(topic)
        if topic_id is None:
            return _NOTHING
        return offsets_log.plain_tail(topic_id)

    def _heads_of(self, group_id: str, topic: str, tail_size: int) -> dict[int, bytes]:
        key = group_id, topic, tail_size
        heads = self._heads.get(key)
        if heads is None:
            heads = {}
            if len(group_id) <= _LONGEST_KEY:
                self._heads[key] = heads
        return heads

    def _head(
        self, record: OffsetRecord, place: int, tail: bytes, heads: dict[int, bytes]
    ) -> bytes:
        key = offset_key(record.group_id, record.topic, record.partition)
        head = offsets_log.plain_head(place, key, len(tail))
        if place < _PLACES and len(key) <= _LONGEST_KEY:
            if self.kept >= _MOST_HEADS:
                self._heads.clear()
                heads.clear()
                self.kept = 0
            heads[record.partition << 6 | place] = head
            self.kept += 1
        return head

    def _framed(self, place: int, record: Record) -> bytes:
        """A record of any form."""
        value: bytes | None = None
        if isinstance(record, OffsetRecord):
            key = offset_key(record.group_id, record.topic, record.partition)
            if record.entry is not None:
                value = self._offset_value(record, record.entry)
        else:
            key = offsets_log.encode_key(GroupMetadataKey(record.group_id))
            if isinstance(record, GroupRecord):
                value = _group_value(record)
        return offsets_log.frame(place, key, value)

    def _offset_value(
        self, record: OffsetRecord, entry: tuple[int, int, str, int]
    ) -> bytes:
        offset, leader_epoch, metadata, commit_ms = entry
        expire_ms = record.expire_timestamp_ms
        if expire_ms == -1:
            tail = self._tail(record.topic)
            return offset_value(offset, leader_epoch, metadata, commit_ms, tail)
        # This version has no leader epoch; the commits that bring a time of their
        # own, OffsetCommit v2 to v4, have none either.
        return offsets_log.encode_value(
            OffsetCommitValue(offset, -1, metadata, commit_ms, expire_ms),
            offsets_log.OFFSET_COMMIT_VALUE_WITH_EXPIRY,
        )


def _group_value(record: GroupRecord) -> bytes:
    value = GroupMetadataValue(
        record.protocol_type,
        record.generation_id,
        record.protocol_name,
        record.leader,
        record.state_timestamp_ms,
        [MemberMetadata(*member) for member in record.members],
    )
    return offsets_log.encode_value(value, offsets_log.GROUP_METADATA_VALUE)


def _group_record(
    group_id: str, value: GroupMetadataValue | None
) -> GroupRecord | GroupTombstone:
    if value is None:
        return GroupTombstone(group_id)
    return GroupRecord(
        group_id,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        [
            (
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout,
                m.session_timeout,
                m.subscription,
                m.assignment,
            )
            for m in value.members
        ],
    )


class Decoder(Reader[Record]):
    """Reads a coordinator's records from its log: `read` each batch, in order."""

    def __init__(self) -> None:
        super().__init__(OffsetRecord, _group_record)
