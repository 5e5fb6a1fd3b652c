"""Faults in requests of transactions, and producers that survive them or do not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kohort.broker.server import Broker
from kohort.client import Producer
from kohort.client.errors import BrokerError, ProducerFencedError
from kohort.control.transaction import Transaction

TOPIC = "orders"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker with a topic, which records requests."""
    async with Broker() as broker:
        broker.cluster.create_topic(TOPIC, 1)
        broker.requests.record()
        yield broker


def producing(broker: Broker) -> Producer:
    """A producer with the transactional id "tx"."""
    return Producer(
        bootstrap_servers=broker.bootstrap_servers,
        transactional_id="tx",
        retry_backoff_ms=1,
    )


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("EndTxn", "NOT_COORDINATOR"),
        ("EndTxn", "CONCURRENT_TRANSACTIONS"),
    ],
)
async def test_a_retriable_error(broker: Broker, api: str, error: str) -> None:
    """The producer sends the request again, and its record is committed."""
    rule = broker.faults.fail(api, error, once=True, transactional_id="tx")
    async with producing(broker) as producer, producer.transaction():
        await producer.send_and_wait(TOPIC, b"one")
    assert rule.strikes == 1
    rows = broker.requests.find(api, transactional_id="tx")
    assert [row.error for row in rows][:2] == [error, "NONE"]
    assert Transaction(broker, "tx").state == "CompleteCommit"


async def test_an_abortable_error(broker: Broker) -> None:
    """The producer aborts, and its next transaction is committed."""
    rule = broker.faults.fail("Produce", "TRANSACTION_ABORTABLE", once=True)
    async with producing(broker) as producer:
        with pytest.raises(BrokerError, match="TRANSACTION_ABORTABLE"):
            async with producer.transaction():
                await producer.send_and_wait(TOPIC, b"one")
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"two")
    assert rule.strikes == 1
    assert Transaction(broker, "tx").state == "CompleteCommit"


async def test_a_fatal_error(broker: Broker) -> None:
    """The producer cannot go on; its transaction stays open."""
    broker.faults.fail("EndTxn", "PRODUCER_FENCED", transactional_id="tx")
    async with producing(broker) as producer:
        with pytest.raises(ProducerFencedError):
            async with producer.transaction():
                await producer.send_and_wait(TOPIC, b"one")
        with pytest.raises(ProducerFencedError):
            await producer.begin_transaction()
    assert Transaction(broker, "tx").state == "Ongoing"


async def test_a_lost_answer(broker: Broker) -> None:
    """The producer sends EndTxn again, and gets the epoch that it has missed."""
    broker.faults.disconnect("EndTxn", "after", once=True)
    async with producing(broker) as producer:
        for value in (b"one", b"two"):
            async with producer.transaction():
                await producer.send_and_wait(TOPIC, value)
    assert [row.error for row in broker.requests.find("EndTxn")][1:] == ["NONE"] * 2
    assert Transaction(broker, "tx").state == "CompleteCommit"
