"""An aiokafka service commits before its partitions are revoked.

`Billing` is the service; the rest is its test. A second instance starts while the first
one has billed, but not yet committed, some orders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from kohort.testing import Kohort, running

Bill = Callable[[bytes], Awaitable[object]]


class Billing(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Bills orders, and commits every 100 of them."""

    def __init__(self, servers: str, bill: Bill, **settings: Any) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )
        self._bill = bill
        self._billed: dict[TopicPartition, int] = {}
        self._count = 0

    async def run(self) -> None:
        """Bills orders until it is cancelled."""
        self._consumer.subscribe(["orders"], listener=self)
        async with self._consumer:
            try:
                async for order in self._consumer:
                    await self._bill(order.value)
                    place = TopicPartition(order.topic, order.partition)
                    self._billed[place] = order.offset + 1
                    self._count += 1
                    if self._count % 100 == 0:
                        await self._commit([*self._billed])
            finally:
                await self._commit([*self._billed])

    async def _commit(self, places: Iterable[TopicPartition]) -> None:
        billed = {p: self._billed.pop(p) for p in places if p in self._billed}
        if billed:
            await self._consumer.commit(billed)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commits: the next owners start there."""
        await self._commit(revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Nothing to do: aiokafka starts at the committed offset."""


class Careless(Billing):
    """The same, without the commit."""

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Drops the uncommitted bills; the next owners bill the records again."""
        for place in revoked:
            self._billed.pop(place, None)


async def start_a_second_instance(kohort: Kohort, service: type[Billing]) -> None:
    """Starts a second instance after 60 orders; no order must be billed twice."""
    orders = kohort.topic("orders", partitions=4, records=60)
    group = kohort.group("billing")
    bills: asyncio.Queue[bytes] = asyncio.Queue()

    def instance(name: str) -> Any:
        # Members learn of a rebalance by a heartbeat; every 3 s by default.
        settings = {"client_id": name, "heartbeat_interval_ms": 50}
        return service(kohort.bootstrap_servers, bills.put, **settings).run()

    async with asyncio.timeout(10), running(instance("billing-1")):
        billed = [await bills.get() for _ in range(60)]
        async with running(instance("billing-2")):
            await group.stable(members=2)
            orders.produce([f"new-{n}" for n in range(20)])
            while not {f"new-{n}".encode() for n in range(20)} <= {*billed}:
                billed.append(await bills.get())
    assert group.moves
    assert group.redelivered == 0
    assert not [move for move in group.moves if not move.committed_before_release]
    assert len(billed) == 80


async def test_nothing_is_billed_twice(kohort: Kohort) -> None:
    """The first instance commits its billed records before its partitions move."""
    await start_a_second_instance(kohort, Billing)


async def test_a_service_that_does_not_commit_is_caught(kohort: Kohort) -> None:
    """The same test fails for a service without the commit."""
    with pytest.raises(AssertionError, match="redelivered"):
        await start_a_second_instance(kohort, Careless)
