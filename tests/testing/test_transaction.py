"""Verbs on a transactional id from a test in another thread."""

from __future__ import annotations

import pytest

from kohort.client import Producer
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


async def test_records_that_read_committed_consumers_get(kohort: Kohort) -> None:
    """Neither those of an aborted transaction, nor any from an open one on."""
    topic = kohort.topic("orders", partitions=1, records=["before"])
    servers = kohort.bootstrap_servers
    async with (
        Producer(bootstrap_servers=servers, transactional_id="a") as first,
        Producer(bootstrap_servers=servers, transactional_id="b") as second,
    ):
        await first.begin_transaction()
        await first.send_and_wait("orders", b"aborted")
        await first.abort_transaction()
        async with first.transaction():
            await first.send_and_wait("orders", b"committed")
        await second.begin_transaction()
        await second.send_and_wait("orders", b"open")
        topic.produce(["behind"])
        found = [each.value for each in kohort.records("orders", committed=True)]
        assert found == [b"before", b"committed"]
        found = [each.value for each in topic.records()]
        assert found == [b"before", b"aborted", b"committed", b"open", b"behind"]
        await second.abort_transaction()
    found = [each.value for each in topic.records(committed=True)]
    assert found == [b"before", b"committed", b"behind"]


async def test_records_are_committed_once_the_commit_is_answered(
    kohort: Kohort,
) -> None:
    """Though the broker answers before it writes the markers, in another thread."""
    kohort.topic("orders", partitions=1)
    servers = kohort.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id="tx") as producer:
        for count in range(1, 51):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"one")
            assert len(kohort.records("orders", committed=True)) == count
            assert kohort.transaction("tx").state == "CompleteCommit"


@pytest.mark.kohort(config={"transaction.markers.delay.ms": 60_000}, clock="manual")
async def test_the_delay_of_the_markers_ends_early(kohort: Kohort) -> None:
    """By a release, or with the clock."""
    kohort.topic("orders", partitions=1)
    transaction, servers = kohort.transaction("tx"), kohort.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id="tx") as producer:
        for count in (0, 1):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"one")
            assert transaction.state == "PrepareCommit"
            assert len(kohort.records("orders", committed=True)) == count
            if count:
                await kohort.clock.advance(60)
            else:
                transaction.release()
            assert transaction.state == "CompleteCommit"
            assert len(kohort.records("orders", committed=True)) == count + 1
