"""Records as an application gets them, out of the bytes that Fetch returns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kohort.client.errors import CorruptMessageError, SerializationError
from kohort.client.offsets import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.records import (
    CRC_START,
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
_CONTROL_TYPE = struct.Struct(">hh").unpack_from


@slotted
class ConsumerRecord:
    """A record of a partition.

    Attributes:
        timestamp: in milliseconds since the epoch; -1 for none.
        timestamp_type: 0 for when it was created, 1 for when it was appended.
        key: as the deserializer made it; None where it is null.
        value: likewise.
        headers: names and values, in order.
        leader_epoch: of the leader that took it; -1 where that is not known.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int


class Chunk:
    """The records of a partition from one Fetch, decoded as they are consumed.

    Attributes:
        end: the offset to go on from; where it began if no whole batch came.
        epoch: leader epoch of the last batch; -1 for none.
        size: bytes.
    """

    __slots__ = (
        "_aborted",
        "_batches",
        "_damage",
        "_data",
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
            data: batches, the last one perhaps cut off.
            start: the fetch offset: earlier records are skipped.
            aborted: (first offset, producer id) of aborted transactions, whose
                records are skipped.
            is_checked: whether checksums are checked.

        Raises:
            WireError: the data is malformed.
        """
        self._place = place
        self._data = data
        self._batches = [*read_headers(data)]
        self._is_checked = is_checked
        self._aborted = sorted(aborted)
        self.size = len(data)
        self.end, self.epoch = start, -1
        if self._batches:
            last = self._batches[-1][0]
            self.end, self.epoch = last.last_offset + 1, last.partition_leader_epoch
        self._records = self._iterate(start)
        self._damage: WireError | None = None

    def next_records(self) -> list[ConsumerRecord]:
        """The next records, keys and values as they were sent; none at the end.

        Raises:
            WireError: the bytes are damaged.
        """
        if self._damage is not None:
            raise self._damage
        try:
            return next(self._records, [])
        except WireError as error:
            # An iterator that has raised is at its end: nothing may be skipped.
            self._damage = error
            raise

    def _iterate(self, start: int) -> Iterator[list[ConsumerRecord]]:
        topic, number = self._place
        for header, position in self._wanted():
            kind, epoch = int(header.is_log_append_time), header.partition_leader_epoch
            for rows in read_rows(self._data, position):
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

    def _wanted(self) -> Iterator[tuple[BatchHeader, int]]:
        """The batches with records for the application, and where they are."""
        in_vain: set[int] = set()
        pending = self._aborted
        for header, position in self._batches:
            if self._is_checked:
                covered = memoryview(self._data)[
                    position + CRC_START : position + header.size
                ]
                if crc_of(covered) != header.crc:
                    raise WireError(f"the checksum at offset {header.base_offset}")
            while pending and pending[0][0] <= header.last_offset:
                in_vain.add(pending[0][1])
                pending = pending[1:]
            if header.is_control:
                if self._ends_in_vain(position):
                    in_vain.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in in_vain):
                yield header, position

    def _ends_in_vain(self, position: int) -> bool:
        for record in read_records(self._data, position):
            if record.key is not None and len(record.key) >= 4:
                _, kind = _CONTROL_TYPE(record.key)
                return bool(kind == _ABORT)
        return False


def deserialized(
    record: ConsumerRecord, key: Deserializer | None, value: Deserializer | None
) -> ConsumerRecord:
    """The record with its key and its value as the deserializers make them.

    Raises:
        SerializationError: a deserializer does not take it.
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

    Where it was taken already, nothing but a `seek` leads on: not retriable.
    """
    return CorruptMessageError(
        f"the fetched records are damaged: {error}",
        api="Fetch",
        **place._asdict(),
        code=ErrorCode.CORRUPT_MESSAGE,
        retriable=retriable,
    )
