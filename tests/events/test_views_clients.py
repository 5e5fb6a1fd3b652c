"""``__kohort_events`` as other people's consumers read it, however they do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AdminClient,
    OffsetSpec,
)
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from tests.broker.test_cluster import stable
from tests.broker.wire_client import connected
from tests.commands import PATIENCE_S
from tests.events.test_views_topic import WRITTEN, in_the_topic, records
from tests.librdkafka import begin

from kohort.broker.server import Broker
from kohort.broker.topics import EVENTS_TOPIC

SCHEMA = Path(__file__).parent.parent.parent / "docs" / "events.schema.json"
PATTERN = "^__kohort.*"
WAYS = ("subscribes", "a pattern", "by hand")
Row = tuple[bytes | None, bytes]
"""The key and the value of a record."""


def is_read(rows: list[Row]) -> bool:
    """Whether the event that readers wait for has come."""
    return bool(rows) and is_last(rows[-1][1])


def is_last(value: bytes) -> bool:
    """Whether it is that event."""
    event = json.loads(value)
    return (event["group"], event["kind"]) == ("watched", "assignment_made")


async def aiokafka(addresses: str, way: str) -> list[Row]:
    """Reads with aiokafka, and commits after each record."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=addresses,
        group_id=f"aiokafka {way}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        exclude_internal_topics=False,
    )
    if way == "subscribes":
        consumer.subscribe([EVENTS_TOPIC])
    elif way == "a pattern":
        consumer.subscribe(pattern=PATTERN)
    else:
        consumer.assign([AiokafkaPartition(EVENTS_TOPIC, 0)])
    await consumer.start()
    rows: list[Row] = []
    try:
        while not is_read(rows):
            record = await consumer.getone()
            rows.append((record.key, record.value))
            await consumer.commit()
    finally:
        await consumer.stop()
    return rows


def _kafka_python(addresses: str, way: str, is_over: Event) -> list[Row]:
    from kafka import (  # type: ignore[import-untyped] # noqa: PLC0415 - it warns
        KafkaConsumer,
    )
    from kafka import TopicPartition as KafkaPythonPartition  # noqa: PLC0415 - as above

    consumer = KafkaConsumer(
        bootstrap_servers=addresses,
        group_id=f"kafka_python {way}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        exclude_internal_topics=False,
        max_poll_records=1,
    )
    if way == "subscribes":
        consumer.subscribe([EVENTS_TOPIC])
    elif way == "a pattern":
        consumer.subscribe(pattern=PATTERN)
    else:
        consumer.assign([KafkaPythonPartition(EVENTS_TOPIC, 0)])
    rows: list[Row] = []
    try:
        # A leader that learns of its partitions later has to join again, and forgets to
        # if a poll ends while its SyncGroup is under way.
        consumer.topics()
        while not is_read(rows) and not is_over.is_set():
            for polled in consumer.poll(100).values():
                rows += [(record.key, record.value) for record in polled]
                consumer.commit()
    finally:
        consumer.close()
    return rows


async def in_thread(
    read: Callable[[str, str, Event], list[Row]], addresses: str, way: str
) -> list[Row]:
    """Has somebody read who waits in a thread; ends, too, if nobody wants it any more.

    The loop's own threads may be too few for all who read at once.
    """
    is_over = Event()
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1)
    try:
        return await loop.run_in_executor(thread, read, addresses, way, is_over)
    finally:
        is_over.set()
        # Not to wait: the thread waits for the broker, which is in this one.
        thread.shutdown(wait=False)


async def kafka_python(addresses: str, way: str) -> list[Row]:
    """Reads with kafka-python, and commits after each record."""
    return await in_thread(_kafka_python, addresses, way)


def _assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    begin(consumer, partitions, is_cooperative=False)


def _confluent(addresses: str, way: str, is_over: Event) -> list[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": f"confluent {way}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    if way == "by hand":
        consumer.assign([TopicPartition(EVENTS_TOPIC, 0, 0)])
    else:
        wanted = EVENTS_TOPIC if way == "subscribes" else PATTERN
        consumer.subscribe([wanted], on_assign=_assigned)
    rows: list[Row] = []
    try:
        while not is_read(rows) and not is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                key, value = message.key(), message.value()
                assert isinstance(value, bytes)
                assert key is None or isinstance(key, bytes)
                rows.append((key, value))
                consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()
    return rows


async def confluent(addresses: str, way: str) -> list[Row]:
    """Reads with librdkafka, and commits after each record."""
    return await in_thread(_confluent, addresses, way)


LIBRARIES: tuple[Callable[[str, str], Coroutine[Any, Any, list[Row]]], ...] = (
    aiokafka,
    kafka_python,
    confluent,
)


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
async def test_other_libraries_read_it() -> None:
    """By subscription, by pattern, by hand: all records, and none that reading makes.

    Each reader commits after each record. The records are the stream: valid by the
    schema, keyed by their groups, numbered without gaps but for the readers' events.
    """
    groups = {f"{each.__name__} {way}" for each in LIBRARIES for way in WAYS}
    async with (
        Broker(WRITTEN) as broker,
        connected(broker) as client,
        asyncio.timeout(PATIENCE_S),
    ):
        for number in range(8):
            await stable(client, f"g{number}")
        async with asyncio.TaskGroup() as tasks:
            reading = [
                tasks.create_task(each(broker.bootstrap_servers, way))
                for each in LIBRARIES
                for way in WAYS
            ]
            # Then all of them are in the middle of it.
            await have_committed(broker, groups)
            await stable(client, "watched")
        found = [each.result() for each in reading]
        await stable(client, "last")
        await in_the_topic(broker, "last", "assignment_made")
        everything = [event for _, event in records(broker)]
        missing = [
            event for event in broker.events.recent() if event["group"] in groups
        ]
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    for rows in found:
        read = [json.loads(value) for _, value in rows]
        assert read == everything[: len(read)]
        for (key, _), event in zip(rows, read, strict=True):
            group = event["group"]
            assert key == (None if group is None else group.encode())
    for event in everything:
        validator.validate(event)
    early = [event for event in everything if event["group"] in groups]
    # Nobody knows yet what a group that was given an id is for.
    assert {event["kind"] for event in early} <= {"group_state", "member_id_given"}
    assert len(early) <= 2 * len(groups)
    numbers = {event["sequence"] for event in (*everything, *missing)}
    assert numbers == {*range(1, everything[-1]["sequence"] + 1)} | {
        event["sequence"] for event in missing
    }
    assert sum(e["kind"] == "offsets_committed" for e in missing) == sum(
        map(len, found)
    )


async def have_committed(broker: Broker, groups: set[str]) -> None:
    """Waits until each of these groups has committed."""
    left = {*groups}
    with broker.events.subscribe(past=True) as reader:
        async for event in reader:
            if event["kind"] == "offsets_committed":
                left.discard(event["group"])
            if not left:
                return


async def test_what_spark_asks_for() -> None:
    """Offsets by name and by time, and records from the middle; in no group.

    Spark's source reads so: a consumer that is assigned partitions and never commits.
    """
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        for number in range(10):
            await stable(client, f"g{number}")
        await in_the_topic(broker, "g9", "assignment_made")
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
    # Whoever reads like that makes no event.
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
