"""Batches that are too large for the topic are split (MESSAGE_TOO_LARGE)."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest
from tests.client.producer_stage import (
    Leader,
    answering,
    batches,
    made,
    producer,
    records,
    values,
)
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client.errors import MessageTooLargeError
from kohort.client.producing.batches import Batch, encode_tail
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import read_header, read_records

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LIMIT = 1_000
LIMITED: dict[str, Any] = {"max.message.bytes": str(LIMIT)}
"""A topic setting: batches of at most 1,000 bytes."""


def noise(number: int, size: int = 150) -> bytes:
    """A value that does not compress."""
    return b"%04d" % number + random.Random(number).randbytes(size)


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}])
@pytest.mark.parametrize("codec", CODECS)
async def test_a_batch_is_divided_until_it_is_small_enough(
    codec: str, settings: dict[str, Any]
) -> None:
    """50 records in a batch of 8 KB: all are written, once, in order."""
    async with Broker() as broker, asyncio.timeout(PATIENCE):
        await made(broker, **LIMITED)
        several = {"linger_ms": 1_000, "compression_type": codec, **settings}
        async with producer(broker, **several) as sender:
            deliveries = [
                await sender.send(
                    "t",
                    noise(n),
                    b"k%d" % n,
                    timestamp_ms=1_000 - n,
                    headers=[("h", b"")],
                )
                for n in range(50)
            ]
            await sender.flush()
            placed = [delivery.result() for delivery in deliveries]
        assert [where.offset for where in placed] == list(range(50))
        assert values(broker, "t") == [noise(n) for n in range(50)]
        for number, record in enumerate(records(broker, "t")):
            assert record.key == b"k%d" % number
            assert record.timestamp_ms == 1_000 - number == placed[number].timestamp
            assert [*record.headers] == [("h", b"")]
        for batch in batches(broker, "t"):
            assert batch.size <= LIMIT
        if not settings:
            numbers = [(b.base_sequence, b.record_count) for b in batches(broker, "t")]
            assert all(s + count == then for (s, count), (then, _) in pairwise(numbers))


async def test_one_record_that_is_too_large_fails_alone() -> None:
    """The others in the batch, before and after it, are written in order."""
    async with Broker() as broker, asyncio.timeout(PATIENCE):
        await made(broker, **LIMITED)
        async with producer(broker, linger_ms=1_000) as sender:
            deliveries = []
            for number in range(40):
                size = 2_000 if number in {0, 17, 18} else 100
                deliveries.append(await sender.send("t", noise(number, size)))
            await sender.flush()
            more = await sender.send_and_wait("t", b"behind")
        outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        failed = [n for n, each in enumerate(outcomes) if isinstance(each, Exception)]
        assert failed == [0, 17, 18]
        for number in failed:
            error = outcomes[number]
            assert isinstance(error, MessageTooLargeError)
            assert not error.retriable
            assert "(node 1), topic 't', partition 0: " in str(error)
        good = [noise(n, 100) for n in range(40) if n not in failed]
        assert values(broker, "t") == [*good, b"behind"]
        assert more.offset == len(good)


async def test_what_is_under_way_behind_it_stays_behind_it() -> None:
    """Five batches in flight, each too large; every third response is lost."""
    settings = {"linger_ms": 5, "batch_size": 3_000, "retry_backoff_ms": 1}
    async with asyncio.timeout(PATIENCE), Broker() as broker:
        rule = broker.faults.disconnect("Produce", "after", every=3)
        await made(broker, **LIMITED)
        async with producer(broker, **settings) as sender:
            await sender.send_and_wait("t", noise(0))
            for number in range(1, 200):
                await sender.send("t", noise(number))
            await sender.flush()
        assert rule.strikes > 3
        assert values(broker, "t") == [noise(n) for n in range(200)]


async def test_parts_do_not_count_as_attempts() -> None:
    """With one retry, a part that fails once for another reason is retried."""
    leader = answering(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS)
    async with leader, producer(leader, linger_ms=1_000, retries=1) as sender:
        both = [await sender.send("t", b"v", partition=0) for _ in range(2)]
        await sender.flush()
        await asyncio.gather(*both)
    numbers = [(b.base_sequence, b.record_count) for b in leader.batches]
    assert numbers == [(0, 2), (0, 1), (0, 1), (1, 1)]


async def test_close_gives_parts_up_too() -> None:
    """The broker does not respond after its MESSAGE_TOO_LARGE."""
    codes = [ErrorCode.MESSAGE_TOO_LARGE]

    def answer(asked: Any) -> None:
        if codes:
            leader.say(asked, codes.pop())

    async with Leader(answer) as leader, asyncio.timeout(PATIENCE):
        sender = producer(leader, linger_ms=0, batch_size=100_000)
        await sender.start()
        deliveries = [await sender.send("t", b"v", partition=0) for _ in range(3)]
        await leader.has_got("Produce", 2)
        await sender.close(timeout_ms=0)
        outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        assert [type(each).__name__ for each in outcomes] == ["ClosedError"] * 3


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("sizes", [[1, 1], [900, 1, 1], [1, 1, 900], [10] * 100])
def test_halves_are_the_records_of_the_whole(codec: int, sizes: list[int]) -> None:
    """The parts are about equal, in order, with the numbers of the whole."""
    whole = Batch("t", 0, 7, 0.0, 1.0)
    for number, size in enumerate(sizes):
        tail = encode_tail(b"k", bytes(size), [("h", None)])
        whole.append(tail, 1_000 + 300 * number, number)
    whole.number(5, 1, 2**31 - 2)  # numbers go on from 0 after the largest
    whole.attempts = 1
    before = read_records(b"".join(whole.seal(codec)))
    left, right = whole.halves(codec)
    assert left.deliveries + right.deliveries == list(range(len(sizes)))
    assert left.place < right.place
    if len(sizes) == 100:
        assert left.count == 50
    after: list[Any] = []
    for half in (left, right):
        data = b"".join(half.seal(codec))
        header = read_header(data)
        assert (header.producer_id, header.producer_epoch) == (5, 1)
        assert header.base_sequence == half.base_sequence
        after += read_records(data)
    assert left.base_sequence == 2**31 - 2
    assert right.base_sequence == (2**31 - 1 if left.count == 1 else left.count - 2)

    def what(record: Any) -> tuple[Any, ...]:
        return record.key, record.value, record.timestamp_ms, tuple(record.headers)

    assert [*map(what, after)] == [*map(what, before)]
