"""Verbs on a transactional id from a test in another thread."""

from __future__ import annotations

import pytest

from kohort.client import Producer
from kohort.client.errors import ProducerFencedError
from kohort.testing import Kohort


@pytest.mark.kohort(nodes=2)
async def test_a_commit_is_held_while_the_coordinator_moves(kohort: Kohort) -> None:
    """The record is committed once the transaction is released."""
    kohort.topic("orders", partitions=1)
    transaction = kohort.transaction("tx")
    transaction.hold()
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, transactional_id="tx"
    ) as producer:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"one")
            assert (await transaction.until(state="Ongoing")).state == "Ongoing"
            assert transaction.partitions == [("orders", 0)]
        assert (transaction.state, transaction.held) == ("PrepareCommit",) * 2
        before = transaction.coordinator
        assert transaction.move() != before
        await transaction.until(state="PrepareCommit")
        transaction.release()
        await transaction.until(state="CompleteCommit")
        async with producer.transaction():
            await producer.send_and_wait("orders", b"two")
    assert [each.value for each in kohort.records("orders")] == [b"one", b"two"]


async def test_a_fenced_producer(kohort: Kohort) -> None:
    """Its commit fails; the epoch is the next one."""
    kohort.topic("orders", partitions=1)
    transaction = kohort.transaction("tx")
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, transactional_id="tx"
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"one")
        epoch = transaction.producer_epoch
        transaction.fence()
        assert transaction.describe()["producer_epoch"] > epoch
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()
