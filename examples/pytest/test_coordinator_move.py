"""A confluent-kafka consumer survives a move of its coordinator during SyncGroup.

`Billing` is the service; the rest is its test. The coordinator moves to another node
while members wait for their assignments.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException

from kohort.testing import Kohort, in_thread


class Billing:
    """Bills orders, and commits after each batch."""

    def __init__(
        self, servers: str, name: str, bill: Callable[[bytes], object]
    ) -> None:
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": "billing",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # Members learn of a rebalance by a heartbeat; every 3 s by default.
            "heartbeat.interval.ms": 50,
        }
        self._bill = bill
        self._is_stopping = threading.Event()

    def run(self) -> None:
        """Bills orders until `stop`."""
        consumer = Consumer(self._settings)
        consumer.subscribe(["orders"])
        try:
            while not self._is_stopping.is_set():
                orders = consumer.consume(100, 0.05)
                for order in orders:
                    if order.error() is None:  # librdkafka retries errors itself
                        self._bill(order.value() or b"")
                # A commit may be refused: the next owners bill these orders again.
                with contextlib.suppress(KafkaException):
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def stop(self) -> None:
        """Makes `run` return soon."""
        self._is_stopping.set()


@pytest.mark.kohort(nodes=3)
def test_a_coordinator_moves_in_mid_sync(kohort: Kohort) -> None:
    """The members find the new coordinator, join again, and no order is lost."""
    orders = kohort.topic("orders", partitions=6, records=[f"a{n}" for n in range(30)])
    group = kohort.group("billing")
    bills: list[bytes] = []
    first, second = (
        Billing(kohort.bootstrap_servers, name, bills.append)
        for name in ("billing-1", "billing-2")
    )
    with in_thread(first.run, stop=first.stop):
        group.stable(members=1)
        group.hold("CompletingRebalance")
        with in_thread(second.run, stop=second.stop):
            group.until(state="CompletingRebalance", members=2)
            before = group.describe()["coordinator"]
            group.move()
            group.release()
            group.stable(members=2)
            assert group.describe()["coordinator"] != before
            orders.produce([f"b{n}" for n in range(30)])
            group.caught_up()
    assert {*bills} == {f"{row}{n}".encode() for row in "ab" for n in range(30)}
