"""Power over transactions, in Python."""

from __future__ import annotations

import asyncio

import pytest
from tests.broker.test_cluster import cluster, elsewhere
from tests.control.transacting import Transacting
from tests.transactions.producing import Producer
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.control.conditions import BrokerStoppedError, ConditionTimeout
from kohort.control.transaction import PowerError, Transaction
from kohort.protocol.errors import ErrorCode


async def test_a_producer_is_fenced() -> None:
    """Its open transaction is aborted, and its next request fails."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        transaction = Transaction(broker, "tx")
        producer = Producer(client)
        await producer.init()
        await producer.add()
        before = transaction.producer_epoch
        transaction.fence()
        assert transaction.state == "CompleteAbort"
        assert transaction.producer_epoch > before
        assert await producer.produce(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end() == ErrorCode.PRODUCER_FENCED
        assert await producer.init() == 0
        transaction.fence()  # also without a transaction
        assert await producer.add() == [ErrorCode.PRODUCER_FENCED]


async def test_a_transaction_expires() -> None:
    """Now, as its timeout does it; without an open one that is refused."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        transaction = Transaction(broker, "tx")
        with pytest.raises(PowerError, match="no transactional id 'tx'"):
            transaction.expire()
        producer = Producer(client)
        await producer.init()
        with pytest.raises(PowerError, match="'tx': the transaction is not open"):
            transaction.expire()
        await producer.add()
        transaction.expire()
        assert transaction.state == "CompleteAbort"
        assert await producer.end() == ErrorCode.PRODUCER_FENCED


async def test_a_held_commit_moves_and_ends_well() -> None:
    """The new coordinator waits in PrepareCommit, and writes the markers."""
    async with cluster(2) as broker:
        transaction = Transaction(broker, "tx")
        transaction.hold()  # the id does not exist yet
        before = transaction.coordinator
        other = elsewhere(broker, before)
        broker.cluster.create_topic("t", 1, replicas=[[other]])
        (partition,) = broker.cluster.topics.by_name["t"].partitions
        async with (
            connected(broker, before) as client,
            connected(broker, other) as leader,
        ):
            producer = Producer(client)
            await producer.init()
            await producer.add()
            producer.client = leader
            assert await producer.produce(b"one") == 0
            producer.client = client
            assert await producer.end() == 0
        await transaction.until(state="PrepareCommit")
        assert (transaction.held, transaction.partitions) == (
            "PrepareCommit",
            [("t", 0)],
        )
        with pytest.raises(PowerError, match="being ended or changed: it is PrepareC"):
            transaction.fence()
        assert transaction.move() == other
        await transaction.until(state="PrepareCommit")
        assert (transaction.coordinator, partition.last_stable_offset) == (other, 0)
        transaction.release()
        await transaction.until(state="CompleteCommit")
        assert partition.last_stable_offset == 2
        with pytest.raises(PowerError, match="not held"):
            transaction.release()


async def test_a_wait_hears_each_change() -> None:
    """Also a state that ends at once; changes of another id are none of it."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        transaction = Transaction(broker, "tx")
        states = [None, "Ongoing", "preparecommit", "CompleteCommit"]
        waits = [asyncio.ensure_future(transaction.until(state=s)) for s in states]
        late = asyncio.ensure_future(Transaction(broker, "other").until())
        await asyncio.sleep(0)
        producer = Producer(client)
        assert await producer.init() == 0
        assert await producer.add() == [0]
        assert await producer.end() == 0
        await asyncio.gather(*waits)
        assert not late.done()
        late.cancel()


async def test_a_wait_for_an_id_that_is_loaded() -> None:
    """It ends when the new coordinator has the id."""
    async with Broker(
        {"coordinator.load.delay.ms": 1_000}, nodes=2, clock="manual"
    ) as broker:
        transaction = Transaction(broker, "tx")
        transaction.move()
        await broker.clock.advance(1)
        producer = Transacting(broker)
        await producer.initialize()
        transaction.move()
        assert transaction.state == "Dead"
        waiting = asyncio.ensure_future(transaction.until(state="Empty"))
        await broker.clock.advance(1)
        await waiting


async def test_refusals() -> None:
    """They say what would be possible, and change nothing."""
    async with cluster(1) as broker:
        transaction = Transaction(broker, "tx")
        with pytest.raises(PowerError, match="held in PrepareCommit or PrepareAbort"):
            transaction.hold("Ongoing")
        with pytest.raises(PowerError, match="'Committing'; the states are: Empty, "):
            transaction.hold("Committing")
        with pytest.raises(PowerError, match="--nodes 2"):
            transaction.move()
        with pytest.raises(PowerError, match="there is no node 7"):
            transaction.move(7)
        with pytest.raises(ValueError, match="unknown transaction state 'x'"):
            await transaction.until(state="x")
        assert transaction.held is None


async def test_a_wait_that_ends_otherwise() -> None:
    """The error has the current state; no wait outlives the broker."""
    broker = Broker()
    async with broker, connected(broker) as client:
        transaction = Transaction(broker, "tx")
        with pytest.raises(ConditionTimeout, match="'tx' exists; the transactional id"):
            await transaction.until(timeout=0)
        transaction.hold("PrepareAbort")
        await Producer(client).init()
        with pytest.raises(ConditionTimeout, match="it is Empty, and held in Prepare"):
            await transaction.until(state="Ongoing", timeout=0)
    with pytest.raises(BrokerStoppedError, match="until transaction 'tx' is Ongoing"):
        await transaction.until(state="Ongoing")
