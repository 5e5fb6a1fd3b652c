"""Produce in a transaction: the coordinator is asked before the append (KIP-890)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.broker.test_cluster import until
from tests.wire.client import WireClient, connections

from kohort.broker.handlers import k00_produce
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.server import Broker
from kohort.broker.transactions.events import HoldTransaction, ReleaseTransaction
from kohort.broker.transactions.state import TransactionState
from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

TXN = "tx"
TRANSACTIONS = 1
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
TRY_AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS


class Scene:
    """A broker with a topic of two partitions, and a producer."""

    def __init__(self, broker: Broker, client: WireClient) -> None:
        self.broker = broker
        self.client = client
        self.logs = broker.cluster.create_topic("t", 2).partitions
        self.producer_id = self.epoch = -1

    async def init(self) -> None:
        """Gets the id and the epoch of the producer."""
        find = FindCoordinatorRequest(TXN, TRANSACTIONS)
        found = await self.client.call("FindCoordinator", 1, find)
        assert not found.error_code
        init = InitProducerIdRequest(TXN, 60_000)
        found = await self.client.call("InitProducerId", 3, init)
        assert not found.error_code
        self.producer_id, self.epoch = found.producer_id, found.producer_epoch

    async def add(self, *partitions: int) -> None:
        """Adds partitions to the transaction, as producers of version 1 do."""
        topics = [AddPartitionsToTxnTopic("t", partitions)]
        request = AddPartitionsToTxnRequest(
            (), TXN, self.producer_id, self.epoch, topics
        )
        response = await self.client.call("AddPartitionsToTxn", 3, request)
        rows = response.results_by_topic_v3_and_below[0].results_by_partition
        assert not any(row.partition_error_code for row in rows)

    async def end(self) -> None:
        """Commits, with version 1; the epoch stays."""
        request = EndTxnRequest(TXN, self.producer_id, self.epoch, committed=True)
        assert not (await self.client.call("EndTxn", 3, request)).error_code

    def request(
        self,
        *partitions: int,
        sequence: int = 0,
        epoch: int | None = None,
        producer_id: int | None = None,
        attributes: int = TRANSACTIONAL,
    ) -> ProduceRequest:
        """A batch with one record for each partition."""
        batch = build_batch(
            [Record(0, -1, b"k", b"v")],
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            attributes=attributes,
        )
        data = [PartitionProduceData(index, batch) for index in partitions]
        return ProduceRequest(
            TXN, -1, 1000, [TopicProduceData("t", partition_data=data)]
        )

    async def produce(
        self, *partitions: int, version: int = 11, **fields: Any
    ) -> list[int]:
        """The error of each partition."""
        request = self.request(*partitions, **fields)
        response = await self.client.call("Produce", version, request)
        return errors(response)

    def hold(self) -> None:
        """Stops the coordinator before it writes the markers."""
        state = TransactionState.PREPARE_COMMIT
        self.broker.cluster.transactions.command(
            HoldTransaction(ResultSlot(), TXN, state)
        )

    def release(self) -> None:
        """Lets it go on."""
        self.broker.cluster.transactions.command(ReleaseTransaction(ResultSlot(), TXN))


def errors(response: Any) -> list[int]:
    """The error of each row of a Produce response."""
    rows = [row for topic in response.responses for row in topic.partition_responses]
    for row in rows:
        assert row.log_start_offset == (-1 if row.error_code else 0)
    return [row.error_code for row in rows]


@asynccontextmanager
async def producing(**config: Any) -> AsyncIterator[Scene]:
    """A producer that has its id."""
    async with Broker(config) as broker, connections(broker, 1) as clients:
        made = Scene(broker, clients[0])
        await made.init()
        yield made


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.NONE),
    ],
)
async def test_a_partition_that_was_not_added(version: int, error: ErrorCode) -> None:
    """From version 12 on the broker adds it; the added one is appended to."""
    async with producing() as scene:
        await scene.add(0)
        assert await scene.produce(0, 1, version=version) == [0, error]
        assert [log.log_end_offset for log in scene.logs] == [1, not error]


async def test_an_open_transaction_is_not_verified_again() -> None:
    """The next batches need no coordinator."""
    async with producing() as scene:
        await scene.add(0)
        assert await scene.produce(0) == [0]
        scene.broker.cluster.transactions.detach("moved")
        assert await scene.produce(0, sequence=1) == [0]


async def test_records_after_the_end() -> None:
    """They belong to no transaction."""
    async with producing() as scene:
        await scene.add(0)
        assert await scene.produce(0) == [0]
        await scene.end()
        log = scene.logs[0]
        await until(lambda: log.log_end_offset == 2)
        late = await scene.produce(0, sequence=1)
        assert late == [ErrorCode.TRANSACTION_ABORTABLE]
        assert log.last_stable_offset == 2


async def test_batches_of_two_producers() -> None:
    """The whole request is refused."""
    async with producing() as scene:
        await scene.add(0, 1)
        one, other = scene.request(0), scene.request(1, producer_id=99)
        data = [*one.topic_data, *other.topic_data]
        request = ProduceRequest(TXN, -1, 1000, data)
        response = await scene.client.call("Produce", 11, request)
        assert errors(response) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


async def test_batches_outside_of_transactions() -> None:
    """A request with a transactional id may have them; the coordinator is not asked."""
    async with producing() as scene:
        assert await scene.produce(0, attributes=0, producer_id=7, epoch=0) == [0]
        assert await scene.produce(0, producer_id=-1, epoch=-1, sequence=-1) == [0]
        assert scene.logs[0].last_stable_offset == 2


async def test_markers_are_being_written() -> None:
    """Version 11 has to try again; version 12 waits for a while."""
    backoff = {"add.partitions.to.txn.retry.backoff.max.ms": 0}
    async with producing(**backoff) as scene:
        await scene.add(0)
        scene.hold()
        await scene.end()
        assert await scene.produce(0) == [TRY_AGAIN]
        assert await scene.produce(0, version=12) == [BUSY]


async def test_the_markers_are_written_meanwhile() -> None:
    """Version 12 asks again, and appends to the next transaction."""
    backoff = {"add.partitions.to.txn.retry.backoff.max.ms": 600_000}
    async with producing(**backoff) as scene:
        await scene.add(0)
        scene.hold()
        await scene.end()
        await scene.client.send("Produce", 12, scene.request(0))
        await until(
            lambda: 0 in [len(log.producers.verifications) for log in scene.logs]
        )
        assert scene.logs[0].log_end_offset == 0
        scene.release()
        assert errors(await scene.client.response("Produce", 12)) == [0]
        assert scene.logs[0].last_stable_offset == 1


async def test_a_request_of_too_many_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is appended; the coordinator would be asked about all of them at once."""
    monkeypatch.setattr(k00_produce, "_MOST_IN_TRANSACTION", 1)
    async with producing() as scene:
        await scene.add(0, 1)
        assert await scene.produce(0, 1) == [ErrorCode.INVALID_REQUEST] * 2
        assert [log.log_end_offset for log in scene.logs] == [0, 0]
        assert await scene.produce(0) == [0]


async def test_a_fenced_producer_is_an_event() -> None:
    """The partition knows a newer epoch."""
    async with producing() as scene:
        await scene.add(0)
        assert await scene.produce(0) == [0]
        await scene.end()
        await scene.init()
        await scene.add(0)
        assert await scene.produce(0) == [0]
        with scene.broker.events.subscribe() as reader:
            assert await scene.produce(0, epoch=0) == [FENCED]
            event = await anext(reader)
            while event["kind"] != "transaction_fenced":
                event = await anext(reader)
        epochs = event["producer_epoch"], event["current_epoch"]
        assert (event["transactional_id"], event["api"], epochs) == (
            TXN,
            "Produce",
            (0, scene.epoch),
        )


async def test_verification_can_be_turned_off() -> None:
    """transaction.partition.verification.enable: any batch opens a transaction."""
    config = {"transaction.partition.verification.enable": False}
    async with producing(**config) as scene:
        assert await scene.produce(0) == [0]
        assert scene.logs[0].last_stable_offset == 0
