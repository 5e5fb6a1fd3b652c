"""Costs of the coordinators: CPU time and bytes, which no event has."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from time import thread_time_ns
from typing import Final

from kohort.protocol.fields import Buffer

_REBALANCE_APIS: Final = frozenset({11, 13, 14, 68})
"""JoinGroup, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat."""
_KEY = struct.Struct(">4xh").unpack_from
_SHORTEST: Final = 6


class Costs:
    """CPU time and bytes of requests by which members join, sync and leave.

    CPU time depends on the machine, so it is no part of the events.

    Attributes:
        cpu_ns: of these requests, and of the brokers' timers.
        requests: the number of these requests.
        all_requests: the number of all requests.
        wire_bytes: the bytes of these requests and of their responses.
    """

    __slots__ = ("all_requests", "cpu_ns", "requests", "wire_bytes")

    def __init__(self) -> None:
        self.cpu_ns = 0
        self.requests = 0
        self.all_requests = 0
        self.wire_bytes = 0

    def request(self, handle: Callable[[bytes], None], data: bytes) -> None:
        """Handles bytes of a request."""
        self.all_requests += 1
        if len(data) < _SHORTEST or _KEY(data)[0] not in _REBALANCE_APIS:
            handle(data)
            return
        self.requests += 1
        self.wire_bytes += len(data)
        self.timed(handle, data)

    def response(self, key: int, parts: Sequence[Buffer]) -> None:
        """Counts the bytes of a response to a request of an API key."""
        if key in _REBALANCE_APIS:
            self.wire_bytes += sum(map(len, parts))

    def timed(self, callback: Callable[..., object], *args: object) -> None:
        """Calls a function, and counts its CPU time."""
        before = thread_time_ns()
        callback(*args)
        self.cpu_ns += thread_time_ns() - before
