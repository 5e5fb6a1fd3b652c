"""Members of four client libraries, each in a separate thread or process.

All do the same: they read "orders" in the group "billing", and commit after each poll,
or only before their partitions are revoked. A member that can be killed:

    python -m tests.scenes.players LIBRARY NAME
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE_S

POLL_MS = 20
"""Longest poll: a member notices a stop between two polls."""
HEARTBEAT_MS = 30
"""Members learn of a rebalance by a heartbeat."""
FULL_BY_KIP_389 = 77
"""GROUP_MAX_SIZE_REACHED in KIP-389's own number."""


@dataclass
class Player:
    """A member.

    Attributes:
        library: one of `LIBRARIES`.
        servers: bootstrap servers.
        name: its client id.
        instance: its ``group.instance.id``.
        commits_polls: whether it commits after each poll; it always does before its
            partitions are revoked.
        read: the values it has read.
        until_read: notified after each poll with records.
    """

    library: str
    servers: str
    name: str
    instance: str | None = None
    commits_polls: bool = True
    read: list[bytes] = field(default_factory=list)
    until_read: threading.Condition = field(default_factory=threading.Condition)
    is_stopping: bool = False

    def run(self) -> None:
        """Reads until `stop`, then closes, which leaves the group."""
        LIBRARIES[self.library](self)

    def stop(self) -> None:
        """Makes `run` return soon."""
        self.is_stopping = True

    def has_read(self, count: int) -> None:
        """Waits until it has read this number of records."""
        with self.until_read:
            assert self.until_read.wait_for(lambda: len(self.read) >= count, PATIENCE_S)

    def take(self, values: Iterable[bytes | None]) -> None:
        """Takes the records of a poll."""
        with self.until_read:
            self.read += [value or b"" for value in values]
            self.until_read.notify_all()

    def settings(self) -> dict[str, Any]:
        """The settings of all libraries that use Python names for Kafka's keys."""
        found = {
            "bootstrap_servers": self.servers,
            "group_id": "billing",
            "client_id": self.name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "fetch_max_wait_ms": POLL_MS,
            "retry_backoff_ms": 10,
        }
        return found | ({"group_instance_id": self.instance} if self.instance else {})


# A process imports only its library: each is slow to import.


def _confluent(player: Player) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    def on_error(error: KafkaError) -> None:
        # librdkafka would retry; other libraries raise it.
        if error.code() in {KafkaError.GROUP_MAX_SIZE_REACHED, FULL_BY_KIP_389}:
            raise KafkaException(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": player.servers,
        "group.id": "billing",
        "client.id": player.name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "fetch.wait.max.ms": POLL_MS,
        "error_cb": on_error,
    }
    if player.instance:
        settings["group.instance.id"] = player.instance
    consumer = Consumer(settings)

    def commit(*_: object) -> None:
        # Nothing to commit, or refused: the next owner reads it again.
        with contextlib.suppress(KafkaException):
            consumer.commit(asynchronous=False)

    consumer.subscribe(["orders"], on_revoke=commit)
    try:
        while not player.is_stopping:
            values = []
            for record in consumer.consume(100, POLL_MS / 1000):
                error = record.error()
                if error is None:
                    values.append(record.value())
                else:
                    on_error(error)
            if values:
                player.take(values)
                if player.commits_polls:
                    commit()
    finally:
        consumer.close()


def _kafka_python(player: Player) -> None:
    from kafka import AsyncConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError
    from kafka.net.inet import KafkaNetSocket

    class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # no types
        """Closes a socket that does not connect. kafka-python drops it instead.

        A garbage collection in a later test would warn of it.
        """

        SCHEMES = ("closing",)

        async def sock_connect(
            self, net: Any, sock: socket.socket, *where: Any, **until: Any
        ) -> socket.socket:
            try:
                await super().sock_connect(net, sock, *where, **until)
            except BaseException:
                sock.close()
                raise
            return sock

    consumer = KafkaConsumer(**player.settings(), proxy_url="closing://")

    class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # no types
        async def on_partitions_revoked(self, _revoked: object) -> None:
            with contextlib.suppress(KafkaError):
                await consumer.commit_async()

        async def on_partitions_assigned(self, _assigned: object) -> None:
            pass

    consumer.subscribe(["orders"], listener=Listener())
    # Without the topics it would join twice.
    consumer.topics()
    try:
        while not player.is_stopping:
            # It forgets a response that comes between two polls, and joins once more.
            poll_ms = 5 * POLL_MS if consumer.assignment() else 1_000
            found = consumer.poll(timeout_ms=poll_ms)
            if found:
                player.take(each.value for rows in found.values() for each in rows)
                if player.commits_polls:
                    with contextlib.suppress(KafkaError):
                        consumer.commit()
    finally:
        consumer.close()


def _aiokafka(player: Player) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    settings = {
        "partition_assignment_strategy": [RangePartitionAssignor],
        "rebalance_timeout_ms": 300_000,  # as of the others; its default is 10 s
    }

    def make() -> Any:
        return AIOKafkaConsumer(**player.settings(), **settings)

    asyncio.run(_consume(player, make, ConsumerRebalanceListener, KafkaError))


def _kohort(player: Player) -> None:
    from kohort.client import Consumer, ConsumerRebalanceListener, KohortError

    def make() -> Any:
        return Consumer(**player.settings())

    asyncio.run(_consume(player, make, ConsumerRebalanceListener, KohortError))


async def _consume(
    player: Player,
    make: Callable[[], Any],
    listener: type,
    error: type[Exception],
) -> None:
    async with make() as consumer:

        async def commit() -> None:
            with contextlib.suppress(error):
                await consumer.commit()

        class Listener(listener):  # type: ignore[misc]  # any of two
            async def on_partitions_revoked(self, _revoked: object) -> None:
                await commit()

            async def on_partitions_assigned(self, _assigned: object) -> None:
                pass

        consumer.subscribe(["orders"], listener=Listener())
        while not player.is_stopping:
            found = await consumer.getmany(timeout_ms=POLL_MS)
            if found:
                player.take(each.value for rows in found.values() for each in rows)
                if player.commits_polls:
                    await commit()


LIBRARIES: dict[str, Callable[[Player], None]] = {
    "kohort": _kohort,
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
}


if __name__ == "__main__":
    _, library, name = sys.argv
    Player(library, os.environ["KAFKA_BOOTSTRAP_SERVERS"], name).run()
