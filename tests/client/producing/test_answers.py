"""The producer and a broker's responses: limits, time, numbers, errors."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.fake_broker import Asked
from tests.client.producer_stage import Leader, answering, producer, silent

from kohort.client.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    InvalidTopicError,
    KohortError,
    NotLeaderError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kohort.protocol.apis.k00_produce import BatchIndexAndErrorMessage, ProduceResponse
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdResponse
from kohort.protocol.errors import ErrorCode

CODES = ErrorCode
OLD = {"ApiVersions": (0, 3), "Metadata": (0, 12), "InitProducerId": (0, 1)}
"""Versions of a broker in addition to those of Produce."""


# -- in flight


@pytest.mark.parametrize("most", [1, 3, 5])
async def test_no_more_requests_are_in_flight_than_allowed(most: int) -> None:
    """One batch each, in order; a response makes room for the next one."""
    settings = {"max_in_flight_requests_per_connection": most, "linger_ms": 0}
    answered = 0
    open_ones: list[int] = []

    def count(_: Asked) -> None:
        open_ones.append(len(leader.produced) - answered)

    async with (
        Leader(count) as leader,
        producer(leader, batch_size=0, **settings) as sender,
    ):
        deliveries = [
            await sender.send("t", b"v", partition=0) for _ in range(most + 3)
        ]
        await leader.has_got("Produce")
        # Until the first is written the number 0 stands alone.
        assert len(leader.produced) == 1
        for answered in range(1, most + 4):
            leader.take(leader.produced[answered - 1])
            await leader.has_got("Produce", min(answered + most, most + 3))
        await asyncio.gather(*deliveries)
    assert max(open_ones) == most
    assert [b.base_sequence for b in leader.batches] == list(range(most + 3))
    assert {b.producer_id for b in leader.batches} == {1001}


async def test_a_request_has_a_batch_of_each_partition_while_they_fit() -> None:
    """Two in one; with a smaller max.request.size one after the other."""
    for limit, count in ((4_000, 1), (1_200, 2)):
        async with Leader() as leader:
            async with producer(leader, max_request_size=limit) as sender:
                for partition in (0, 1):
                    await sender.send("t", b"v" * 500, partition=partition)
            assert len(leader.produced) == count


# -- errors


@pytest.mark.parametrize(
    "code",
    [
        CODES.CORRUPT_MESSAGE,
        CODES.UNKNOWN_TOPIC_OR_PARTITION,
        CODES.NOT_LEADER_OR_FOLLOWER,
        CODES.REQUEST_TIMED_OUT,
        CODES.NOT_ENOUGH_REPLICAS,
        CODES.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        CODES.KAFKA_STORAGE_ERROR,
        CODES.UNKNOWN_TOPIC_ID,
    ],
)
async def test_errors_that_pass_are_tried_again_under_the_same_number(
    code: ErrorCode,
) -> None:
    """Two errors, and then it is written."""
    async with answering(code, code) as leader, producer(leader) as sender:
        assert (await sender.send_and_wait("t", b"v", partition=0)).offset == 5
    assert [b.base_sequence for b in leader.batches] == [0, 0, 0]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (CODES.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
        (CODES.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (CODES.INVALID_RECORD, BrokerError),
    ],
)
async def test_errors_that_do_not_pass_fail_and_say_where(
    code: ErrorCode, kind: type[KohortError]
) -> None:
    """API, broker, topic, partition; the next batch has a new producer id."""
    async with answering(code) as leader, producer(leader) as sender:
        with pytest.raises(kind) as caught:
            await sender.send_and_wait("t", b"v", partition=1)
        error = caught.value
        assert (error.api, error.topic, error.partition) == ("Produce", "t", 1)
        assert error.broker == f"{leader.address} (node 1)"
        assert error.code == code
        await sender.send_and_wait("t", b"v", partition=1)
    first, second = leader.batches
    assert second.producer_id != first.producer_id
    assert second.base_sequence == 0


async def test_retries_are_counted() -> None:
    """After `retries` the error is the broker's last one."""
    code = CODES.NOT_LEADER_OR_FOLLOWER
    async with answering(*[code] * 3) as leader:
        settings = {"retries": 2, "enable_idempotence": False, "acks": 1}
        async with producer(leader, **settings) as sender:
            with pytest.raises(NotLeaderError, match="topic 't', partition 0"):
                await sender.send_and_wait("t", b"v", partition=0)
        assert len(leader.produced) == 3
        assert leader.ids == 0


