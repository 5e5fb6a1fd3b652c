"""Growth of fetches that wait for records."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from functools import partial

from bench.group_load import Connection, frame_of, message_of
from bench.growth.scene import Broker, Measure, Row, fresh, must_be
from bench.growth.topics import create, fetch, name_of, produce

from kohort.protocol.apis.k03_metadata import MetadataRequest

APPENDS = 1_000
"""Appends of a measurement, to a partition that no fetch waits for."""
DEPTH = 10
"""Requests of a connection that are sent before the first response is read: alone,
much of an append's cost would be the wake of the broker, which varies."""
WAKES = 4_000
"""Fetches of a measurement that an append has answered."""
LONG_MS = 600_000
MUCH = 1 << 30
"""Bytes that never come."""
WAITED, OTHER = 0, 1
"""Partitions."""


def append(connection: Connection, partition: int, times: int) -> None:
    """Appends records, each with a request, `DEPTH` requests at once."""
    frame = frame_of("Produce", produce(name_of(0), partition))
    for done in range(0, times, DEPTH):
        count = min(DEPTH, times - done)
        connection.send(frame * count)
        for _ in range(count):
            (topic,) = message_of("Produce", connection.receive()).responses
            must_be(topic.partition_responses[0].error_code)


def settle(connection: Connection) -> None:
    """Returns when the broker has read all earlier requests."""
    for _ in range(10):
        connection.send(frame_of("Metadata", MetadataRequest([])))
        connection.receive()


@contextlib.contextmanager
def _waiting(
    count: int, min_bytes: int
) -> Iterator[tuple[Broker, Connection, list[Connection]]]:
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(fresh())
        producer = stack.enter_context(contextlib.closing(Connection(broker.address)))
        create(producer, 0, 1, 2)
        frame = frame_of("Fetch", fetch(name_of(0), WAITED, 0, min_bytes, LONG_MS))
        waiting = []
        for _ in range(count):
            connection = Connection(broker.address)
            stack.callback(connection.close)
            connection.send(frame)
            waiting.append(connection)
        settle(producer)
        yield broker, producer, waiting


@contextlib.contextmanager
def _appends(count: int, min_bytes: int, partition: int) -> Iterator[Measure]:
    with _waiting(count, min_bytes) as (broker, producer, _):

        def measure() -> float:
            before_us = broker.cpu_us()
            append(producer, partition, APPENDS)
            return (broker.cpu_us() - before_us) / APPENDS

        yield measure


@contextlib.contextmanager
def append_too_little(count: int) -> Iterator[Measure]:
    """Appends to a partition, too little for all fetches that wait for it."""
    with _appends(count, MUCH, WAITED) as measure:
        yield lambda: measure() / count


@contextlib.contextmanager
def answered(count: int) -> Iterator[Measure]:
    """Each append answers all fetches, which then wait for the next."""
    with _waiting(count, 1) as (broker, producer, waiting):
        offsets = itertools.count(1)

        def measure() -> float:
            times = max(1, WAKES // count)
            before_us = broker.cpu_us()
            for _ in range(times):
                append(producer, WAITED, 1)
                topic = name_of(0)
                request = fetch(topic, WAITED, next(offsets), 1, LONG_MS)
                frame = frame_of("Fetch", request)
                for connection in waiting:
                    connection.receive()
                    connection.send(frame)
                settle(producer)
            return (broker.cpu_us() - before_us) / times / count

        yield measure


ROWS = [
    Row(
        "append to one partition, fetches that wait for another",
        "append",
        (10, 200, 2_000),
        (10, 500),
        1.5,
        "only the fetches that wait for the partition are looked at",
        partial(_appends, min_bytes=1, partition=OTHER),
    ),
    Row(
        "append too little, fetches that wait for more",
        "fetch",
        (200, 1_000, 2_000),
        (100, 500),
        1.5,
        "each fetch counts its bytes; the append itself is shared by more fetches",
        append_too_little,
    ),
    Row(
        "append, fetches that it answers",
        "fetch",
        (20, 200, 2_000),
        (20, 500),
        1.5,
        "the append itself is shared by more fetches",
        answered,
    ),
]
