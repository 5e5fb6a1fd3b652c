"""The producer: records are sent in batches and read back unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.deadlines import pass_deadline_after_failure
from tests.client.producer_stage import (
    all_records,
    batches,
    producer,
    records,
    values,
)
from tests.client.stage import PATIENCE, consumer

from kohort.broker.server import Broker
from kohort.client import Admin, NewTopic, TopicPartition
from kohort.client.errors import (
    ClosedError,
    InvalidTopicError,
    MessageTooLargeError,
    RequestTimedOutError,
    SerializationError,
    UnknownTopicError,
)
from kohort.client.producing.partitioners import (
    RoundRobinPartitioner,
    partition_for_key,
)
from kohort.protocol.compression import CODECS


@pytest.fixture(params=[1, 3])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """A cluster whose topics have three partitions."""
    config = {"num.partitions": 3}
    async with Broker(config, nodes=request.param) as made:
        yield made


# -- delivery


@pytest.mark.parametrize("codec", CODECS)
async def test_records_are_read_back_as_they_were_sent(
    broker: Broker, codec: str
) -> None:
    """Keys, values, headers and timestamps, null and empty; each at its offset."""
    rows: list[tuple[Any, ...]] = [
        (b"k", b"v", 1_000, []),
        (None, b"v" * 40_000, 999, [("a", b"1"), ("a", None), ("ß", b"")]),
        (b"", None, 1_700_000_000_000, []),
        (None, b"", 0, [("", b"x")]),
        *((b"%d" % n, b"v" * n, n, []) for n in range(200)),
    ]
    async with producer(broker, compression_type=codec) as sender:
        deliveries = [
            await sender.send("t", value, key, n % 3, at, headers)
            for n, (key, value, at, headers) in enumerate(rows)
        ]
        places = await asyncio.gather(*deliveries)
    found = all_records(broker, "t")
    for n, (row, place) in enumerate(zip(rows, places, strict=True)):
        assert (place.topic, place.partition, place.timestamp) == ("t", n % 3, row[2])
        record = found[place.partition][place.offset]
        assert (record.key, record.value, record.timestamp_ms) == row[:3]
        assert list(record.headers) == row[3]
    assert sum(map(len, found)) == len(rows)
    assert {b.codec for p in range(3) for b in batches(broker, "t", p)} == {
        CODECS.index(codec)
    }


@pytest.mark.parametrize("acks", ["0", "1", "all", 0, -1])
async def test_acks_of_all_kinds_deliver(broker: Broker, acks: object) -> None:
    """With acks=0 there is no offset; only acks=all has sequence numbers."""
    async with producer(broker, acks=acks) as sender, consumer(broker) as reader:
        place = await sender.send_and_wait("t", b"v", partition=1)
        assert place.offset == (-1 if acks in {"0", 0} else 0)
        reader.assign([TopicPartition("t", 1)])
        assert (await reader.getone()).value == b"v"
    (batch,) = batches(broker, "t", 1)
    assert (batch.producer_id >= 0) == (acks in {"all", -1})


async def test_the_topic_may_have_its_own_time(broker: Broker) -> None:
    """With LogAppendTime the response has it."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        configs = {"message.timestamp.type": "LogAppendTime"}
        (await admin.create_topics([NewTopic("t", configs=configs)])).check()
    async with producer(broker) as sender:
        place = await sender.send_and_wait("t", b"v", partition=0, timestamp_ms=1)
    (record,) = records(broker, "t")
    assert place.timestamp == record.timestamp_ms > 1


# -- partitions


async def test_keys_go_where_their_hash_says_and_stay_in_order(broker: Broker) -> None:
    """Four tasks send at once."""
    async with producer(broker, batch_size=300) as sender:

        async def send(key: bytes) -> None:
            for n in range(100):
                await sender.send("t", b"%d" % n, key=key)

        await asyncio.gather(*(send(b"k%d" % n) for n in range(4)))
    for number, rows in enumerate(all_records(broker, "t")):
        keys = {row.key or b"" for row in rows}
        assert {partition_for_key(key, 3) for key in keys} <= {number}
        for key in keys:
            found = [row.value for row in rows if row.key == key]
            assert found == [b"%d" % n for n in range(100)]


