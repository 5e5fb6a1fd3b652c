"""A service for tests that start it as a process: billing.py LIBRARY CLIENT_ID.

It consumes the topic orders in the group billing until SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
HEARTBEAT_MS = 50


def confluent_kafka(client_id: str, goes_on: Callable[[], bool]) -> None:
    """With librdkafka."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": "billing",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    )
    consumer.subscribe(["orders"])
    while goes_on():
        consumer.poll(0.05)
    consumer.close()


def kafka_python(client_id: str, goes_on: Callable[[], bool]) -> None:
    """With kafka-python."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=SERVERS,
        group_id="billing",
        client_id=client_id,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    # A leader that learns of partitions after it has joined rejoins. If a poll ends
    # before the answer to that SyncGroup, kafka-python is out of the group for good.
    consumer.partitions_for_topic("orders")
    while goes_on():
        consumer.poll(timeout_ms=50)
    consumer.close()


def main(library: str, client_id: str) -> None:
    """Consumes until SIGTERM."""
    signals: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        signals.append(number)

    signal.signal(signal.SIGTERM, end)
    services = {"confluent-kafka": confluent_kafka, "kafka-python": kafka_python}
    services[library](client_id, lambda: not signals)


if __name__ == "__main__":
    main(*sys.argv[1:])
