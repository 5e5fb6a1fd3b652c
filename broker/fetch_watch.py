"""Notes the records sent to each client, by partition.

A Fetch names no group and no member, and events of fetches would outnumber all others.
So this is off by default; `Broker(watch_fetches=True)` turns it on. It shows whether
records were delivered again after a partition moved to another member
(`control.group_moves`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator, Sequence
from typing import Final

from kohort.broker.clock import wall_ns
from kohort.broker.coordinator.events import Client
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import ReadResult
from kohort.protocol.fields import Buffer

MOST_RUNS: Final = 64
"""Runs kept per partition, the latest: its last 64 readers, or jumps."""
BATCHES_AT_ONCE: Final = 500
"""Batches checked before other tasks run: half a millisecond."""

_START = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">23xi")
_HEAD: Final = _LAST_DELTA.size
_BEFORE_LENGTH: Final = 12
"""Bytes of a batch that its length does not count."""


class Run:
    """Consecutive records of a partition that one connection was sent.

    Attributes:
        client: the client, with the number of its connection.
        first: the offset that it asked for first.
        since_ns: when that was answered, by the machine's clock.
        end: the offset after the last record sent.
        until_ns: when the last response was sent.
        end_before: `end` before that response: a client that has just revoked a
            partition throws away a response in flight.
    """

    __slots__ = ("client", "end", "end_before", "first", "since_ns", "until_ns")

    def __init__(self, client: Client, first: int, end: int, now_ns: int) -> None:
        self.client = client
        self.first = self.end_before = first
        self.end = end
        self.since_ns = self.until_ns = now_ns

    def end_at(self, time_ns: int) -> int:
        """The offset after the last record sent by that time."""
        return self.end if self.until_ns <= time_ns else self.end_before


class FetchWatch:
    """The records sent, by the name of the partition ("orders-0").

    Attributes:
        runs: oldest first.
    """

    def __init__(self) -> None:
        self.runs: dict[str, deque[Run]] = {}

    def sent(
        self, client: Client, partition: Partition, offset: int, result: ReadResult
    ) -> Generator[None, None, None]:
        """Notes the records of one partition in a response to a Fetch."""
        if 0 <= partition.readable(offset) <= result.size_in_bytes:
            # Everything in the log.
            end = partition.log_end_offset
        else:
            end = yield from _end_of(result.buffers, offset)
        runs = self.runs.get(partition.name)
        if runs is None:
            runs = self.runs[partition.name] = deque(maxlen=MOST_RUNS)
        last = runs[-1] if runs else None
        now_ns = wall_ns()
        if last is None or last.end != offset or last.client[2] != client[2]:
            runs.append(Run(client, offset, end, now_ns))
        elif end > offset:
            last.end_before, last.end, last.until_ns = offset, end, now_ns


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
