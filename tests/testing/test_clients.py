"""Services with real clients under test, in async and in blocking tests."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest

from kohort.testing import Kohort, Process, running

pytestmark = pytest.mark.kohort(partitions=6)

BILLING = Path(__file__).parent / "billing.py"


async def service(servers: str, client_id: str = "billing-1") -> None:
    """A service that commits before its partitions are revoked."""
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id="billing",
        client_id=client_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        retry_backoff_ms=10,
    )

    class Commit(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: object) -> None:
            if revoked:
                await consumer.commit()

        async def on_partitions_assigned(self, assigned: object) -> None:
            pass

    consumer.subscribe(["orders"], listener=Commit())
    try:
        await consumer.start()
        while True:
            if await consumer.getmany(timeout_ms=1000):
                await consumer.commit()
    finally:
        # aiokafka's `async with` leaves a member behind if start() is cancelled.
        await consumer.stop()


async def test_aiokafka(kohort: Kohort) -> None:
    """A second instance joins; nothing is delivered twice."""
    await kohort.topic("orders", records=60)
    group = kohort.group("billing")
    async with running(service(kohort.bootstrap_servers)):
        await group.stable(members=1)
        await group.caught_up()
        async with running(service(kohort.bootstrap_servers, "billing-2")):
            await group.stable(members=2)
            await group.until_assigned("billing-2", partitions=3)
    assert all(move.committed_before_release for move in group.moves)
    assert group.redelivered == 0
    assert sum(group.committed().values()) == 60
    causes = [each.cause for each in group.history().rebalances]
    assert causes[:2] == ["member_joined", "member_joined"]


def start(kohort: Kohort, library: str, client_id: str) -> Process:
    """An instance of a service, as a process."""
    return kohort.process([sys.executable, BILLING, library, client_id])


def test_confluent_kafka(kohort: Kohort) -> None:
    """A service is killed; its session ends when the test says so."""
    kohort.topic("orders", records=6)
    victim = start(kohort, "confluent-kafka", "billing-1")
    survivor = start(kohort, "confluent-kafka", "billing-2")
    group = kohort.group("billing").stable(members=2)
    victim.kill()
    group.member("billing-1").expire()
    group.stable(members=1)
    assert group.history().last.cause == "session_expired"
    group.until_assigned("billing-2", partitions=6)
    survivor.terminate()
    assert survivor.wait().code == 0


def test_a_kicked_consumer_comes_back(kohort: Kohort) -> None:
    """It joins again as a new member."""
    kohort.topic("orders", records=6)
    start(kohort, "confluent-kafka", "billing-1")
    group = kohort.group("billing").stable(members=1)
    kicked = group.member("billing-1").kick("for a test")
    group.until_rebalances(3).stable(members=1)
    assert group.members[0].member_id != kicked.member_id
    assert "member_kicked" in {each.cause for each in group.history().rebalances}


def test_kafka_python(kohort: Kohort) -> None:
    """A consumer joins again when a test asks for a rebalance."""
    kohort.topic("orders", records=6)
    start(kohort, "kafka-python", "billing-1")
    group = kohort.group("billing").until_assigned("billing-1", partitions=6)
    generation = group.generation
    group.rebalance("deployment")
    group.until(state="Stable", generation=generation + 1)
    (rebalance,) = (r for r in group.history().rebalances if r.cause == "requested")
    assert rebalance.reason == "deployment"
    assert rebalance.members == (group.members[0].member_id,)


def test_a_producer_retries(kohort: Kohort) -> None:
    """NOT_LEADER_OR_FOLLOWER, then success: no record is lost or doubled."""
    kohort.topic("orders")
    rule = kohort.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kohort.bootstrap_servers,
            "enable.idempotence": True,
            "retry.backoff.ms": 10,
        }
    )
    for number in range(10):
        producer.produce("orders", str(number), partition=0)
    assert producer.flush(10) == 0
    assert rule.strikes == 2
    found = [each.value for each in kohort.records("orders")]
    assert found == [str(number).encode() for number in range(10)]


async def test_a_service_that_fails_ends_the_test(kohort: Kohort) -> None:
    """A wait for a group does not go on for 10 s when its only member is gone."""

    async def broken() -> None:
        raise LookupError("no configuration")

    async def body() -> None:
        async with running(broken()):
            await kohort.group("billing").stable(members=1)

    with pytest.raises(LookupError, match="no configuration"):
        await asyncio.wait_for(body(), 5)
