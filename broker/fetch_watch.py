"""Notes the fetches of clients, for the account of delivery.

A Fetch names no group and no member, and events of fetches would outnumber all others.
So they are noted only while accounts are read (`Events.hold_accounts`), and only what
is new: a position that a connection has not asked for before, records that were sent,
and whether the connection went on afterwards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final, Protocol

from kohort.broker.events.delivery.notes import (
    Asked,
    Dropped,
    Ended,
    Note,
    OutOfRange,
    Read,
    Sent,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import ReadResult
from kohort.broker.notice import Client
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer

BATCHES_AT_ONCE: Final = 500
"""Batches checked before other tasks run: half a millisecond."""

_START = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">23xi")
_HEAD: Final = _LAST_DELTA.size
_BEFORE_LENGTH: Final = 12
"""Bytes of a batch that its length does not count."""


class Fetcher(Protocol):
    """A connection that fetches."""

    @property
    def client(self) -> Client:
        """The sender of its requests."""

    @property
    def is_heard(self) -> bool:
        """True if the client can send requests."""

    @property
    def reads(self) -> int:
        """How often bytes have arrived."""


class _Reader:
    """A connection that fetches.

    Attributes:
        connection: the connection.
        positions: by name of a partition, the offset that it asks for next.
        round: `FetchWatch.round` when these were noted.
        unread_since: the connection's count of reads before the last response; None:
            that response was read, or there is none.
    """

    __slots__ = ("connection", "positions", "round", "unread_since")

    def __init__(self, connection: Fetcher, round_: int) -> None:
        self.connection = connection
        self.positions: dict[str, int] = {}
        self.round = round_
        self.unread_since: int | None = None

    @property
    def has_read(self) -> bool:
        """True if the client sent something after the last response.

        What it sent before (requests behind a Fetch that waited) does not count.
        """
        return self.unread_since is not None and (
            self.connection.reads > self.unread_since
        )


class FetchWatch:
    """Notes the fetches of clients.

    Args:
        tell: takes each note.
        wall: the machine's clock, ns since the epoch.

    Attributes:
        round: counts assignments: from each on, positions are news again.
    """

    def __init__(self, tell: Callable[[Note], None], wall: Callable[[], int]) -> None:
        self._tell = tell
        self._wall_ns = wall
        self._readers: dict[int, _Reader] = {}
        self.round = 0

    def asked(
        self,
        connection: Fetcher,
        named: Iterable[tuple[Partition, int]],
        everything: Callable[[], Iterable[tuple[Partition, int]]],
        *,
        committed: bool,
    ) -> None:
        """Notes the positions of a Fetch.

        Args:
            connection: the reader.
            named: partitions and offsets that the request names.
            everything: the same of its whole session.
            committed: whether it is ``read_committed``.
        """
        if not connection.is_heard:
            return
        number = connection.client.connection or 0
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = _Reader(connection, self.round)
        rows = named
        if reader.round != self.round:
            reader.round = self.round
            reader.positions.clear()
            rows = everything()
        now_ns = self._wall_ns()
        # A client that asks for the same records again has dropped them.
        was_sent = reader.unread_since is not None
        self.heard(number)
        for partition, offset in rows:
            name = partition.name
            if reader.positions.get(name) == offset and not was_sent:
                continue
            reader.positions[name] = offset
            topic, _, index = name.rpartition("-")
            start = partition.log_start_offset
            self._tell(
                Asked(
                    connection.client, topic, int(index), offset, start, committed,
                    now_ns,
                )
            )  # fmt: skip

    def heard(self, connection: int) -> None:
        """Notes that a connection has read its last response, if it has."""
        reader = self._readers.get(connection)
        if reader is not None and reader.has_read:
            reader.unread_since = None
            self._tell(Read(reader.connection.client, self._wall_ns()))

    def sent(
        self,
        connection: Fetcher,
        partition: Partition,
        offset: int,
        result: ReadResult,
    ) -> Generator[None, None, None]:
        """Notes the row of one partition in a response to a Fetch."""
        if not connection.is_heard:
            # The client has closed its side, and reads no more responses.
            return
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            topic, _, index = partition.name.rpartition("-")
            client, start = connection.client, partition.log_start_offset
            now_ns = self._wall_ns()
            self._tell(OutOfRange(client, topic, int(index), offset, start, now_ns))
        if result.error_code or not result.size_in_bytes:
            return
        if 0 <= partition.readable(offset) <= result.size_in_bytes:
            # Everything in the log.
            end = partition.log_end_offset
        else:
            end = yield from _end_of(result.buffers, offset)
        if end > offset:
            self.delivered(connection, partition, offset, end)

    def delivered(
        self, connection: Fetcher, partition: Partition, offset: int, end: int
    ) -> None:
        """Notes that a response has the records from `offset` to `end`."""
        client = connection.client
        topic, _, index = partition.name.rpartition("-")
        reader = self._readers.get(client.connection or 0)
        if reader is not None:
            reader.unread_since = connection.reads
        self._tell(Sent(client, topic, int(index), offset, end, self._wall_ns()))

    def ended(self, connection: Fetcher, *, was_reset: bool) -> None:
        """Notes the end of a connection.

        If the client closed it, and the system did not reset it, no byte was unread.
        """
        reader = self._readers.pop(connection.client.connection or 0, None)
        if reader is not None:
            was_closed = not connection.is_heard and not was_reset
            was_read = reader.has_read or was_closed
            self._tell(Ended(connection.client, was_read, self._wall_ns()))

    def dropped(self, partition: Partition) -> None:
        """Notes that a partition was deleted."""
        topic, _, index = partition.name.rpartition("-")
        self._tell(Dropped(topic, int(index)))


def _end_of(buffers: Sequence[Buffer], offset: int) -> Generator[None, None, int]:
    """The offset after the last whole batch; `offset` if there is none.

    A batch may be in several buffers, and the last one may be cut off.
    """
    total = sum(map(len, buffers))
    position, index, start, count = 0, 0, 0, 0
    while position + _HEAD <= total:
        while position >= start + len(buffers[index]):
            start += len(buffers[index])
            index += 1
        head = bytes(buffers[index][position - start :][:_HEAD])
        following = index + 1
        while len(head) < _HEAD:
            head += bytes(buffers[following][: _HEAD - len(head)])
            following += 1
        base_offset, length = _START.unpack_from(head)
        position += _BEFORE_LENGTH + length
        if position > total:
            break
        offset = base_offset + _LAST_DELTA.unpack(head)[0] + 1
        count += 1
        if count % BATCHES_AT_ONCE == 0:
            yield
    return offset
