"""Growth of topics and their partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.group_load import Connection, frame_of, message_of
from bench.growth.scene import Broker, Measure, Row, fresh, must_be

from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.records import Record, build_batch

PARTITIONS = 100
"""Partitions of each topic."""
AT_ONCE = 20
"""Topics of a request that only prepares a measurement."""
TIMES = 2_000
"""Requests of a measurement."""
ROWS_ASKED = 200_000
"""Partitions in the responses of a measurement, with all topics in each."""
HOUSEKEEPING_S = 2.0
"""Time of a measurement without requests."""
BATCH = build_batch([Record(0, 1_700_000_000_000, b"key", bytes(100))])


def name_of(number: int) -> str:
    """The name of a topic."""
    return f"topic-{number:04}"


def create(
    connection: Connection, first: int, count: int, partitions: int = PARTITIONS
) -> None:
    """Creates topics in one request."""
    new = [
        CreatableTopic(name_of(number), partitions, 1)
        for number in range(first, first + count)
    ]
    connection.send(frame_of("CreateTopics", CreateTopicsRequest(new)))
    answer = message_of("CreateTopics", connection.receive())
    for topic in answer.topics:
        must_be(topic.error_code)


def produce(topic: str, partition: int = 0) -> ProduceRequest:
    """A request with one record."""
    data = TopicProduceData(
        topic, partition_data=[PartitionProduceData(partition, BATCH)]
    )
    return ProduceRequest(None, 1, 30_000, [data])


def fetch(topic: str, partition: int, offset: int, min_bytes: int, wait_ms: int) -> Any:
    """A request for one partition, without a session."""
    rows = [FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic, partitions=rows)],
    )


# -- one topic of many


@contextlib.contextmanager
def _with_topics(count: int, *settings: str) -> Iterator[tuple[Broker, Connection]]:
    with (
        fresh(*settings) as broker,
        contextlib.closing(Connection(broker.address)) as connection,
    ):
        for first in range(0, count, AT_ONCE):
            create(connection, first, min(AT_ONCE, count - first))
        yield broker, connection


@contextlib.contextmanager
def _repeated(name: str, request: object, topics: int) -> Iterator[Measure]:
    frame = frame_of(name, request)
    with _with_topics(topics) as (broker, connection):

        def measure() -> float:
            before_us = broker.cpu_us()
            for _ in range(TIMES):
                connection.send(frame)
                connection.receive()
            return (broker.cpu_us() - before_us) / TIMES

        yield measure


@contextlib.contextmanager
def all_topics(topics: int) -> Iterator[Measure]:
    """Metadata of all topics; the cost is one partition's."""
    frame = frame_of("Metadata", MetadataRequest(None))
    times = max(1, ROWS_ASKED // (topics * PARTITIONS))
    with _with_topics(topics) as (broker, connection):

        def measure() -> float:
            before_us = broker.cpu_us()
            for _ in range(times):
                connection.send(frame)
                connection.receive()
            return (broker.cpu_us() - before_us) / times / (topics * PARTITIONS)

        yield measure


@contextlib.contextmanager
def housekeeping(topics: int) -> Iterator[Measure]:
    """Advances the time: each second checks retention and flushing."""
    with _with_topics(topics, "log.retention.check.interval.ms=1000") as (broker, _):

        def measure() -> float:
            before_us = broker.cpu_us()
            broker.served.runs_for(HOUSEKEEPING_S)
            passed_us = broker.cpu_us() - before_us
            return passed_us / (topics * PARTITIONS) / HOUSEKEEPING_S

        yield measure


# -- creation


@contextlib.contextmanager
def _creation(
    act: Callable[[Connection, int], None], topics: int, *, data: bool
) -> Iterator[Measure]:
    def measure() -> float:
        with (
            fresh(data=data) as broker,
            contextlib.closing(Connection(broker.address)) as connection,
        ):
            create(connection, topics, 1, 1)  # loads the code it needs
            read_us = broker.user_us if data else broker.cpu_us
            before_us = read_us()
            act(connection, topics)
            return (read_us() - before_us) / topics

    yield measure


def in_one_request(connection: Connection, topics: int) -> None:
    """Creates topics of one partition in one request."""
    create(connection, 0, topics, 1)


def one_by_one(connection: Connection, topics: int) -> None:
    """Creates topics of one partition, each in a request."""
    for number in range(topics):
        create(connection, number, 1, 1)


def _creation_row(name: str, act: Callable[[Connection, int], None], data: bool) -> Row:
    where = "data directory, user mode" if data else "memory"
    return Row(
        f"create a topic, topics {name}, {where}",
        "topic",
        (100, 500, 2_000),
        (500, 2_000),  # a tick of 10 ms is little in the time of 500
        2.0,
        "a topic that exists is not looked at"
        + (", and its entry not written again" if data else ""),
        partial(_creation, act, data=data),
    )


ROWS = [
    Row(
        "Metadata of one topic, topics of 100 partitions",
        "request",
        (10, 100, 1_000),
        (10, 100),
        2.0,
        "a topic is found by its name, in a dict",
        partial(
            _repeated,
            "Metadata",
            MetadataRequest([MetadataRequestTopic(name=name_of(1))]),
        ),
    ),
    Row(
        "Metadata of all topics, topics of 100 partitions",
        "partition",
        (10, 100, 1_000),
        (10, 100),
        1.5,
        "equal rows are encoded once; long responses are copied once more",
        all_topics,
    ),
    Row(
        "Produce to one partition, topics of 100 partitions",
        "request",
        (10, 100, 1_000),
        (10, 100),
        1.5,
        "as above",
        partial(_repeated, "Produce", produce(name_of(1))),
    ),
    Row(
        "Fetch of one partition, topics of 100 partitions",
        "request",
        (10, 100, 1_000),
        (10, 100),
        1.5,
        "as above",
        partial(_repeated, "Fetch", fetch(name_of(1), 0, 0, 0, 0)),
    ),
    Row(
        "a second without a request, topics of 100 partitions",
        "partition",
        (10, 100, 1_000),
        (10, 100),
        1.5,
        "retention looks at each partition once; the smallest size bears the idle loop",
        housekeeping,
    ),
    _creation_row("in one request", in_one_request, data=False),
    _creation_row("one by one", one_by_one, data=False),
    _creation_row("in one request", in_one_request, data=True),
    _creation_row("one by one", one_by_one, data=True),
]
