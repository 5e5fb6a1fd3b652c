"""The contents of a data directory, and of a topic."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.librdkafka import row_of
from tests.long_runs.broker_process import BrokerError

READ_S = 120.0


def inspected(data: Path) -> dict[tuple[str, int], tuple[int, str]]:
    """Offsets and metadata by group and partition, according to `kohort inspect`.

    Raises:
        BrokerError: it finds damage.
    """
    done = subprocess.run(
        [sys.executable, "-m", "kohort", "inspect", "--json", str(data)],
        capture_output=True,
        text=True,
        timeout=READ_S,
        check=False,
    )
    if done.returncode:
        raise BrokerError(f"kohort inspect: {done.stdout[-1_000:]} {done.stderr}")
    return {
        (group["group_id"], each["partition"]): (each["offset"], each["metadata"])
        for group in json.loads(done.stdout)["groups"]
        for each in group["offsets"]
    }


def read_all(
    bootstrap: str, topic: str, ends: list[int]
) -> dict[int, list[tuple[int, bytes, bytes]]]:
    """Every record of the topic, by partition: offset, key, value."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    log: dict[int, list[tuple[int, bytes, bytes]]] = {i: [] for i in range(len(ends))}
    left = {place: end for place, end in enumerate(ends) if end}
    consumer.assign([TopicPartition(topic, place, 0) for place in left])
    deadline = time.monotonic() + READ_S
    while left:
        if time.monotonic() > deadline:
            raise BrokerError(f"not read in {READ_S:.0f} s: the partitions {left}")
        for message in consumer.consume(1_000, 1.0):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            place, offset, key, value = row_of(message)
            log[place].append((offset, key, value))
            if offset + 1 >= left.get(place, 0):
                left.pop(place, None)
    consumer.close()
    return log
