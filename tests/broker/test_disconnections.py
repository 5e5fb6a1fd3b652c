"""Connections of members that close: `member_disconnected`, and when they stop."""

from __future__ import annotations

import pytest
from tests.broker.test_cluster import heartbeat, stable
from tests.broker.test_consumer_groups import AT_ONCE, beat
from tests.events.checks import check
from tests.events.test_metrics import leave
from tests.wire.client import connected

from kohort.broker.events.bus import Reader
from kohort.broker.events.types import Event
from kohort.broker.server import Broker

KIND = "member_disconnected"


async def until(reader: Reader, kind: str) -> Event:
    """The next event of a kind."""
    async for event in reader:
        if event["kind"] == kind:
            return event
    raise AssertionError(f"there is no {kind}")


def disconnected(reader: Reader) -> list[str | None]:
    """The causes of the remaining events."""
    return [event["cause"] for event in reader.take() if event["kind"] == KIND]


async def test_a_member_whose_connection_closes_is_announced() -> None:
    """Once then, and once more when the broker stops before the member is back."""
    broker = Broker({"group.initial.rebalance.delay.ms": 0})
    with broker.events.subscribe() as reader:
        async with broker:
            async with connected(broker) as client:
                member_id = await stable(client)
            event = await until(reader, KIND)
            check(event)
            assert (event["member_id"], event["cause"]) == (member_id, "closed")
        assert disconnected(reader) == ["away"]


async def test_a_member_of_a_consumer_group_is_announced() -> None:
    """Likewise, unless it has left (KIP-848)."""
    broker = Broker(AT_ONCE)
    with broker.events.subscribe() as reader:
        async with broker:
            async with connected(broker) as client:
                left = await beat(client, "left")
                await beat(client, "left", left.member_epoch)
                await beat(client, "left", -1)
                joined = await beat(client, "crashed")
                await beat(client, "crashed", joined.member_epoch)
            event = await until(reader, KIND)
            check(event)
            assert (event["member_id"], event["cause"]) == ("crashed", "closed")
        assert disconnected(reader) == ["away"]


@pytest.mark.parametrize("does", [heartbeat, leave])
async def test_a_member_on_another_connection_is_not_away(does: object) -> None:
    """Its heartbeats go on, or it has left."""
    broker = Broker({"group.initial.rebalance.delay.ms": 0})
    with broker.events.subscribe() as reader:
        async with broker, connected(broker) as other:
            async with connected(broker) as client:
                member_id = await stable(client)
            await until(reader, KIND)
            assert callable(does)
            await does(other, member_id)
        assert disconnected(reader) == []


async def test_a_member_that_leaves_before_it_closes_is_not_announced() -> None:
    """Nor is one whose connection the broker closes to stop."""
    broker = Broker({"group.initial.rebalance.delay.ms": 0})
    with broker.events.subscribe() as reader:
        async with broker, connected(broker) as other:
            async with connected(broker) as client:
                await leave(client, await stable(client))
            await stable(other, "another")
        assert disconnected(reader) == []
