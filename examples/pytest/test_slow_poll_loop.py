"""A consumer whose poll loop hangs is removed from the group.

While a consumer does not poll, its client still sends heartbeats. When another member
joins, the group waits for the hanging one for max.poll.interval.ms (5 minutes by
default), and no member gets new partitions meanwhile. Then the broker removes it: by
the broker's clock, which a test can move.

The client also watches max.poll.interval.ms, by its own clock, and then leaves the
group. To test that, set it low.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException

from kohort.testing import Kohort, in_thread


class Billing:
    """Bills orders, and commits each one."""

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
        self.refused: list[bytes] = []

    def run(self) -> None:
        """Bills orders until `stop`."""
        consumer = Consumer(self._settings)
        consumer.subscribe(["orders"])
        try:
            while not self._is_stopping.is_set():
                order = consumer.poll(0.05)
                if order is None or order.error():
                    continue  # librdkafka retries errors itself
                value = order.value() or b""
                self._bill(value)
                try:
                    consumer.commit(message=order, asynchronous=False)
                except KafkaException:
                    # Another member owns the partition now, and bills the order again.
                    self.refused.append(value)
        finally:
            consumer.close()

    def stop(self) -> None:
        """Makes `run` return soon."""
        self._is_stopping.set()


def test_a_loop_that_hangs_is_thrown_out(kohort: Kohort) -> None:
    """After 5 minutes the other member has all partitions, and bills what hung."""
    kohort.topic("orders", partitions=2, records=[("k", "the order")])
    group = kohort.group("billing")
    hangs, goes_on = threading.Event(), threading.Event()
    bills: list[tuple[str, bytes]] = []

    def hang(order: bytes) -> None:
        hangs.set()
        assert goes_on.wait(10)
        bills.append(("billing-1", order))

    slow = Billing(kohort.bootstrap_servers, "billing-1", hang)
    other = Billing(
        kohort.bootstrap_servers,
        "billing-2",
        lambda order: bills.append(("billing-2", order)),
    )
    with in_thread(slow.run, stop=slow.stop):
        assert hangs.wait(10)
        with in_thread(other.run, stop=other.stop):
            group.until(state="PreparingRebalance", members=2)
            kohort.clock.advance(minutes=5)
            group.stable(members=1)
            assert group.assignment() == {"billing-2": {"orders": [0, 1]}}
            group.caught_up()
            goes_on.set()
            group.stable(members=2)
    # Billed twice: make billing idempotent, or max.poll.interval.ms longer.
    assert bills == [("billing-2", b"the order"), ("billing-1", b"the order")]
    assert slow.refused == [b"the order"]
