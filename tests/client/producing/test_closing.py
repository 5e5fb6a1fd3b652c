"""Producers that are closed, cancelled or refused: errors and leftovers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.fake_broker import Asked
from tests.client.producer_stage import Leader, producer, silent, values
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client.errors import (
    AuthorizationError,
    ClosedError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdResponse
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS


async def test_a_second_close_keeps_its_own_time() -> None:
    """The first one waits for a hanging broker; the second does not."""
    async with Leader(silent) as leader, asyncio.timeout(PATIENCE):
        sender = producer(leader, linger_ms=0)
        await sender.start()
        delivery = await sender.send("t", b"v", partition=0)
        await leader.has_got("Produce")
        first = asyncio.create_task(sender.close(timeout_ms=600_000))
        await asyncio.sleep(0)
        await sender.close(timeout_ms=0)
        assert not first.done()
        assert not delivery.done()
        first.cancel()
        (outcome,) = await asyncio.gather(first, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)
        with pytest.raises(ClosedError):
            await delivery
        await sender.close()


@pytest.mark.parametrize("turns", range(8))
async def test_a_close_that_is_cancelled_twice_still_ends_all_connections(
    turns: int,
) -> None:
    """The second time while it fails the records."""
    async with Leader(silent) as leader, asyncio.timeout(PATIENCE):
        sender = producer(leader, linger_ms=0)
        await sender.start()
        delivery = await sender.send("t", b"v", partition=0)
        await leader.has_got("Produce")
        closing = asyncio.create_task(sender.close(timeout_ms=600_000))
        await asyncio.sleep(0)
        closing.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        with pytest.raises(ClosedError):
            await delivery
        await sender.close()
        await leader.is_left_alone()


async def test_a_refused_producer_id_names_the_records_partition() -> None:
    """The records of each of two partitions fail with a separate error."""
    refusals = 0

    def refuse(asked: Asked) -> None:
        nonlocal refusals
        refusals += 1
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        asked.reply(InitProducerIdResponse(0, code, -1, -1))

    async with (
        Leader(answers={"InitProducerId": refuse}) as leader,
        producer(leader, linger_ms=0) as sender,
    ):
        both = [await sender.send("t", b"v", partition=p) for p in (0, 1)]
        outcomes: list[Any] = await asyncio.gather(*both, return_exceptions=True)
    for partition, error in enumerate(outcomes):
        assert isinstance(error, AuthorizationError)
        assert (error.api, error.topic) == ("InitProducerId", "t")
        assert error.partition == partition
        assert leader.address in str(error)
        assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refusals == 1, "it is not tried again"


async def test_a_broker_that_knows_no_producer_ids_is_an_error_that_says_so() -> None:
    """It is older than Kafka 0.11; without idempotence it works."""
    versions = {api.name: (api.oldest, api.newest) for api in APIS}
    del versions["InitProducerId"]
    async with Leader(versions=versions) as leader:
        async with producer(leader) as sender:
            with pytest.raises(UnsupportedVersionError) as caught:
                await sender.send_and_wait("t", b"v", partition=1)
            assert caught.value.api == "InitProducerId"
            assert (caught.value.topic, caught.value.partition) == ("t", 1)
        async with producer(leader, enable_idempotence=False) as sender:
            assert (await sender.send_and_wait("t", b"v", partition=1)).offset == 5


async def test_metadata_that_does_not_come_names_the_topic() -> None:
    """The time limit passes before the broker has answered about it."""
    async with Leader() as leader, producer(leader, max_block_ms=50) as sender:
        leader.answers["Metadata"] = silent
        with pytest.raises(RequestTimedOutError) as caught:
            await sender.send("new", b"v", partition=3)
        error = caught.value
        assert (error.api, error.topic, error.partition) == ("Metadata", "new", 3)


async def test_numbers_stay_right_whoever_is_cancelled() -> None:
    """Deliveries, flushes and sends are cancelled while batches are in flight."""
    async with Broker() as broker, asyncio.timeout(PATIENCE):
        async with producer(broker, linger_ms=0, batch_size=200) as sender:
            kept = []
            for number in range(300):
                value = b"%03d" % number
                if number % 5 == 1:
                    (await sender.send("t", value)).cancel()
                elif number % 5 == 2:
                    waiting = asyncio.create_task(sender.send_and_wait("t", value))
                    for _ in range(number % 7 + 1):
                        await asyncio.sleep(0)
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)
                elif number % 5 == 3:
                    flushing = asyncio.create_task(sender.flush())
                    await asyncio.sleep(0)
                    flushing.cancel()
                    kept.append(await sender.send("t", value))
                else:
                    kept.append(await sender.send("t", value))
            await sender.flush()
            assert all(delivery.exception() is None for delivery in kept)
        written = values(broker, "t")
        assert written == sorted({value for value in written if value is not None})
        surely = {b"%03d" % number for number in range(300) if number % 5 != 2}
        assert surely <= set(written)
