"""The fetches of clients, as noted for the account of delivery."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from tests.wire import requests
from tests.wire.client import WireClient, connected

from kohort.broker.events.delivery.notes import (
    Asked,
    Dropped,
    Ended,
    Note,
    OutOfRange,
    Sent,
)
from kohort.broker.fetch_watch import BATCHES_AT_ONCE, FetchWatch
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import ReadResult
from kohort.broker.long_work import finish
from kohort.broker.notice import Client
from kohort.broker.server import Broker
from kohort.protocol.records import Record, build_batch


class Connected:
    """A connection of a client."""

    client = Client("c", "/h", 1)
    is_heard = True
    reads = 0


def watching() -> tuple[FetchWatch, list[Note]]:
    """A watch, and its notes."""
    notes: list[Note] = []
    return FetchWatch(notes.append, time.time_ns), notes


def noted(data: bytes, *cuts: int, offset: int = 0) -> int:
    """The noted end of a response with this data, split into buffers at places."""
    places = [0, *cuts, len(data)]
    buffers = [data[start:stop] for start, stop in pairwise(places)]
    (watch, notes), log = watching(), Partition("t-0")
    finish(watch.sent(Connected(), log, offset, ReadResult(0, buffers, -1)))
    return notes[0].end if notes and isinstance(notes[0], Sent) else offset


def batches(*sizes: int) -> bytes:
    """Batches of the given numbers of records, from offset 0 on."""
    data, offset = b"", 0
    for size in sizes:
        data += build_batch([Record(value=b"v")] * size, base_offset=offset)
        offset += size
    return data


def test_the_end_of_an_answer_is_that_of_its_last_whole_batch() -> None:
    """Kafka cuts off the last batch if there is no room for it."""
    data = batches(3, 2, 4)
    assert noted(data) == 9
    assert noted(data[:-1]) == 5
    assert noted(data[:20]) == 0
    assert noted(data[:20], offset=7) == 7


@pytest.mark.parametrize("size", [1, 7, 26, 27, 28, 61, 100])
def test_a_batch_may_be_in_several_buffers(size: int) -> None:
    """Even a batch's header may be in several buffers."""
    data = batches(1, 2, 3, 4)
    assert noted(data, *range(size, len(data), size)) == 10


def test_many_batches_take_turns() -> None:
    """A fetch of tiny batches does not block other work."""
    data = batches(*[1] * (2 * BATCHES_AT_ONCE + 1))
    watch, _ = watching()
    work = watch.sent(Connected(), Partition("t-0"), 0, ReadResult(0, [data], -1))
    assert sum(1 for _ in work) == 2


async def fetched(client: WireClient, offset: int) -> None:
    """Fetches from an offset on."""
    await client.call("Fetch", 12, requests.fetch(offset))


def of_partition(notes: list[Note]) -> list[tuple[str, int, int]]:
    """The notes of a partition: kind, offset, and number of the connection."""
    return [
        (type(note).__name__, note.offset, note.client.connection or 0)
        for note in notes
        if isinstance(note, Asked | Sent | OutOfRange)
    ]


async def test_only_news_is_noted() -> None:
    """A first position, one behind new records, a jump; not one that waits on."""
    watch, notes = watching()
    async with (
        Broker() as broker,
        connected(broker) as one,
        connected(broker) as two,
    ):
        broker.cluster.fetch_watch = watch
        broker.cluster.create_topic("t", 1)
        await one.call("Produce", 9, requests.produce((0, batches(5))))
        for offset in (0, 5, 5, 5, 3, 99):
            await fetched(one, offset)
        await fetched(two, 5)
        assert of_partition(notes) == [
            ("Asked", 0, 1),
            ("Sent", 0, 1),
            ("Asked", 5, 1),
            ("Asked", 3, 1),
            ("Sent", 3, 1),
            ("Asked", 99, 1),
            ("OutOfRange", 99, 1),
            ("Asked", 5, 2),
        ]


async def test_each_assignment_makes_positions_news() -> None:
    """A member that gets its partition back may ask for the same offset again."""
    watch, notes = watching()
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.fetch_watch = watch
        broker.cluster.create_topic("t", 1)
        await fetched(client, 0)
        await fetched(client, 0)
        watch.round += 1
        await fetched(client, 0)
        assert of_partition(notes) == [("Asked", 0, 1), ("Asked", 0, 1)]


async def test_a_response_counts_as_read_when_the_client_closes() -> None:
    """Unless it had not read all of it: then the system resets the connection."""
    watch, notes = watching()
    async with Broker() as broker:
        broker.cluster.fetch_watch = watch
        broker.cluster.create_topic("t", 1)
        async with connected(broker) as one, connected(broker) as two:
            await one.call("Produce", 9, requests.produce((0, batches(5))))
            one.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await one.send("Fetch", 11, requests.fetch(0))
            await fetched(two, 0)
            one.writer.transport.abort()
    ended = {n.client.connection: n.was_read for n in notes if isinstance(n, Ended)}
    assert ended == {1: False, 2: True}


async def test_a_deleted_topic_is_noted() -> None:
    """The records of a new topic with its name are different ones."""
    watch, notes = watching()
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.fetch_watch = watch
        broker.cluster.create_topic("t", 1)
        await client.call("DeleteTopics", 6, requests.delete_topics("t"))
        assert notes == [Dropped("t", 0)]
