"""A producer retries, and no order is written twice if it is idempotent (KIP-98).

`send` is the program; the rest is its test. The broker answers Produce with
NOT_LEADER_OR_FOLLOWER, as after a move of the partition, or closes the connection
before it answers.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from kohort.testing import Kohort

ORDERS = [f"order-{n}".encode() for n in range(10)]


def send(servers: str, *, is_idempotent: bool) -> None:
    """Writes all orders; returns when the broker has them."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": is_idempotent,
            "linger.ms": 5,
        }
    )
    for order in ORDERS:
        producer.produce("orders", order)
    assert producer.flush(10) == 0, "some orders are not written"


def written(kohort: Kohort) -> list[bytes | None]:
    """The orders in the topic."""
    return [record.value for record in kohort.records("orders")]


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_leader_that_has_moved(kohort: Kohort, *, is_idempotent: bool) -> None:
    """A refused request is sent again: each order is written once, in order."""
    kohort.topic("orders", partitions=1)
    fault = kohort.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    send(kohort.bootstrap_servers, is_idempotent=is_idempotent)
    assert fault.strikes == 2
    assert written(kohort) == ORDERS


def test_a_lost_answer(kohort: Kohort) -> None:
    """The request took effect, and is retried: the broker detects the duplicate."""
    kohort.topic("orders", partitions=1)
    fault = kohort.disconnect("Produce", when="after", once=True)
    send(kohort.bootstrap_servers, is_idempotent=True)
    assert fault.strikes == 1
    assert written(kohort) == ORDERS


def test_a_lost_answer_without_idempotence(kohort: Kohort) -> None:
    """The producer sends the orders again, and they are written twice."""
    kohort.topic("orders", partitions=1)
    kohort.disconnect("Produce", when="after", once=True)
    send(kohort.bootstrap_servers, is_idempotent=False)
    assert {*written(kohort)} == {*ORDERS}
    assert len(written(kohort)) > len(ORDERS)
