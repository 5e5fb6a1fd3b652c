"""Decodes the bytes of a Fetch response into the application's records."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeAlias

from kohort.client.errors import CorruptMessageError, SerializationError
from kohort.client.offsets import TopicPartition
from kohort.client.settings import K, V
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.records import (
    CONTROL,
    CRC_START,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    crc_of,
    read_headers,
    read_records,
    read_rows,
)
from kohort.protocol.slotted import slotted

Deserializer = Callable[[bytes], Any]

_ABORT = 0
"""The type of the control record that aborts a transaction (KIP-98)."""
_SPECIAL = CONTROL | TRANSACTIONAL
"""Attributes of batches that may have no records for the application."""
_CONTROL_TYPE = struct.Struct(">hh").unpack_from


@slotted
class ConsumerRecord(Generic[K, V]):
    """A record of a partition, with a key K and a value V.

    Attributes:
        timestamp: in milliseconds since the epoch; -1 for none.
        timestamp_type: 0 for its creation, 1 for its append to the log.
        key: deserialized; None for null.
        value: deserialized; None for null.
        headers: names and values, in order.
        leader_epoch: of the leader that appended it; -1 if unknown.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K | None
    value: V | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int


AnyRecord: TypeAlias = ConsumerRecord[Any, Any]
"""A record after deserialization, with a key and a value of any type."""


class Chunk:
    """The records of a partition from one Fetch, decoded as they are consumed.

    Attributes:
        end: the offset to fetch next; the fetch offset if no batch was complete.
        epoch: leader epoch of the last batch; -1 for none.
        size: bytes.
    """

    __slots__ = (
        "_aborted",
        "_batches",
        "_damage",
        "_data",
        "_in_vain",
        "_is_checked",
        "_place",
        "_records",
        "end",
        "epoch",
        "size",
    )

    def __init__(
        self,
        place: TopicPartition,
        data: Buffer,
        start: int,
        aborted: Sequence[tuple[int, int]],
        *,
        is_checked: bool,
    ) -> None:
        """Takes the records of one partition from a Fetch response.

        Args:
            place: the partition.
            data: batches; the last one may be cut off.
            start: the fetch offset: earlier records are skipped.
            aborted: (first offset, producer id) of aborted transactions, whose
                records are skipped.
            is_checked: whether checksums are verified.

        Raises:
            WireError: the data is malformed.
        """
        self._place = place
        self._data = data
        self._batches = [*read_headers(data)]
        self._is_checked = is_checked
        self._aborted = sorted(aborted)
        self._in_vain: set[int] = set()
        self.size = len(data)
        self.end, self.epoch = start, -1
        if self._batches:
            last = self._batches[-1][0]
            self.end, self.epoch = last.last_offset + 1, last.partition_leader_epoch
        self._records = self._iterate(start)
        self._damage: WireError | None = None

    def next_records(self) -> list[ConsumerRecord]:
        """The next records, before deserialization; none at the end.

        Raises:
            WireError: the bytes are damaged.
        """
        if self._damage is not None:
            raise self._damage
        try:
            return next(self._records, [])
        except WireError as error:
            # The iterator has ended with its exception; later calls must not skip data.
            self._damage = error
            raise

    def _iterate(self, start: int) -> Iterator[list[ConsumerRecord]]:
        topic, number = self._place
        data = self._data
        for header, position in self._batches:
            if self._is_checked:
                end = position + header.length + LOG_OVERHEAD
                if crc_of(memoryview(data)[position + CRC_START : end]) != header.crc:
                    raise WireError(f"the checksum at offset {header.base_offset}")
            if header.attributes & _SPECIAL and not self._is_wanted(header, position):
                continue
            kind, epoch = int(header.is_log_append_time), header.partition_leader_epoch
            for rows in read_rows(data, position, header):
                found = [
                    ConsumerRecord(
                        topic, number, offset, time, kind, key, value, headers, epoch
                    )
                    for offset, time, key, value, headers in rows
                ]
                if found[0].offset < start:
                    found = [record for record in found if record.offset >= start]
                if found:
                    yield found

    def _is_wanted(self, header: BatchHeader, position: int) -> bool:
        """Returns whether a transaction's batch has records for the application."""
        pending, in_vain = self._aborted, self._in_vain
        while pending and pending[0][0] <= header.last_offset:
            in_vain.add(pending.pop(0)[1])
        if header.is_control:
            if self._ends_in_vain(position):
                in_vain.discard(header.producer_id)
            return False
        return header.producer_id not in in_vain

    def _ends_in_vain(self, position: int) -> bool:
        for record in read_records(self._data, position):
            if record.key is not None and len(record.key) >= 4:
                _, kind = _CONTROL_TYPE(record.key)
                return bool(kind == _ABORT)
        return False


def deserialized(
    record: ConsumerRecord, key: Deserializer | None, value: Deserializer | None
) -> AnyRecord:
    """Deserializes the key and the value of a record.

    Raises:
        SerializationError: a deserializer failed.
    """
    try:
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key if key is None or record.key is None else key(record.key),
            record.value
            if value is None or record.value is None
            else value(record.value),
            record.headers,
            record.leader_epoch,
        )
    except Exception as error:
        raise SerializationError(
            f"a deserializer failed at the record at offset {record.offset}: {error!r}",
            topic=record.topic,
            partition=record.partition,
        ) from error


def corrupt(
    place: TopicPartition, error: WireError, *, retriable: bool
) -> CorruptMessageError:
    """The error for data that cannot be read.

    Not retriable if the data was already taken: then only a `seek` helps.
    """
    return CorruptMessageError(
        f"the fetched records are damaged: {error}",
        api="Fetch",
        **place._asdict(),
        code=ErrorCode.CORRUPT_MESSAGE,
        retriable=retriable,
    )
