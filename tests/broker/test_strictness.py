"""``kohort.strictness`` on the wire: a join that another one replaces."""

from __future__ import annotations

from tests.wire.client import WireClient, connected
from tests.wire.requests import join_group

from kohort.broker.server import Broker
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import replace

LONG = {"group.initial.rebalance.delay.ms": 60_000}
"""Joins wait for longer than a test lasts."""


async def replace_a_join(broker: Broker, first: WireClient, second: WireClient) -> None:
    """A member joins on one connection, and again on another while that join waits."""
    member_id = (await first.call("JoinGroup", 5, join_group())).member_id
    join = replace(join_group(), member_id=member_id)
    with broker.events.subscribe() as events:
        for client in (first, second):
            await client.send("JoinGroup", 5, join)
            while (await anext(events))["kind"] != "member_joined":
                pass


async def test_the_helpful_answer_to_the_first_join() -> None:
    """It is answered REBALANCE_IN_PROGRESS."""
    config = {**LONG, "kohort.strictness": "helpful"}
    async with (
        Broker(config) as broker,
        connected(broker) as first,
        connected(broker) as second,
    ):
        await replace_a_join(broker, first, second)
        answer = await first.response("JoinGroup", 5)
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
