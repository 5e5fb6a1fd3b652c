"""Notes of fetches: the input of the account of delivery, besides events.

All have the client with the number of its connection, and `wall_ns`, the time by the
machine's clock.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.broker.notice import Client


class Asked(NamedTuple):
    """A Fetch asks for another offset than the connection's last one did.

    Attributes:
        client: the reader.
        topic, partition: the partition.
        offset: the first offset that the client wants.
        log_start: the log's first offset.
        is_committed: whether the reader is ``read_committed``.
        wall_ns: when.
    """

    client: Client
    topic: str
    partition: int
    offset: int
    log_start: int
    is_committed: bool
    wall_ns: int


class Sent(NamedTuple):
    """A response has records, from the offset that was asked for to `end`."""

    client: Client
    topic: str
    partition: int
    offset: int
    end: int
    wall_ns: int


class OutOfRange(NamedTuple):
    """A Fetch was answered with OFFSET_OUT_OF_RANGE."""

    client: Client
    topic: str
    partition: int
    offset: int
    log_start: int
    wall_ns: int


class Read(NamedTuple):
    """The connection has sent another Fetch: its client read the last response."""

    client: Client
    wall_ns: int


class Ended(NamedTuple):
    """The connection is gone.

    Attributes:
        client: the reader.
        was_read: whether it had sent another request after the last response.
        wall_ns: when.
    """

    client: Client
    was_read: bool
    wall_ns: int


class Dropped(NamedTuple):
    """A partition was deleted; a new one of the same name has other records."""

    topic: str
    partition: int


Note = Asked | Sent | OutOfRange | Read | Ended | Dropped
