"""Sentences about other clients, which state only facts from the events."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaException
from tests.client.stage import PATIENCE, consumer, poll_until
from tests.scenes.players import Player

from kohort.testing import Kohort, in_thread

pytestmark = [pytest.mark.interop, pytest.mark.kohort(partitions=4)]


@pytest.mark.kohort(config={"group.max.size": 2})
def test_librdkafka_in_a_group_that_is_full_of_itself(kohort: Kohort) -> None:
    """A static member is refused while its own place is kept."""
    kohort.topic("orders")
    group = kohort.group("billing")
    ana, ben, again = (
        Player("confluent-kafka", kohort.bootstrap_servers, name, instance=f"i-{name}")
        for name in ("ana", "ben", "ben")
    )
    with in_thread(ana.run, stop=ana.stop):
        with in_thread(ben.run, stop=ben.stop):
            group.stable(members=2).until_assigned()
            before = group.history()
        with (
            pytest.raises(KafkaException),
            in_thread(again.run, stop=again.stop) as run,
        ):
            run.exception(PATIENCE)
        found = group.history()
    assert found.rebalances == before.rebalances
    (finding,) = found.findings
    assert finding.code == "static-member-refused"
    text = "i-ben was refused while the group still had its old member id"
    assert {each.text for each in finding.evidence} == {text}


async def test_aiokafka_that_does_not_poll(kohort: Kohort) -> None:
    """It gives no reason; but it commits on its connection when it is out already."""
    kohort.topic("t", records=20)
    group = kohort.group("g")
    slow = AIOKafkaConsumer(
        "t",
        bootstrap_servers=kohort.bootstrap_servers,
        group_id="g",
        client_id="ana",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        max_poll_interval_ms=1_000,
    )
    ben = consumer(
        kohort,
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
        await poll_until(lambda: bool(group.history().facts.refusals), ben)
    finally:
        await slow.stop()
        await ben.close()
    found = group.history()
    assert "ana left, no reason given" in found.text()
    assert [(f.code, f.is_sure) for f in found.findings] == [
        ("max-poll-interval", True),
        ("commit-too-late", True),
    ]
    (left,) = found.findings[0].evidence
    assert "on the same connection was refused" in left.text
