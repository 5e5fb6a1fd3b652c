"""A transactional producer's requests, retries and errors, at a scripted broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.stage import PATIENCE, all_end
from tests.client.transactions.coordinating import (
    GROUP,
    LOST,
    PRODUCER_ID,
    SILENT,
    Coordinator,
    sender,
)

from kohort.client.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    ProducerFencedError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kohort.client.offsets import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import TRANSACTIONAL

OFFSETS = {TopicPartition("t", 0): 5}
ADDS = ["AddPartitionsToTxn", "AddOffsetsToTxn"]
ALL = ["InitProducerId", *ADDS, "TxnOffsetCommit", "Produce", "EndTxn"]


async def transact(broker: Coordinator) -> None:
    """A transaction with a record and an offset."""
    async with sender(broker) as to, asyncio.timeout(PATIENCE), to.transaction():
        await to.send_and_wait("t", b"x", partition=0)
        await to.send_offsets_to_transaction(OFFSETS, GROUP)


async def test_a_group_id_is_not_enough() -> None:
    """As aiokafka takes it: the generation would not be checked (KIP-447)."""
    group: Any = "g"
    async with (
        Coordinator() as broker,
        asyncio.timeout(PATIENCE),
        sender(broker) as to,
        to.transaction(),
    ):
        with pytest.raises(TypeError, match="not the group id 'g'"):
            await to.send_offsets_to_transaction(OFFSETS, group)


@pytest.mark.parametrize("version", [1, 2])
async def test_versions(version: int) -> None:
    """Those of the generation: newer ones would make brokers add partitions."""
    async with Coordinator(version=version) as broker:
        await transact(broker)
        newest = {asked.api.name: asked.version for asked in broker.asked}
        expected = {
            1: {"AddPartitionsToTxn": 3, "Produce": 11, "EndTxn": 4},
            2: {"Produce": 13, "TxnOffsetCommit": 5, "EndTxn": 5},
        }[version]
        assert expected.items() <= newest.items()
        assert [api in newest for api in ADDS] == [version == 1] * 2
        (produced,) = broker.produced
        assert produced.message.transactional_id == "x"
        (batch,) = broker.batches
        assert batch.attributes & TRANSACTIONAL
        assert (batch.producer_id, batch.producer_epoch) == (PRODUCER_ID, 0)
        assert batch.base_sequence == 0
        (found,) = broker.of("TxnOffsetCommit")
        message = found.message
        assert (message.transactional_id, message.group_id) == ("x", "g")
        assert (message.generation_id, message.member_id) == (3, "m")


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize(
    "code",
    [
        LOST,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
async def test_every_request_is_retried(api: str, code: int | str) -> None:
    """Until it succeeds, with the same content."""
    async with Coordinator({api: [code, code]}, version=1) as broker:
        await transact(broker)
        asked = [each.message for each in broker.of(api)]
        assert len(asked) == 3
        assert asked[0] == asked[1] == asked[2]
        assert broker.apis()[-1] == "EndTxn"


@pytest.mark.parametrize("api", ["InitProducerId", *ADDS, "TxnOffsetCommit", "EndTxn"])
async def test_a_moved_coordinator_is_looked_up(api: str) -> None:
    """Once for each time that it says so."""
    found = []
    for codes in ({}, {api: [ErrorCode.NOT_COORDINATOR]}):
        async with Coordinator(codes, version=1) as broker:
            await transact(broker)
            found.append(len(broker.of("FindCoordinator")))
    assert found[1] == found[0] + 1


async def test_the_first_addition_is_retried_soon() -> None:
    """The last transaction is still being completed, which does not take long."""
    codes = {"AddPartitionsToTxn": [ErrorCode.CONCURRENT_TRANSACTIONS] * 3}
    hour = {"retry_backoff_ms": 3_600_000, "retry_backoff_max_ms": 3_600_000}
    async with (
        asyncio.timeout(PATIENCE),
        Coordinator(codes, version=1) as broker,
        sender(broker, **hour) as to,
        to.transaction(),
    ):
        await to.send_and_wait("t", b"x", partition=0)


async def test_a_late_commit_is_called_again() -> None:
    """It names the call, and has not failed: the second call waits for the response."""
    async with Coordinator({"EndTxn": [SILENT]}) as broker, sender(broker) as to:
        await to.begin_transaction()
        await to.send_and_wait("t", b"x", partition=0)
        with pytest.raises(RequestTimedOutError) as caught:
            await to.commit_transaction(timeout_ms=20)
        assert "call commit_transaction again" in str(caught.value)
        assert caught.value.retriable
        (asked,) = broker.of("EndTxn")
        broker.answers["EndTxn"](asked)
        await to.commit_transaction()
        assert len(broker.of("EndTxn")) == 1


@pytest.mark.parametrize("version", [1, 2])
async def test_a_failed_record_fails_the_commit(version: int) -> None:
    """Nobody has to await it; the abort brings a new epoch, and numbers from 0."""
    codes = {"Produce": [0, ErrorCode.INVALID_RECORD]}
    async with Coordinator(codes, version=version) as broker, sender(broker) as to:
        await to.begin_transaction()
        await to.send_and_wait("t", b"good", partition=0)
        await to.send("t", b"bad", partition=0)
        with pytest.raises(BrokerError) as caught:
            await to.commit_transaction()
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert caught.value.requires_abort
        assert (caught.value.topic, caught.value.partition) == ("t", 0)
        await to.abort_transaction()
        async with to.transaction():
            await to.send("t", b"next", partition=0)
        last = broker.batches[-1]
        assert (last.producer_epoch, last.base_sequence) == (1, 0)
        asked = [each.message for each in broker.of("InitProducerId")]
        assert [(m.producer_id, m.producer_epoch) for m in asked] == [(-1, -1)] + (
            [(PRODUCER_ID, 0)] if version == 1 else []
        )


async def test_an_abort_waits_for_sent_batches_and_drops_the_others() -> None:
    """A late batch would be written into the next transaction."""
    codes = {"Produce": [SILENT]}
    async with Coordinator(codes) as broker, sender(broker) as to:
        await to.begin_transaction()
        sent = await to.send("t", b"sent", partition=0)
        await broker.has_got("Produce")
        await to.send("t", b"waits", partition=0)
        abort = asyncio.create_task(to.abort_transaction())
        await asyncio.sleep(0)
        assert not broker.of("EndTxn")
        (asked,) = broker.produced
        broker.take(asked)
        await abort
        assert (await sent).offset == 5
        assert broker.apis() == ["InitProducerId", "Produce", "EndTxn"]


async def test_a_fenced_producer_fails_all_records() -> None:
    """Those that were sent and those that wait, and all further calls."""
    codes = {"Produce": [SILENT]}
    async with Coordinator(codes) as broker, sender(broker) as to:
        await to.begin_transaction()
        deliveries = [await to.send("t", b"sent", partition=0)]
        await broker.has_got("Produce")
        deliveries.append(await to.send("t", b"waits", partition=0))
        broker.say(broker.produced[0], ErrorCode.PRODUCER_FENCED)
        for delivery in deliveries:
            with pytest.raises(ProducerFencedError) as caught:
                await asyncio.wait_for(delivery, PATIENCE)
            assert caught.value.fatal
        for call in (to.commit_transaction, to.abort_transaction):
            with pytest.raises(ProducerFencedError):
                await call()
        assert not broker.of("EndTxn")


async def test_the_topic_that_was_refused_is_named() -> None:
    """Not another one of the request, which was not attempted."""
    async with Coordinator(version=1) as broker, sender(broker) as to:
        broker.partition_codes = {
            0: ErrorCode.OPERATION_NOT_ATTEMPTED,
            1: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        await to.begin_transaction()
        await to.partitions_for("t")
        for partition in (0, 1):
            await to.send("t", b"x", partition=partition)
        with pytest.raises(AuthorizationError) as caught:
            await to.commit_transaction()
        assert (caught.value.topic, caught.value.partition) == ("t", 1)


async def test_an_old_broker_cannot_check_the_member() -> None:
    """Its offsets would be committed for a stale member, too (KIP-447)."""
    versions = Coordinator().versions | {"TxnOffsetCommit": (0, 2)}
    async with Coordinator(versions=versions) as broker, sender(broker) as to:
        await to.begin_transaction()
        with pytest.raises(UnsupportedVersionError) as caught:
            await to.send_offsets_to_transaction(OFFSETS, GROUP)
        assert caught.value.fatal


async def test_close_does_not_wait_for_a_silent_coordinator() -> None:
    """Longer than its time limit; the records fail."""
    before = asyncio.all_tasks()
    async with Coordinator({"EndTxn": [SILENT]}) as broker:
        to = sender(broker)
        await to.start()
        await to.begin_transaction()
        await to.send_and_wait("t", b"x", partition=0)
        commit = asyncio.create_task(to.commit_transaction())
        await broker.has_got("EndTxn")
        await to.close(timeout_ms=20)
        with pytest.raises(ClosedError):
            await commit
    await all_end(before)


async def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    """At any point: no connection and no task."""
    before = asyncio.all_tasks()
    async with Coordinator() as broker:
        serving = asyncio.all_tasks()

        async def start() -> None:
            async with sender(broker):
                pass

        async def check() -> None:
            await broker.is_left_alone()
            await all_end(serving)

        assert await cancel_at_every_await(start, check) >= 3
    await all_end(before)