async def test_records_that_are_at_fault_have_their_own_words() -> None:
    """The others in the batch have the batch's message (KIP-467)."""
    fields = {
        "record_errors": [BatchIndexAndErrorMessage(1, "no key")],
        "error_message": "one is bad",
    }
    async with (
        answering(CODES.INVALID_RECORD, fields=fields) as leader,
        producer(leader) as sender,
    ):
        deliveries = [await sender.send("t", b"v", partition=0) for _ in range(3)]
        errors = await asyncio.gather(*deliveries, return_exceptions=True)
    assert [e.message for e in errors if isinstance(e, KohortError)] == [
        "one is bad",
        "no key",
        "one is bad",
    ]


async def test_an_answer_without_the_partition_fails() -> None:
    """The outcome of the batch is unknown."""
    leader = Leader(lambda asked: asked.reply(ProduceResponse()))
    async with leader, producer(leader) as sender:
        with pytest.raises(BrokerError, match="does not contain the partition"):
            await sender.send_and_wait("t", b"v", partition=0)


# -- numbers


async def test_a_number_that_the_broker_has_is_a_success() -> None:
    """DUPLICATE_SEQUENCE_NUMBER: without the offset."""
    async with (
        answering(CODES.DUPLICATE_SEQUENCE_NUMBER) as leader,
        producer(leader) as sender,
    ):
        assert (await sender.send_and_wait("t", b"v", partition=0)).offset == -1
        await sender.send_and_wait("t", b"v", partition=0)
    assert [b.base_sequence for b in leader.batches] == [0, 1]


@pytest.mark.parametrize(
    "code", [CODES.UNKNOWN_PRODUCER_ID, CODES.OUT_OF_ORDER_SEQUENCE_NUMBER]
)
async def test_an_id_that_the_broker_has_lost_is_replaced(code: ErrorCode) -> None:
    """The batch is retried from 0 under the next id (KIP-360)."""
    async with answering(0, code) as leader, producer(leader) as sender:
        for _ in range(3):
            await sender.send_and_wait("t", b"v", partition=0)
    numbers = [(b.producer_id, b.base_sequence) for b in leader.batches]
    assert numbers == [(1001, 0), (1001, 1), (1002, 0), (1002, 1)]


async def test_an_id_that_is_refused_for_a_while_is_asked_for_again() -> None:
    """The coordinator of producer ids is loading."""
    codes = [CODES.COORDINATOR_LOAD_IN_PROGRESS] * 2 + [CODES.NONE]

    def refuse(asked: Asked) -> None:
        asked.reply(InitProducerIdResponse(0, codes.pop(0), 7, 0))

    leader = Leader(answers={"InitProducerId": refuse})
    async with leader, producer(leader) as sender:
        await sender.send_and_wait("t", b"v", partition=0)
    assert not codes


# -- versions


@pytest.mark.parametrize(("newest", "version"), [(13, 13), (12, 12), (8, 8), (3, 3)])
async def test_older_brokers_are_spoken_to(newest: int, version: int) -> None:
    """Topic names below v13, topic ids from there on."""
    versions = OLD | {"Produce": (3, newest)}
    async with Leader(versions=versions) as leader, producer(leader) as sender:
        assert (await sender.send_and_wait("t", b"v", partition=0)).offset == 5
    assert [asked.version for asked in leader.produced] == [version]


async def test_zstd_needs_a_broker_that_knows_it() -> None:
    """Produce v7 (KIP-110)."""
    versions = OLD | {"Produce": (3, 6)}
    leader = Leader(versions=versions)
    async with leader, producer(leader, compression_type="zstd") as sender:
        with pytest.raises(UnsupportedVersionError, match="Produce at 127"):
            await sender.send_and_wait("t", b"v", partition=0)


# -- time