async def test_records_without_keys_fill_batches_and_reach_all_partitions(
    broker: Broker,
) -> None:
    """Almost 1,000 bytes in each batch but the last, and equal partitions."""
    async with producer(broker, batch_size=1_000, linger_ms=10_000) as sender:
        for _ in range(900):
            await sender.send("t", b"v" * 90)
    found = [batches(broker, "t", number) for number in range(3)]
    counts = [batch.record_count for rows in found for batch in rows]
    assert sum(counts) == 900
    assert counts.count(max(counts)) >= len(counts) - 3
    assert max(counts) == 9
    assert all(len(rows) > 10 for rows in found)


async def test_a_partitioner_may_be_ones_own(broker: Broker) -> None:
    """It gets topic, key and partitions, and must return a partition."""
    seen: list[object] = []

    def choose(topic: str, key: bytes | None, every: Any, available: Any) -> int:
        seen.append((topic, key, list(every), list(available)))
        return int(key or b"0")

    async with producer(broker, partitioner=choose) as sender:
        assert (await sender.send_and_wait("t", b"v", b"2")).partition == 2
        assert seen == [("t", b"2", [0, 1, 2], [0, 1, 2])]
        with pytest.raises(UnknownTopicError, match="topic 't', partition 3"):
            await sender.send("t", b"v", b"3")
    async with producer(broker, partitioner=RoundRobinPartitioner()) as sender:
        places = [await sender.send_and_wait("t", b"v", b"k") for _ in range(4)]
        assert [place.partition for place in places] == [0, 1, 2, 0]


async def test_keys_may_be_left_out_of_account(broker: Broker) -> None:
    """partitioner.ignore.keys: the same key is in several partitions."""
    settings = {"partitioner_ignore_keys": True, "batch_size": 200}
    async with producer(broker, **settings) as sender:
        for _ in range(100):
            await sender.send("t", b"v", b"k")
    assert sum(bool(rows) for rows in all_records(broker, "t")) > 1


async def test_a_partition_that_there_is_not_is_waited_for(broker: Broker) -> None:
    """It may be created meanwhile; otherwise the timeout error names it."""
    async with producer(broker, max_block_ms=30) as sender:
        with pytest.raises(RequestTimedOutError, match="topic 't', partition 3: "):
            await sender.send("t", b"v", partition=3)
    async with producer(broker) as sender, asyncio.TaskGroup() as group:
        with pytest.raises(UnknownTopicError, match="partition -1"):
            await sender.send("t", b"v", partition=-1)
        sending = group.create_task(sender.send_and_wait("t", b"v", partition=3))
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            (await admin.create_partitions({"t": 4})).check()
        assert (await sending).partition == 3


# -- topics


async def test_a_topic_is_made_by_sending_to_it(broker: Broker) -> None:
    """With auto.create.topics.enable; its partitions can be listed."""
    async with producer(broker) as sender:
        rows = await sender.partitions_for("t")
        assert [row.partition for row in rows] == [0, 1, 2]
        assert (await sender.send_and_wait("u", b"v", partition=0)).offset == 0


async def test_a_topic_that_cannot_be_fails_at_once(broker: Broker) -> None:
    """Its name is invalid."""
    async with producer(broker) as sender:
        with pytest.raises(InvalidTopicError, match="topic 'a b'"):
            await sender.send("a b", b"v")


