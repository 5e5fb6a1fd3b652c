"""A kafka-python consumer rejoins when it learns that its group rebalances.

`Billing` is the service; the rest is its test. The broker answers a heartbeat, or a
commit, with REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, RebalanceInProgressError

from kohort.testing import Kohort, in_thread


class Billing:
    """Bills orders, and commits after each poll."""

    def __init__(self, servers: str, bill: Callable[[bytes], object]) -> None:
        self._consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            # Members learn of a rebalance by a heartbeat; every 3 s by default.
            heartbeat_interval_ms=50,
        )
        self._bill = bill
        self._is_stopping = threading.Event()

    def run(self) -> None:
        """Bills orders until `stop`."""
        with self._consumer:
            # Without the topic's metadata a first member joins twice, and may miss the
            # second assignment: a defect of kafka-python.
            self._consumer.partitions_for_topic("orders")
            while not self._is_stopping.is_set():
                # kafka-python drops a join response that comes between two polls, so
                # with short polls it would join again and again.
                for orders in self._consumer.poll(timeout_ms=1_000).values():
                    for order in orders:
                        self._bill(order.value)
                    self.commit()

    def commit(self) -> None:
        """Commits the polled records, unless the group rebalances."""
        # After a refused commit the next poll rejoins, and returns those records again.
        with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
            self._consumer.commit()

    def stop(self) -> None:
        """Makes `run` return soon."""
        self._is_stopping.set()


class Careless(Billing):
    """The same, but it raises the error of a refused commit."""

    def commit(self) -> None:
        """Commits the polled records; raises the group's error."""
        self._consumer.commit()


def interrupt(kohort: Kohort, api: str, service: type[Billing]) -> None:
    """Answers one request as in a rebalance; the service must continue."""
    orders = kohort.topic("orders", partitions=2, records=["one", "two"])
    group = kohort.group("billing")
    bills: list[bytes] = []
    billing = service(kohort.bootstrap_servers, bills.append)
    with in_thread(billing.run, stop=billing.stop):
        group.caught_up()
        generation = group.generation
        fault = kohort.fail(api, "REBALANCE_IN_PROGRESS", once=True)
        orders.produce(["three", "four"])
        group.until(state="Stable", generation=generation + 1)
        group.caught_up()
    assert fault.strikes == 1
    assert {*bills} == {b"one", b"two", b"three", b"four"}


@pytest.mark.parametrize("api", ["Heartbeat", "OffsetCommit"])
def test_it_joins_again(kohort: Kohort, api: str) -> None:
    """It is in the next generation, and commits all orders."""
    interrupt(kohort, api, Billing)


def test_a_service_that_a_refused_commit_ends_is_caught(kohort: Kohort) -> None:
    """The same test fails for a service that lets the error through."""
    with pytest.raises(CommitFailedError):
        interrupt(kohort, "OffsetCommit", Careless)