async def test_what_is_not_delivered_in_time_fails_and_says_why() -> None:
    """No response, and a retriable error until the time limit."""
    quick = {"delivery_timeout_ms": 60, "request_timeout_ms": 50, "linger_ms": 0}
    for leader in (Leader(silent), answering(*[CODES.NOT_LEADER_OR_FOLLOWER] * 99)):
        async with leader, producer(leader, **quick) as sender:
            with pytest.raises(RequestTimedOutError) as caught:
                await sender.send_and_wait("t", b"v", partition=0)
            text = str(caught.value)
            assert text.startswith(f"Produce at {leader.address} (node 1), topic 't', ")
            assert "partition 0: not delivered within 60 ms" in text


async def test_a_broker_that_asks_for_time_gets_it() -> None:
    """throttle_time_ms: nothing is sent before (KIP-219)."""
    times: list[float] = []

    def answer(asked: Asked) -> None:
        times.append(asyncio.get_running_loop().time())
        ms = 40 if len(times) == 1 else 0
        asked.reply(ProduceResponse(leader.response(asked, 0).responses, ms))

    leader = Leader(answer)
    async with leader, producer(leader, linger_ms=0) as sender:
        for _ in range(2):
            await sender.send_and_wait("t", b"v", partition=0)
    assert times[1] - times[0] >= 0.04


async def test_memory_that_does_not_come_back_is_waited_for_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """max.block.ms; it is free again when the broker answers."""
    loop = asyncio.get_running_loop()
    now = loop.time
    async with Leader(silent) as leader:
        settings = {"buffer_memory": 1_000, "max_block_ms": 10_000, "linger_ms": 0}
        async with producer(leader, **settings) as sender:
            first = await sender.send("t", b"v" * 800, partition=0)
            await leader.has_got("Produce")
            refused = asyncio.create_task(sender.send("t", b"v" * 800, partition=0))
            for _ in range(10):  # until it waits
                await asyncio.sleep(0)
            monkeypatch.setattr(loop, "time", lambda: now() + 10)
            with pytest.raises(RequestTimedOutError, match="buffer_memory is full"):
                await refused
            leader.take(leader.produced[0])
            second = await sender.send("t", b"v" * 800, partition=0)
            assert first.done()
            await leader.has_got("Produce", 2)
            leader.take(leader.produced[1])
            await second


async def test_who_waits_for_memory_and_is_cancelled_leaves_it_to_others() -> None:
    """At any moment: all of it is free afterwards."""

    def take_later(asked: Asked) -> None:
        asyncio.get_running_loop().call_soon(leader.take, asked)

    leader = Leader(take_later)
    settings = {"buffer_memory": 1_000, "linger_ms": 0, "batch_size": 0}
    async with leader, producer(leader, **settings) as sender:

        async def make() -> None:
            for _ in range(2):
                await sender.send("t", b"v" * 800, partition=0)

        async def afterwards() -> None:
            await sender.flush()
            await (await sender.send("t", b"x" * 850, partition=0))

        assert await cancel_at_every_await(make, afterwards) >= 1


# -- the end


async def test_close_keeps_its_time_and_fails_what_is_left() -> None:
    """The broker does not respond; waiting sends fail immediately."""
    async with Leader(silent) as leader:
        sender = producer(leader, buffer_memory=1_000, linger_ms=0)
        await sender.start()
        delivery = await sender.send("t", b"v" * 800, partition=0)
        waiting = asyncio.create_task(sender.send("t", b"v" * 800, partition=0))
        await leader.has_got("Produce")
        await sender.close(timeout_ms=20)
        for each in (delivery, waiting):
            with pytest.raises(ClosedError):
                await each
        assert isinstance(delivery.exception(), ClosedError)
        assert "topic 't', partition 0" in str(delivery.exception())


async def test_a_flush_may_be_given_a_time() -> None:
    """The time limit loses no record."""
    async with Leader(silent) as leader, producer(leader) as sender:
        delivery = await sender.send("t", b"v", partition=0)
        with pytest.raises(RequestTimedOutError, match="20 ms"):
            await sender.flush(20)
        await leader.has_got("Produce")
        leader.take(leader.produced[0])
        await sender.flush()
        assert delivery.done()
