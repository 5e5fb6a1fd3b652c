"""The coordinator's records as bytes, and back: one append is one record batch.

Commits are the most frequent writes. Consumers commit the same partitions again and
again, so what stays the same from one commit to the next is cached as a template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from kohort.broker.coordinator.effects import (
    CommitRecords,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    PendingOffset,
    Record,
    TransactionEnd,
    Written,
)
from kohort.broker.coordinator.events import Offsets
from kohort.broker.shards.consumer_group_records import from_log, to_log
from kohort.protocol import offsets_log, records
from kohort.protocol.offsets_log import (
    CommitTemplate,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitValue,
    offset_key,
    offset_value,
)
from kohort.protocol.offsets_reader import Reader
from kohort.protocol.row_cache import RowCache

NO_TOPIC_IDS: Final[Mapping[str, bytes]] = {}

SMALLEST_RECORD = 41
"""Bytes of a committed offset without names, metadata, and topic id."""
LARGEST_FRAME = 80
"""Maximum bytes of a committed offset without names and metadata."""
MOST_NAME = 249
"""Characters of a topic's name; all of them are ASCII."""


class BatchSize:
    """Computes the size of a batch of committed offsets before it is made.

    Args:
        group_id: the group.
        has_expiry: whether the commit has a retention time.

    Attributes:
        total: bytes of the batch, exact if topics have ids.
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
    """Bytes of a zigzag varint, for a number from 0 on."""
    return (
        1 if value < 1 << 6 else 2 if value < 1 << 13 else 3 if value < 1 << 20 else 4
    )


class Encoder:
    """Makes batches of records.

    One serves any number of coordinators: its cache depends only on the records.

    Args:
        topic_ids: the ids of existing topics, looked up when an offset is written.
            Kafka writes the id with the offset; without an id, none is written.
        codec: of the batches, ``offsets.topic.compression.codec``.

    Attributes:
        codec: see above.
        templates: of commits, by size of the group's id, topics and partitions.
    """

    __slots__ = ("_topic_ids", "codec", "templates")

    def __init__(
        self, topic_ids: Mapping[str, bytes] = NO_TOPIC_IDS, *, codec: int = 0
    ) -> None:
        self._topic_ids = topic_ids
        self.codec = codec
        self.templates: RowCache[
            tuple[int, tuple[str, ...], tuple[int, ...]], CommitTemplate
        ] = RowCache()

    def encode(self, records: Sequence[Written], now_ms: int) -> bytes:
        """Returns one batch of these records, for `Partition.append_own`.

        Args:
            records: at least one.
            now_ms: the time of all of them, ms since the epoch.

        Raises:
            WireError: a name or a text is longer than the format allows, which is
                32,767 bytes for most.
        """
        producer = body = None
        if type(records) is CommitRecords:
            producer = records.producer
            if records.is_plain:
                group_id, offsets = records.group_id, records.offsets
                body = self.framed_commit(group_id, offsets, records.commit_ms)
        if body is None:
            body = b"".join(map(self._framed, count(), records))
        return offsets_log.batch_of(body, len(records), now_ms, self.codec, producer)

    def framed_commit(self, group_id: str, offsets: Offsets, commit_ms: int) -> bytes:
        """Encodes the records of a commit without metadata and retention time.

        Args:
            group_id: the group.
            offsets: at least one.
            commit_ms: the time of the commit, ms since the epoch.

        Raises:
            WireError: see `encode`.
        """
        group = group_id.encode()
        key = len(group), offsets.topics, offsets.partitions
        template = self.templates.get(key)
        if template is None:
            template = self._template(*key)
        else:
            for topic, topic_id in template.topic_ids.items():
                if self._topic_ids.get(topic) != topic_id:
                    template = self._template(*key)
                    break
        return template.pack(group, offsets.offsets, offsets.leader_epochs, commit_ms)

    def _template(
        self, group_size: int, topics: tuple[str, ...], partitions: tuple[int, ...]
    ) -> CommitTemplate:
        made = CommitTemplate(group_size, topics, partitions, self._topic_ids)
        key = group_size, topics, partitions
        return self.templates.keep(key, made, len(partitions))

    def _framed(self, place: int, record: Written) -> bytes:
        """Encodes a record of any form."""
        value: bytes | None = None
        if isinstance(record, PendingOffset):
            record = record.offset
        if isinstance(record, OffsetRecord):
            key = offset_key(record.group_id, record.topic, record.partition)
            if record.entry is not None:
                value = self._offset_value(record, record.entry)
        elif isinstance(record, GroupRecord | GroupTombstone):
            key = offsets_log.encode_key(GroupMetadataKey(record.group_id))
            if isinstance(record, GroupRecord):
                value = _group_value(record)
        else:
            logged_key, logged = to_log(record)
            key = offsets_log.encode_key(logged_key)
            if logged is not None:
                value = offsets_log.encode_value(logged, 0)
        return offsets_log.frame(place, key, value)

    def _offset_value(
        self, record: OffsetRecord, entry: tuple[int, int, str, int]
    ) -> bytes:
        offset, leader_epoch, metadata, commit_ms = entry
        expire_ms = record.expire_timestamp_ms
        if expire_ms == -1:
            tail = offsets_log.plain_tail(self._topic_ids.get(record.topic))
            return offset_value(offset, leader_epoch, metadata, commit_ms, tail)
        # This version has no leader epoch; neither have the commits with a retention
        # time, OffsetCommit v2 to v4.
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
    )
    return offsets_log.encode_group(value, record.members)


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


def _pending(producer_id: int, record: Record) -> Record:
    if isinstance(record, OffsetRecord):
        return PendingOffset(producer_id, record)
    return record


class Decoder(Reader[Record]):
    """Reads a coordinator's records from its log: `read` each batch, in order."""

    def __init__(self) -> None:
        super().__init__(
            OffsetRecord, _group_record, from_log, _pending, TransactionEnd
        )
