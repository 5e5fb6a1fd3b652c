"""Clients that meet an older broker: they produce, consume in a group, and commit."""

from __future__ import annotations

import asyncio

import aiokafka
import confluent_kafka
import kafka
import pytest
from tests.scenes.conftest import Cast

from kohort.testing import Kohort

_VERSIONS = [
    pytest.param(each, marks=pytest.mark.kohort(config={"api.versions": each}))
    for each in ("2.8", "3.9", "4.0")
]
older = pytest.mark.parametrize("version", _VERSIONS)


def produce(library: str, servers: str, values: list[bytes]) -> None:
    """Sends records with a library's own producer."""
    if library == "aiokafka":
        asyncio.run(_send(servers, values))
    elif library == "kafka-python":
        producer = kafka.KafkaProducer(bootstrap_servers=servers)
        for value in values:
            producer.send("orders", value)
        producer.close()
    else:
        sender = confluent_kafka.Producer({"bootstrap.servers": servers})
        for value in values:
            sender.produce("orders", value)
        assert sender.flush(10) == 0


async def _send(servers: str, values: list[bytes]) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for value in values:
            await producer.send_and_wait("orders", value)


@older
def test_a_group(cast: Cast, version: str) -> None:
    """Two members share what their library's producer has sent, and commit it."""
    orders = cast.kohort.topic("orders", partitions=4)
    ana, ben = cast.start("ana"), cast.start("ben")
    cast.group.stable(members=2).until_assigned()
    produce(cast.library, cast.kohort.bootstrap_servers, [version.encode()] * 5)
    orders.produce(8)
    for player in (ana, ben):
        player.has_read(4)
    cast.group.until_lag(0)
    assert sum(cast.group.committed().values()) == 13


@older
def test_a_transaction(kohort: Kohort, version: str) -> None:
    """librdkafka's, of the generation that the broker has."""
    orders = kohort.topic("orders", partitions=1)
    settings = {"bootstrap.servers": kohort.bootstrap_servers, "transactional.id": "t"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(10)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("orders", version.encode())
        producer.flush(10)
        end(10)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kohort.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe(["orders"])
    read = []
    while (message := consumer.poll(10)) is not None and not message.error():
        read.append(message.value())
    consumer.close()
    assert read == [version.encode()]
    assert len(orders.records()) == 2
