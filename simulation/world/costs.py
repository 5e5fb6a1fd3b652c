"""Costs of the coordinators: CPU time and bytes, which no event has."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns
from typing import Final

REBALANCE_APIS: Final = frozenset({11, 13, 14, 68})
"""JoinGroup, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat."""
KEY_AT: Final = 5
"""The last byte of the API key in a request, behind its size; the other one is 0."""


class Costs:
    """CPU time and bytes of requests by which members join, sync and leave.

    CPU time depends on the machine, so it is no part of the events.

    Attributes:
        cpu_ns: of these requests, and of the brokers' timers.
        wire_bytes: the bytes of these requests and of their responses.
    """

    __slots__ = ("cpu_ns", "wire_bytes")

    def __init__(self) -> None:
        self.cpu_ns = 0
        self.wire_bytes = 0

    def timed(self, callback: Callable[..., object], *args: object) -> None:
        """Calls a function, and counts its CPU time."""
        before = thread_time_ns()
        callback(*args)
        self.cpu_ns += thread_time_ns() - before
