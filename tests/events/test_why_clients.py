"""Sentences about other clients, which state only facts from the events."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest
from aiokafka import AIOKafkaConsumer
from tests.client.stage import PATIENCE, consumer, poll_until
from tests.scenes.players import Player, RefusedError

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
            pytest.raises(RefusedError),
            in_thread(again.run, stop=again.stop) as run,
        ):
            run.exception(PATIENCE)
        found = group.history()
    assert found.rebalances == before.rebalances
    (finding,) = found.findings
    assert finding.code == "static-member-refused"
    text = "i-ben was refused while the group still had its old member id"
    assert {each.text for each in finding.evidence} == {text}


SERVICE = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing",
    "client.id": sys.argv[2], "heartbeat.interval.ms": 100, "session.timeout.ms": 1000})
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.1)
"""


@pytest.mark.kohort(config={"group.min.session.timeout.ms": 1000})
def test_a_process_that_is_frozen_again_and_again(kohort: Kohort) -> None:
    """It hangs, and comes back: no crash loop, and nothing about settings."""
    kohort.topic("orders")
    group = kohort.group("billing")
    command = [sys.executable, "-c", SERVICE, kohort.bootstrap_servers]
    frozen, _ = (kohort.process([*command, name]) for name in ("ana", "ben"))
    group.stable(members=2)
    for _ in range(3):
        os.killpg(frozen.pid, signal.SIGSTOP)
        group.stable(members=1)
        os.killpg(frozen.pid, signal.SIGCONT)
        group.stable(members=2)
    (finding,) = group.history().findings
    assert finding.code == "hung"
    assert len(finding.evidence) == 3


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
