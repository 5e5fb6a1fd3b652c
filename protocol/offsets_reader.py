"""Reads the batches of ``__consumer_offsets``; `offsets_log` has their records.

A log may contain millions of committed offsets: their usual form, version 4 without
metadata, is read by hand-written code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from kohort.protocol import compression, records
from kohort.protocol.consumer_groups_log import ConsumerGroupKey, ConsumerGroupValue
from kohort.protocol.fields import Buffer
from kohort.protocol.markers import read_marker
from kohort.protocol.messages import WireError
from kohort.protocol.offsets_log import (
    GROUP_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OtherKey,
    decode_consumer_group,
    decode_group_metadata,
    decode_key,
    decode_offset_commit,
)
from kohort.protocol.varints import bytes_at, varint_at

Made = TypeVar("Made")
Entry = tuple[int, int, str, int]
"""(offset, leader epoch, metadata, commit time in ms since the epoch)."""

_AT_ONCE: Final = 1000
"""Records read at a time: a millisecond."""

_MOST_NAMES = 1 << 16
"""Cached pairs of group and topic: the names in a log repeat, and looking them up is
faster than decoding them."""

# From the partition, the end of the key, on: the value's size and version, offset,
# leader epoch, no metadata, commit time, tags, topic id, no headers.
_REST = struct.Struct(">i3sqiBq3s16xB")
_REST_BEHIND_KEY = _REST.size - 4
_SIZE_AND_VERSION = b"\x54\0\4"
_TOPIC_ID_TAG = b"\1\0\x10"
_INT32 = struct.Struct(">i")


class Reader(Generic[Made]):
    """Reads a log of groups, batch by batch, in order.

    Args:
        offset: makes the result for a committed offset from its group, topic,
            partition, entry (None for a tombstone) and expiry time (-1 if the commit
            set none).
        group: makes the result for a group of the classic protocol from its id and
            value (None for a tombstone).
        consumer_group: makes the result for a record of a consumer group (KIP-848) from
            its key and value (None for a tombstone); None for no result.
        pending: makes the result for a record of a transaction (KIP-98) from its
            producer id and its result.
        end: makes the result for the end of a transaction from its producer id;
            True: it is committed.

    Attributes:
        skipped: number of records of other protocols, by type.
        others: the protocol of groups of other protocols, by group id.
    """

    def __init__(
        self,
        offset: Callable[[str, str, int, Entry | None, int], Made],
        group: Callable[[str, GroupMetadataValue | None], Made],
        consumer_group: Callable[
            [ConsumerGroupKey, ConsumerGroupValue | None], Made | None
        ],
        pending: Callable[[int, Made], Made],
        end: Callable[[int, bool], Made],
    ) -> None:
        self.skipped: dict[int, int] = {}
        self.others: dict[str, str] = {}
        self._offset = offset
        self._group = group
        self._consumer_group = consumer_group
        self._pending = pending
        self._end = end
        self._names: dict[bytes, tuple[str, str]] = {}
        self._topics: dict[str, str] = {}

    def read(self, batch: Buffer) -> list[Made]:
        """The results of one batch, in order. Its CRC is not checked.

        Raises:
            WireError: the batch, or a record in it, is damaged.
        """
        return [made for some in self.read_in_pieces(batch) for made in some]

    def read_in_pieces(self, batch: Buffer) -> Iterator[list[Made]]:
        """Like `read`, some at a time; an empty list lets other tasks run."""
        header = records.read_header(batch)
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                yield [self._end(header.producer_id, marker.is_commit)]
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
        end = sum(map(len, pieces))
        # So that one read may go beyond the last record.
        pieces.append(bytes(_REST.size))
        data = b"".join(pieces)
        start = 0
        for first in range(0, header.record_count, _AT_ONCE):
            last = min(first + _AT_ONCE, header.record_count)
            made: list[Made] = []
            start = self._read_some(header, data, start, end, first, last, made)
            if header.is_transactional:
                made = [self._pending(header.producer_id, each) for each in made]
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
        """Reads the records from `first` up to `last`; returns where they end."""
        add, offset, names = made.append, self._offset, self._names
        count = first
        try:
            for count in range(first, last):  # noqa: B007 - for the error
                # A record of the usual form: its size, one byte of attributes, one of
                # time, its position and the size of its key.
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
        """Reads a record of any form; returns where it ends."""
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
        if isinstance(decoded, OtherKey):
            self._skip(decoded, value)
            return None
        content = None if value is None else decode_consumer_group(decoded, value)
        return self._consumer_group(decoded, content)

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
        """The names of a key, the same objects for all records with these names."""
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
