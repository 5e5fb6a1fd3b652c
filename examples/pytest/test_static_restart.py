"""A restart of a static member causes no rebalance (KIP-345), of a dynamic one it does.

`main` is the service, a program; the rest is its test, which runs it in processes.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from confluent_kafka import Consumer

if TYPE_CHECKING:  # the program starts faster without
    from kohort.testing import Kohort, Process


def main(name: str) -> None:
    """Bills orders until SIGTERM; a static member if INSTANCE_ID is set."""
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": "billing",
            "client.id": name,
            "group.instance.id": os.environ.get("INSTANCE_ID", ""),
            "auto.offset.reset": "earliest",
            # Members learn of a rebalance by a heartbeat; every 3 s by default.
            "heartbeat.interval.ms": 50,
        }
    )
    is_stopping = False

    def stop(*_: object) -> None:
        nonlocal is_stopping
        is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe(["orders"], on_assign=lambda *_: print("has joined"))
    while not is_stopping:
        order = consumer.poll(0.05)
        if order is not None and not order.error():
            print("bills", order.value())
    consumer.close()


def restart_one_of_two(kohort: Kohort, *, is_static: bool) -> int:
    """Restarts an instance; returns the number of rebalances that this caused."""
    orders = kohort.topic("orders", partitions=2)
    group = kohort.group("billing")

    def start(name: str) -> Process:
        env = {"INSTANCE_ID": name} if is_static else {}
        return kohort.process([sys.executable, __file__, name], env=env)

    start("billing-1")
    second = start("billing-2")
    group.stable(members=2).until_assigned()
    before = len(group.history().rebalances)

    second.terminate()
    assert second.wait().code == 0
    second = start("billing-2")
    second.wait_for_line("has joined")
    orders.produce(["one", "two"])
    second.wait_for_line("bills")
    return len(group.history().rebalances) - before


def test_a_static_member_restarts(kohort: Kohort) -> None:
    """It gets its partition back, without a rebalance of the other instance."""
    assert restart_one_of_two(kohort, is_static=True) == 0


def test_a_dynamic_member_restarts(kohort: Kohort) -> None:
    """It leaves and joins as a new member: two rebalances for the other instance."""
    assert restart_one_of_two(kohort, is_static=False) > 0


if __name__ == "__main__":
    main(sys.argv[1])
