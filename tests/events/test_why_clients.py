"""What other clients do, and what is said of it: nothing that they do not say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from tests.client.stage import PATIENCE, consumer, fill, poll_until

from kohort.broker.server import Broker
from kohort.control.group import Group
from kohort.control.why import History

pytestmark = pytest.mark.interop


@contextlib.asynccontextmanager
async def librdkafka(broker: Broker, name: str) -> AsyncIterator[None]:
    """A static member over librdkafka that polls, and that ends without leaving."""
    settings: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "client.id": name,
        "group.instance.id": f"i-{name}",
        "session.timeout.ms": 45_000,
        "heartbeat.interval.ms": 100,
    }
    member = Consumer(settings)
    member.subscribe(["t"])
    is_over = False

    async def poll() -> None:
        while not is_over:
            await asyncio.to_thread(member.poll, 0.05)

    polling = asyncio.create_task(poll())
    try:
        yield
    finally:
        is_over = True
        await polling
        await asyncio.to_thread(member.close)


async def until(broker: Broker, condition: Callable[[History], bool]) -> History:
    """The group's history, once something can be told of it."""
    with broker.events.subscribe(past=True) as reader:
        async with asyncio.timeout(PATIENCE):
            async for event in reader:
                if event["group"] != "g":
                    continue
                found = history_of(broker)
                if condition(found):
                    return found
    raise AssertionError("the stream of events has ended")


def has_members(count: int) -> Callable[[History], bool]:
    """Whether the last rebalance is over for all, and so many are in it."""

    def condition(found: History) -> bool:
        if not found.rebalances:
            return False
        last = found.rebalances[-1]
        is_over = all(each.ended_by != "unseen" for each in last.pauses)
        return is_over and last.outcome == "completed" and len(last.members) == count

    return condition


async def test_librdkafka_in_a_group_that_is_full_of_itself() -> None:
    """A static member is refused while its own place is kept, and asks on and on."""
    config = {"group.initial.rebalance.delay.ms": 0, "group.max.size": 2}
    async with Broker(config) as broker:
        await fill(broker, counts=[0] * 4)
        async with librdkafka(broker, "ana"):
            async with librdkafka(broker, "ben"):
                before = await until(broker, has_members(2))
            async with librdkafka(broker, "ben"):
                found = await until(broker, lambda h: bool(h.facts.refusals))
        assert found.rebalances == before.rebalances
        (finding,) = found.findings
        assert finding.code == "static-member-refused"
        text = "i-ben was refused while it was still a member itself"
        assert {each.text for each in finding.evidence} == {text}


async def test_aiokafka_that_does_not_poll() -> None:
    """It gives no reason; but it commits on its connection when it is out already."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        await fill(broker, counts=[5] * 4)
        slow = AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            client_id="ana",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            max_poll_interval_ms=1_000,
        )
        ben = consumer(
            broker,
            "t",
            group_id="g",
            client_id="ben",
            partition_assignment_strategy="roundrobin",  # as aiokafka's
        )
        await ben.start()
        await poll_until(lambda: len(ben.assignment()) == 4, ben)
        try:
            starting = asyncio.create_task(slow.start())
            await poll_until(starting.done, ben)
            await starting
            await poll_until(lambda: bool(history_of(broker).facts.refusals), ben)
        finally:
            await slow.stop()
            await ben.close()
        found = history_of(broker)
        assert "ana left, no reason given" in found.text()
        assert [(f.code, f.is_sure) for f in found.findings] == [
            ("max-poll-interval", True),
            ("commit-too-late", True),
        ]
        (left,) = found.findings[0].evidence
        assert "on the same connection, which was refused" in left.text


def history_of(broker: Broker) -> History:
    """What the broker remembers of the group."""
    return Group(broker, "g").history()
