"""The account of delivery over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.control.asking import Asking, asking
from tests.control.members import TOPIC, Member, fetch, produce, rebalanced, stable
from tests.wire.client import WireClient, connections

from kohort.control.group import Group

PATH = "/v1/groups/g/delivery"
RECORDS = 10


@contextlib.asynccontextmanager
async def moved() -> AsyncIterator[tuple[Asking, WireClient]]:
    """A group whose partition 1 moved; the connection of its new owner.

    The first owner was sent ten records, and has committed four of them.
    """
    async with (
        asking(clock="manual", watch_fetches=True) as client,
        connections(client.broker, 2) as (one, two),
    ):
        client.broker.cluster.create_topic(TOPIC, 2)
        await produce(one, 1, RECORDS)
        first = await stable(one)
        await fetch(one, 1, 0)
        await first.commit((1, 4))
        await rebalanced(Group(client.broker, "g"), first, Member(two))
        yield client, two


async def test_it_waits_for_the_new_owner() -> None:
    """A peek does not; then the partition is open, and its records are due."""
    async with moved() as (client, two):
        status, found = await client.get(f"{PATH}?peek=true")
        assert (status, found["is_settled"]) == (200, False)
        assert [row["partition"] for row in found["open"]] == [1]
        status, found = await client.get(f"{PATH}?timeout=0")
        assert (status, f"{TOPIC}-1" in found["error"]) == (504, True)
        waiting = asyncio.create_task(client.get(PATH))
        await client.waits(1)
        await fetch(two, 1, 4)
        status, found = await waiting
        assert (status, found["is_settled"]) == (200, True)
        assert found["again_possible"] == 6
        (row,) = found["again"]
        assert (row["first"], row["end"], row["is_certain"]) == (4, RECORDS, False)
        assert "6 sent again, perhaps handled before" in found["words"]


async def test_a_group_without_an_account() -> None:
    """An unknown group is 404, and a broker that does not note fetches 409."""
    async with moved() as (client, _):
        status, found = await client.get("/v1/groups/h/delivery")
        assert (status, "'g'" in found["error"]) == (404, True)
    async with asking() as client, connections(client.broker, 1) as (one,):
        await stable(one)
        status, found = await client.get(PATH)
        assert (status, "watch_fetches" in found["error"]) == (409, True)


async def test_a_group_that_is_gone_keeps_its_account() -> None:
    """Its members left, and it has no offsets."""
    async with (
        asking(clock="manual", watch_fetches=True) as client,
        connections(client.broker, 1) as (one,),
    ):
        client.broker.cluster.create_topic(TOPIC, 2)
        await produce(one, 1, RECORDS)
        member = await stable(one)
        await fetch(one, 1, 0)
        await fetch(one, 1, RECORDS)
        await member.leave()
        await client.post("/v1/clock/advance", {"seconds": 2_000_000})
        assert (await client.get("/v1/groups/g"))[0] == 404
        status, found = await client.get(PATH)
        assert (status, found["uncommitted"]) == (200, RECORDS)
