"""Calls about transactions and producers, during a transaction and afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.client.producer_stage import producer
from tests.client.stage import PATIENCE, Stage

from kohort.client.admin import Admin
from kohort.client.administering.values import ProducerEpoch
from kohort.client.errors import (
    BrokerError,
    KohortError,
    ProducerFencedError,
    UnknownTopicError,
)
from kohort.client.offsets import LATEST, TopicPartition
from kohort.client.producer import Producer
from kohort.protocol.errors import ErrorCode


async def stable_end(admin: Admin, place: TopicPartition) -> int:
    """The last stable offset of a partition."""
    found = await admin.list_offsets({place: LATEST}, isolation_level="read_committed")
    return found[place].offset


@contextlib.asynccontextmanager
async def opened(
    stage: Stage, others: int = 0
) -> AsyncIterator[tuple[Admin, Producer[Any, Any], str]]:
    """A transaction with one record, perhaps behind others, and its id."""
    await stage.fill([others, 0])
    name = stage.name("x")
    async with (
        stage.admin() as admin,
        producer(stage.bootstrap_servers, transactional_id=name) as to,
    ):
        await to.begin_transaction()
        await to.send_and_wait(stage.topic, b"x", partition=0)
        yield admin, to, name


async def test_an_open_transaction_is_described(stage: Stage) -> None:
    """Its state, partitions and first offsets; then it has ended."""
    async with opened(stage, 3) as (admin, to, name):
        described = (await admin.describe_transactions([name]))[name]
        assert (described.transactional_id, described.state) == (name, "Ongoing")
        assert described.partitions == {stage.p0}
        assert described.timeout_ms == 60_000
        assert described.started_at_ms is not None
        listed = (await admin.list_transactions(states=["Ongoing"])).transactions[name]
        assert listed.producer_id == described.producer_id
        assert listed.coordinator_id == described.coordinator_id
        others: dict[str, Any]
        for others in ({"states": ["Empty"]}, {"open_for_ms": 3_600_000}):
            listing = await admin.list_transactions(**others)
            assert name not in listing.transactions
        found = (await admin.describe_producers([stage.p0, stage.p1])).check()
        assert found[stage.p1] == []
        (ours,) = [p for p in found[stage.p0] if p.producer_id == described.producer_id]
        assert (ours.first_offset, ours.last_sequence) == (3, 0)
        await to.commit_transaction()
        async with asyncio.timeout(PATIENCE):
            while described.state != "CompleteCommit":
                described = (await admin.describe_transactions([name]))[name]
        assert described.partitions == frozenset()


async def test_what_does_not_exist(stage: Stage) -> None:
    """Each item has its error."""
    async with stage.admin(retry_backoff_ms=5, retry_backoff_max_ms=10) as admin:
        name = stage.name("nobody")
        errors = (await admin.describe_transactions([name])).errors
        assert errors[name].code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert f"transactional id {name!r}" in str(errors[name])
        place = TopicPartition(name, 0)
        found = (await admin.describe_producers([place])).errors
        assert isinstance(found[place], UnknownTopicError)
        with pytest.raises(UnknownTopicError):
            await admin.abort_transaction(place, 1, 0)


async def test_a_producer_is_fenced(stage: Stage) -> None:
    """Its transaction is aborted, and its next call fails."""
    async with opened(stage) as (admin, to, name):
        fenced = (await admin.fence_producers([name]))[name]
        assert isinstance(fenced, ProducerEpoch)
        described = (await admin.describe_transactions([name]))[name]
        assert described.producer_id == fenced.producer_id
        with pytest.raises(ProducerFencedError):
            await to.commit_transaction()
        assert await stable_end(admin, stage.p0) == 2


async def test_a_transaction_is_aborted_in_one_partition(stage: Stage) -> None:
    """With the epochs that describe_producers returns; others are refused."""
    async with opened(stage) as (admin, _, _):
        (open_one,) = (await admin.describe_producers([stage.p0]))[stage.p0]
        ids = open_one.producer_id, open_one.producer_epoch
        assert await stable_end(admin, stage.p0) == 0
        with pytest.raises(KohortError) as caught:
            await admin.abort_transaction(stage.p0, ids[0], ids[1] - 1)
        assert isinstance(caught.value, BrokerError)
        await admin.abort_transaction(stage.p0, *ids, open_one.coordinator_epoch)
        assert await stable_end(admin, stage.p0) == 2
        (closed,) = (await admin.describe_producers([stage.p0]))[stage.p0]
        assert closed.first_offset is None
