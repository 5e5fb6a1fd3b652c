"""Transactions over the wire: where they are coordinated, kept, and moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import cluster, elsewhere, until
from tests.broker.test_restart import killed
from tests.transactions.producing import Producer, find
from tests.wire.client import connected
from tests.wire.requests import create_partitions

from kohort.broker.handlers.k24_add_partitions_to_txn import MOST
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace
from kohort.broker.runtime.effects import CommandResult
from kohort.broker.server import Broker
from kohort.broker.topics.topic import TRANSACTIONS_TOPIC
from kohort.broker.transactions.events import HoldTransaction, ReleaseTransaction
from kohort.broker.transactions.state import PREPARE_COMMIT
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from kohort.protocol.apis.k66_list_transactions import ListTransactionsRequest
from kohort.protocol.errors import ErrorCode


def command(broker: Broker, kind: Any, *fields: object) -> str | None:
    """Submits a command about "tx"; returns why it was refused."""
    results: list[CommandResult] = []

    class Token:
        answer = staticmethod(results.append)

    broker.cluster.transactions.command(kind(Token(), "tx", *fields))
    return results[0].refusal


def state(broker: Broker) -> str:
    """The state of "tx" at its coordinator."""
    shard = broker.cluster.transactions.for_id("tx")
    return shard.states["tx"].state.value if shard.driver else shard.state


async def test_the_first_look_up_creates_the_topic() -> None:
    """With Kafka's settings; the hash of the id finds the partition."""
    async with cluster(1) as broker, connected(broker) as client:
        (found,) = await find(client, "tx")
        assert (found.error_code, found.node_id) == (0, 1)
        topic = broker.cluster.topics.by_name[TRANSACTIONS_TOPIC]
        assert len(topic.partitions) == 50
        assert topic.overrides["cleanup.policy"] == "compact"
        assert topic.overrides["segment.bytes"] == "104857600"
        producer = Producer(client)
        assert await producer.init() == 0
        # Java's hash of "tx" is 3716.
        assert topic.partitions[16].log_end_offset == 1
        grown = await client.call(
            "CreatePartitions", 2, create_partitions(TRANSACTIONS_TOPIC, 60)
        )
        assert grown.results[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_new_cluster_refuses_the_first_look_up() -> None:
    """With coordinator.first.use=kafka, as Kafka does until it has the topic."""
    async with (
        cluster(1, coordinator_first_use="kafka") as broker,
        connected(broker) as client,
    ):
        producer = Producer(client)
        assert await producer.init() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await producer.init() == ErrorCode.NOT_COORDINATOR
        codes = [(await find(client, "tx"))[0].error_code for _ in range(2)]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, 0]
        assert await producer.init() == 0


