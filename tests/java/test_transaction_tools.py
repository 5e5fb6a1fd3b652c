"""Apache Kafka's own tools write, read, describe and end transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.broker.test_cluster import cluster
from tests.java.conftest import TOOLS, Tool
from tests.wire.client import connected
from tests.wire.requests import produce

from kohort.client import KohortError, Producer
from kohort.protocol.apis.k00_produce import ProduceRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kohort.broker.server import Broker

pytestmark = pytest.mark.interop

TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
HOUR_MS = 3_600_000


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """One node with a topic of one partition, which takes unverified transactions."""
    async with cluster(1, transaction_partition_verification_enable=False) as broker:
        broker.cluster.create_topic("t", 1)
        yield broker


def rows(printed: str) -> dict[str, list[str]]:
    """The cells of a table, by the first of each row."""
    return {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line}


async def test_open_transaction(broker: Broker, tool: Tool) -> None:
    """An open transaction is listed, described, and ended by force."""
    pay = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="pay")
    async with pay:
        await pay.begin_transaction()
        await pay.send_and_wait("t", b"open")
        listed = rows(await tool(TRANSACTIONS, "list"))
        assert listed["pay"][0] == "1"
        assert listed["pay"][2] == "Ongoing"
        long = await tool(TRANSACTIONS, "list", "--duration-filter", str(HOUR_MS))
        assert "pay" not in rows(long)
        described = rows(
            await tool(TRANSACTIONS, "describe", "--transactional-id", "pay")
        )
        assert described["1"][0] == "pay"
        assert "Ongoing" in described["1"]
        assert described["1"][-1] == "t-0"
        place = ["--topic", "t", "--partition", "0"]
        producers = rows(await tool(TRANSACTIONS, "describe-producers", *place))
        assert producers[listed["pay"][1]][-1] == "0"  # the transaction's first offset

        option = ["--transactionalId", "pay"]
        await tool(TRANSACTIONS, "forceTerminateTransaction", *option)
        listed = rows(await tool(TRANSACTIONS, "list"))
        assert listed["pay"][2] == "Empty"  # by InitProducerId
        with pytest.raises(KohortError):
            await pay.commit_transaction()


async def test_hanging_transaction(broker: Broker, tool: Tool) -> None:
    """A transaction that no coordinator knows is found, and aborted."""
    record = Record(timestamp_ms=int(time.time() * 1000) - HOUR_MS, value=b"lost")
    batch = build_batch(
        [record],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    async with connected(broker) as client:
        request = ProduceRequest("x", -1, 1000, produce((0, batch)).topic_data)
        answer = await client.call("Produce", 9, request)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    hanging = rows(await tool(TRANSACTIONS, "find-hanging", "--topic", "t"))
    assert hanging["t"][:2] == ["0", "7"]
    start = ["--topic", "t", "--partition", "0", "--start-offset", "0"]
    await tool(TRANSACTIONS, "abort", *start)
    assert "t" not in rows(await tool(TRANSACTIONS, "find-hanging", "--topic", "t"))


async def test_records(broker: Broker, tool: Tool) -> None:
    """The console consumer reads what the performance test commits, and no more."""
    bad = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="bad")
    async with bad:
        await bad.begin_transaction()
        await bad.send_and_wait("t", b"aborted")
        await bad.abort_transaction()
    options = ["--topic", "t", "--num-records", "500", "--throughput", "-1"]
    options += ["--record-size", "10", "--transactional-id", "perf"]
    options += ["--transaction-duration-ms", "10"]
    printed = await tool(f"{TOOLS}.ProducerPerformance", *options)
    assert printed.startswith("500 records sent")
    options = ["--topic", "t", "--from-beginning", "--max-messages", "500"]
    options += ["--isolation-level", "read_committed", "--timeout-ms", "60000"]
    printed = await tool(f"{TOOLS}.consumer.ConsoleConsumer", *options)
    # Its records are ten letters; other lines are log lines.
    assert sum(len(line) == 10 for line in printed.splitlines()) == 500
    assert "aborted" not in printed