async def test_a_topic_that_is_not_made_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without auto creation, the timeout error gives the reason."""
    config = {"auto.create.topics.enable": False}
    async with Broker(config) as broker, producer(broker) as sender:
        pass_deadline_after_failure(monkeypatch)
        with pytest.raises(RequestTimedOutError) as caught:
            await sender.send("t", b"v")
        assert "Metadata, topic 't': timed out" in str(caught.value)
        assert isinstance(caught.value.__cause__, UnknownTopicError)


# -- invalid records


async def test_serializers_make_bytes_and_their_errors_are_the_senders() -> None:
    """Other types than bytes need a serializer; None does not pass through it."""
    async with Broker() as broker:
        async with producer(broker) as sender:
            for bad in ({"value": "text"}, {"key": 1}, {"headers": [("a", "b")]}):
                with pytest.raises(SerializationError, match="topic 't': "):
                    await sender.send("t", **bad)
            for time in (-1, 1.5, 2**63):
                with pytest.raises(SerializationError, match="timestamp_ms"):
                    await sender.send("t", b"v", timestamp_ms=time)  # type: ignore[arg-type]
            await sender.send_and_wait("t", bytearray(b"v"), memoryview(b"k"))
        text = {"value_serializer": str.encode, "key_serializer": str.encode}
        async with producer(broker, **text) as sender:
            await sender.send_and_wait("t", "value", "key")
            with pytest.raises(SerializationError, match="serializer failed") as caught:
                await sender.send("t", 1)
            assert isinstance(caught.value.__cause__, TypeError)
            await sender.send_and_wait("t", "no key")
        found = [(record.key, record.value) for record in records(broker, "t")]
        assert found == [(b"k", b"v"), (b"key", b"value"), (None, b"no key")]


async def test_a_record_that_is_too_large_is_refused_at_once() -> None:
    """For a request, or for the memory; the error says which."""
    async with Broker() as broker:
        async with producer(broker, max_request_size=1_000) as sender:
            with pytest.raises(MessageTooLargeError, match="max_request_size is 1000"):
                await sender.send("t", b"v" * 1_000)
        async with producer(broker, buffer_memory=900) as sender:
            with pytest.raises(MessageTooLargeError, match="buffer_memory is 900"):
                await sender.send("t", b"v" * 900)
            await sender.send_and_wait("t", b"v" * 800)


# -- memory


async def test_senders_wait_for_memory_and_all_is_sent(broker: Broker) -> None:
    """Ten tasks send 200 KB through 20 KB."""
    settings = {"buffer_memory": 20_000, "batch_size": 2_000, "linger_ms": 10_000}
    async with producer(broker, **settings) as sender:

        async def send(number: int) -> None:
            for n in range(40):
                value = b"%d:%d:" % (number, n) + b"v" * 500
                await sender.send("t", value, key=b"%d" % number)

        await asyncio.gather(*map(send, range(10)))
    found = [row for rows in all_records(broker, "t") for row in rows]
    assert len(found) == 400
    for number in range(10):
        mine = [r.value or b"" for r in found if r.key == b"%d" % number]
        assert [int(v.split(b":")[1]) for v in mine] == list(range(40))


async def test_a_send_that_is_cancelled_sends_nothing(broker: Broker) -> None:
    """At any await: for metadata, for its turn, for memory."""
    size = 5_000

    async def make() -> None:
        async with producer(broker, buffer_memory=size + 200, linger_ms=0) as sender:
            await sender.send("t", b"before", partition=0)
            await sender.send("t", b"v" * size, partition=0)
            returned.append(1)

    returned: list[int] = []

    async def afterwards() -> None:
        found = values(broker, "t") if "t" in broker.cluster.topics.by_name else []
        # Of those that returned, some were cancelled in `close`.
        assert found.count(b"v" * size) <= len(returned)

    assert await cancel_at_every_await(make, afterwards) >= 4
    assert b"v" * size in values(broker, "t")


# -- the end


async def test_flush_sends_what_lingers() -> None:
    """All records are written afterwards; an empty flush does not wait."""
    async with Broker() as broker, producer(broker, linger_ms=60_000) as sender:
        await sender.flush()
        deliveries = [await sender.send("t", b"%d" % n) for n in range(10)]
        await asyncio.gather(sender.flush(), sender.flush())
        assert all(delivery.done() for delivery in deliveries)
        assert len(batches(broker, "t")) == 1


async def test_close_sends_what_lingers_and_then_no_more() -> None:
    """Later calls raise an error."""
    async with Broker() as broker, asyncio.timeout(PATIENCE):
        sender = producer(broker, linger_ms=60_000)
        await sender.start()
        delivery = await sender.send("t", b"v")
        await asyncio.gather(sender.close(), sender.close())
        assert delivery.result().offset == 0
        for call in (sender.flush(), sender.partitions_for("t")):
            with pytest.raises(ClosedError):
                await call
        assert values(broker, "t") == [b"v"]
