"""Clusters that are closed: nothing waits for them, and nothing is left."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.fake_broker import alone

from kohort.client.cluster import Cluster
from kohort.client.config import CommonConfig
from kohort.client.errors import ClosedError
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest

HEARTBEAT = HeartbeatRequest("g", 1, "m")


def config(servers: str) -> CommonConfig:
    """A configuration."""
    return CommonConfig.of({"bootstrap_servers": servers})


async def test_closing_ends_everything() -> None:
    """What waits for answers, connections or metadata is told that it is over."""
    async with alone() as fake:
        cluster = Cluster(config(fake.address))
        await cluster.start()
        call = asyncio.create_task(cluster.call(1, "Heartbeat", HEARTBEAT))
        await fake.has_been_asked(2)
        fake.gate.clear()
        waiting = [
            call,
            asyncio.create_task(cluster.connection(1, "another")),
            asyncio.create_task(cluster.refresh()),
        ]
        await asyncio.sleep(0)  # they wait
        await cluster.close()
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, ClosedError), each
        for attempt in (cluster.refresh(), cluster.call(1, "Heartbeat", HEARTBEAT)):
            with pytest.raises(ClosedError):
                await attempt


async def test_closing_does_not_wait_for_a_broker_that_does_not_read() -> None:
    """close() returns within its time, whatever is left to be sent."""
    async with alone() as fake:
        cluster = Cluster(config(fake.address))
        await cluster.start()
        fake.gate.clear()
        connection = await cluster.connection(1)
        big = HeartbeatRequest("x" * 30_000)
        answers = [connection.post("Heartbeat", 4, big) for _ in range(500)]
        await cluster.close(timeout_ms=1)
        for answer in answers:
            assert isinstance(answer.exception(), ClosedError)
        await connection.wait_closed()


async def test_closing_can_be_cancelled_anywhere() -> None:
    """Whatever comes of it, no connection stays open."""
    async with alone() as fake:
        clusters: list[Cluster] = []

        async def close() -> None:
            clusters.append(Cluster(config(fake.address)))
            await clusters[-1].start()
            await clusters[-1].close()

        async def afterwards() -> None:
            await clusters[-1].close()
            await fake.is_left_alone()

        assert await cancel_at_every_await(close, afterwards) >= 2