async def test_another_node_is_not_the_coordinator() -> None:
    """It says so to every request."""
    async with cluster(2) as broker:
        broker.cluster.create_topic("t", 1)
        node_id = broker.cluster.transactions.for_id("tx").node_id
        other = elsewhere(broker, node_id)
        async with connected(broker, other) as client:
            producer = Producer(client)
            wrong = ErrorCode.NOT_COORDINATOR
            assert await producer.init() == wrong
            assert await producer.add() == [wrong]
            assert await producer.add_group() == wrong
            assert await producer.end() == wrong
            assert await producer.state() == str(int(wrong))
            assert await producer.init(0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_too_many_partitions_at_once() -> None:
    """None is added; a partition that is named twice counts once."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", MOST + 1)
        producer = Producer(client)
        await producer.init()
        too_many = await producer.add("t", *range(MOST + 1))
        assert too_many == [ErrorCode.INVALID_REQUEST] * (MOST + 1)
        assert await producer.state() == "Empty"
        assert await producer.add("t", *range(MOST), 0) == [0] * (MOST + 1)
        assert await producer.state() == "Ongoing"


async def test_helpful_strictness_answers_no_transactions() -> None:
    """Kafka does not answer this request."""
    async with (
        cluster(1, kohort_strictness="helpful") as broker,
        connected(broker) as client,
    ):
        request = AddPartitionsToTxnRequest([])
        answer = await client.call("AddPartitionsToTxn", 4, request)
        assert answer.results_by_transaction == []


async def test_transactions_are_listed() -> None:
    """By state, and by a pattern that has to match the whole id."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        one, two = Producer(client, "one"), Producer(client, "two")
        for each in (one, two):
            await each.init()
        await one.add()

        async def listed(**fields: Any) -> tuple[int, list[str]]:
            request = ListTransactionsRequest(**fields)
            answer = await client.call("ListTransactions", 2, request)
            rows = answer.transaction_states
            return answer.error_code, sorted(row.transactional_id for row in rows)

        assert await listed() == (0, ["one", "two"])
        assert await listed(state_filters=["Ongoing"]) == (0, ["one"])
        assert await listed(transactional_id_pattern="t.*") == (0, ["two"])
        assert await listed(transactional_id_pattern="t") == (0, [])
        invalid = ErrorCode.INVALID_REGULAR_EXPRESSION
        assert await listed(transactional_id_pattern="(") == (invalid, [])
        # RE2 has none of the constructs that do not run in linear time.
        assert await listed(transactional_id_pattern=r"(.)\1") == (invalid, [])
        # Nor large patterns, which take long for each id.
        assert await listed(transactional_id_pattern="(a?){1000}") == (invalid, [])


async def test_a_transaction_times_out() -> None:
    """On the broker's clock."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        producer = Producer(client)
        await producer.init(timeout_ms=30_000)
        await producer.add()
        await broker.clock.advance(29)
        assert await producer.state() == "Ongoing"
        await broker.clock.advance(11)
        assert await producer.state() == "CompleteAbort"
        assert await producer.end() == ErrorCode.PRODUCER_FENCED


async def test_a_transaction_moves() -> None:
    """It goes on at the new coordinator."""
    async with cluster(2) as broker:
        broker.cluster.create_topic("t", 1)
        node_id = broker.cluster.transactions.for_id("tx").node_id
        other = elsewhere(broker, node_id)
        async with (
            connected(broker, node_id) as before,
            connected(broker, other) as after,
        ):
            producer = Producer(before)
            await producer.init()
            await producer.add()
            broker.cluster.move_transaction_coordinator("tx", other)
            await broker.wait_until_loaded()
            assert await producer.end() == ErrorCode.NOT_COORDINATOR
            producer.client = after
            assert await producer.end() == 0
            assert await producer.state() == "CompleteCommit"


@pytest.mark.parametrize("stops", [True, False])
async def test_the_coordinator_moves_before_the_markers(stops: bool) -> None:
    """The new one writes them: when it moves, and when its node stops."""
    async with cluster(2) as broker:
        node_id = broker.cluster.transactions.for_id("tx").node_id
        other = elsewhere(broker, node_id)
        broker.cluster.create_topic("t", 1, replicas=[[other]])
        assert command(broker, HoldTransaction, PREPARE_COMMIT) is None
        async with connected(broker, node_id) as client:
            producer = Producer(client)
            await producer.init()
            await producer.add()
            assert await producer.end() == 0
        assert state(broker) == "PrepareCommit"
        if stops:
            await broker.stop_node(node_id)
        else:
            broker.cluster.move_transaction_coordinator("tx", other)
        await broker.wait_until_loaded()
        assert state(broker) == "PrepareCommit"
        assert command(broker, ReleaseTransaction) is None
        assert state(broker) == "CompleteCommit"
        (partition,) = broker.cluster.topics.by_name["t"].partitions
        assert partition.log_end_offset == 1


async def test_markers_wait_for_a_leader() -> None:
    """The producer is answered; the transaction ends when the node starts."""
    async with Broker(nodes=2, clock="manual") as broker:
        node_id = broker.cluster.transactions.for_id("tx").node_id
        other = elsewhere(broker, node_id)
        broker.cluster.create_topic("t", 1, replicas=[[other]])
        async with connected(broker, node_id) as client:
            producer = Producer(client)
            await producer.init()
            await producer.add()
            await broker.stop_node(other)
            assert await producer.end() == 0
            await broker.clock.advance(60)
            assert await producer.state() == "PrepareCommit"
            assert await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
            await broker.start_node(other)
            await broker.clock.advance(1)
            assert await producer.state() == "CompleteCommit"


async def test_a_deleted_topic_needs_no_marker() -> None:
    """The transaction ends in its other partitions."""
    async with cluster(1) as broker, connected(broker) as client:
        for name in ("t", "u"):
            broker.cluster.create_topic(name, 1)
        producer = Producer(client)
        await producer.init()
        await producer.add("t")
        await producer.add("u")
        topics = broker.cluster.topics.by_name
        work = broker.cluster.delete_topics([topics["t"]], Pace())
        for _ in work:
            pass
        assert await producer.end() == 0
        assert await producer.state() == "CompleteCommit"
        assert topics["u"].partitions[0].log_end_offset == 1


async def test_very_many_markers_are_written_in_turns() -> None:
    """No request holds the loop for long."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 200)
        producer = Producer(client)
        await producer.init()
        await producer.add("t", *range(200))
        assert await producer.end() == 0
        await until(lambda: state(broker) == "CompleteCommit")
        partitions = broker.cluster.topics.by_name["t"].partitions
        assert all(each.log_end_offset == 1 for each in partitions)


# -- the log


async def test_transactions_survive_a_kill(tmp_path: Path) -> None:
    """An open one stays open; one that is committed gets its markers."""
    path = tmp_path / "data"
    async with Broker(data_dir=path) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        committed, opened = Producer(client, "tx"), Producer(client, "open")
        assert command(broker, HoldTransaction, PREPARE_COMMIT) is None
        for each in (committed, opened):
            await each.init()
        await committed.add("t", 0)
        await opened.add("t", 1)
        await committed.end(version=5)
        assert await committed.state() == "PrepareCommit"
        copy = killed(path)
    async with Broker(data_dir=copy) as broker, connected(broker) as client:
        await broker.wait_until_loaded()
        committed.client = opened.client = client
        assert await committed.state() == "CompleteCommit"
        found = await opened.describe()
        assert (found.transaction_state, found.topics[0].partitions) == ("Ongoing", [1])
        ends = [p.log_end_offset for p in broker.cluster.topics.by_name["t"].partitions]
        assert ends == [1, 0]
        assert await committed.add("t", 0) == [0]
        assert await opened.end() == 0


async def test_a_failed_write_loads_the_transactions_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer finds the coordinator again, in the state that the log has."""
    async with cluster(1) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        producer = Producer(client)
        await producer.init()
        with monkeypatch.context() as patched:

            def full(*_: object, **__: object) -> None:
                raise StorageError("no space left on device")

            patched.setattr(Partition, "append_own", full)
            assert await producer.add() == [ErrorCode.NOT_COORDINATOR]
        await broker.wait_until_loaded()
        assert await producer.state() == "Empty"
        assert await producer.add() == [0]


async def test_the_topic_is_deleted() -> None:
    """The next request creates it anew; it has no transactions."""
    async with cluster(1) as broker, connected(broker) as client:
        producer = Producer(client)
        await producer.init()
        topic = broker.cluster.topics.by_name[TRANSACTIONS_TOPIC]
        for _ in broker.cluster.delete_topics([topic], Pace()):
            pass
        not_found = str(int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
        assert await producer.state() == not_found
        assert await producer.init() == 0
        assert producer.epoch == 0
