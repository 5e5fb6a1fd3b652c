"""``__kohort_events`` as Spark's source reads it; other readers: tests/interop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AdminClient,
    OffsetSpec,
)
from tests.broker.test_cluster import stable
from tests.events.test_views_topic import WRITTEN, in_the_topic, records
from tests.patience import PATIENCE_S
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.broker.topics.topic import EVENTS_TOPIC


async def test_what_spark_asks_for() -> None:
    """Offsets by name and by time, and records from the middle; in no group.

    Spark's source reads so: a consumer that is assigned partitions and never commits.
    """
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        for number in range(10):
            await stable(client, f"g{number}")
        await in_the_topic(broker, "g9", "rebalance_account")  # the last one
        everything = [event for _, event in records(broker)]
        ends = await asyncio.to_thread(_ask_as_spark, broker.bootstrap_servers)
        after = [event for _, event in records(broker)]
    times = [event["time_ns"] // 1_000_000 for event in everything]
    middle = len(times) // 2
    assert ends["earliest"] == 0
    assert ends["latest"] == len(everything)
    assert ends["middle"] == everything[middle:]
    # By time: the first record that is not older.
    assert ends["by time"] == times.index(times[middle])
    assert ends["too late"] == -1
    # A reader without a group makes no event.
    assert after == everything


def _ask_as_spark(addresses: str) -> dict[str, Any]:
    partition = TopicPartition(EVENTS_TOPIC, 0)
    admin = AdminClient({"bootstrap.servers": addresses})
    found: dict[str, Any] = {}
    for name in ("earliest", "latest"):
        wanted = getattr(OffsetSpec, name)()
        (asked,) = admin.list_offsets({partition: wanted}).values()
        found[name] = asked.result(PATIENCE_S).offset
    middle = found["latest"] // 2
    consumer = Consumer(
        {"bootstrap.servers": addresses, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(EVENTS_TOPIC, 0, middle)])
    read: list[Any] = []
    while len(read) < found["latest"] - middle:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.offset() == middle + len(read)
        value = message.value()
        assert isinstance(value, bytes)
        read.append(json.loads(value))
        if len(read) == 1:
            _, time_ms = message.timestamp()
    found["middle"] = read
    for name, wanted_ms in (("by time", time_ms), ("too late", time_ms + 10**9)):
        (answer,) = consumer.offsets_for_times(
            [TopicPartition(EVENTS_TOPIC, 0, wanted_ms)], PATIENCE_S
        )
        found[name] = answer.offset
    consumer.close()
    return found
