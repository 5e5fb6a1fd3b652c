"""The records sent to clients, as noted by a broker that watches fetches."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.wire import requests
from tests.wire.client import WireClient, connected

from kohort.broker.coordinator.events import Client
from kohort.broker.fetch_watch import BATCHES_AT_ONCE, FetchWatch
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import ReadResult
from kohort.broker.long_work import finish
from kohort.broker.server import Broker
from kohort.protocol.records import Record, build_batch


def noted(data: bytes, *cuts: int, offset: int = 0) -> int:
    """The noted end of a response with this data, split into buffers at places."""
    places = [0, *cuts, len(data)]
    buffers = [data[start:stop] for start, stop in pairwise(places)]
    watch, log = FetchWatch(), Partition("t-0")
    client = Client("c", "/h", 1)
    result = ReadResult(0, buffers, -1)
    finish(watch.sent(client, log, offset, result))
    return watch.runs["t-0"][0].end


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
    watch, log = FetchWatch(), Partition("t-0")
    work = watch.sent(Client("c", "/h", 1), log, 0, ReadResult(0, [data], -1))
    assert sum(1 for _ in work) == 2


async def fetched(client: WireClient, offset: int) -> None:
    """Fetches from an offset on."""
    await client.call("Fetch", 12, requests.fetch(offset))


async def test_consecutive_answers_are_one_run() -> None:
    """A jump, and another connection, begin a new run."""
    async with (
        Broker(watch_fetches=True) as broker,
        connected(broker) as one,
        connected(broker) as two,
    ):
        broker.cluster.create_topic("t", 1)
        for offset in (0, 5):
            await one.call("Produce", 9, requests.produce((0, batches(5))))
            await fetched(one, offset)
        await fetched(one, 10)
        await fetched(two, 10)
        await fetched(one, 3)
        watch = broker.cluster.fetch_watch
        assert watch is not None
        runs = watch.runs["t-0"]
        assert [(each.first, each.end) for each in runs] == [(0, 10), (10, 10), (3, 10)]
        assert [each.client.connection for each in runs] == [1, 2, 1]


async def test_a_deleted_topic_is_forgotten() -> None:
    """The records of a new topic with its name are different ones."""
    async with Broker(watch_fetches=True) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await client.call("Produce", 9, requests.produce((0, batches(5))))
        await fetched(client, 0)
        watch = broker.cluster.fetch_watch
        assert watch is not None
        assert watch.runs.keys() == {"t-0"}
        await client.call("DeleteTopics", 6, requests.delete_topics("t"))
        assert not watch.runs
