"""A transactional producer inside a broker, without a client."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.broker.notice import Client
from kohort.broker.server import Broker
from kohort.broker.transactions.events import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    InitProducerResult,
)
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

CLIENT = Client("app", "/127.0.0.1")


class Answer:
    """The token of an event whose answer is awaited."""

    def __init__(self) -> None:
        self.result = asyncio.get_running_loop().create_future()

    def answer(self, result: Any) -> None:
        """Takes the result."""
        self.result.set_result(result)


class Transacting:
    """A producer with a transactional id.

    Args:
        broker: a broker with a topic "orders".
        transactional_id: its id.
    """

    def __init__(self, broker: Broker, transactional_id: str = "tx") -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.producer = -1, -1

    async def _ask(self, event: Any) -> Any:
        """Hands an event to the coordinator; returns its result."""
        self.broker.cluster.transactions.submit(None, event)
        result = await event.token.result
        # As over the wire, the answer is read in a later turn of the event loop.
        await asyncio.sleep(0)
        return result

    async def initialize(self) -> None:
        """Gets a producer id and an epoch."""
        result = await self._ask(
            InitProducer(Answer(), self.transactional_id, 60_000, client=CLIENT)
        )
        assert isinstance(result, InitProducerResult)
        assert not result.error_code
        self.producer = result.producer_id, result.producer_epoch

    async def add(self, *partitions: int, group: str | None = None) -> None:
        """Adds partitions of "orders", or those of a group's offsets."""
        of_group = [("__consumer_offsets", 0)]
        event = AddPartitions(
            Answer(),
            self.transactional_id,
            *self.producer,
            [("orders", each) for each in partitions] if group is None else of_group,
            transaction_version=0,
            group_id=group,
            client=CLIENT,
        )
        assert not (await self._ask(event)).error_code

    def write(self, partition: int, count: int) -> None:
        """Appends a batch of records to a partition of "orders"."""
        now_ms = self.broker.cluster.now_ms()
        producer_id, epoch = self.producer
        batch = build_batch(
            [Record(0, now_ms, b"k", b"v")] * count,
            producer_id=producer_id,
            producer_epoch=epoch,
            attributes=TRANSACTIONAL,
        )
        log = self.broker.cluster.topics.by_name["orders"].partitions[partition]
        assert not log.append_own(batch, now_ms=now_ms)

    async def end(self, *, is_commit: bool = True) -> None:
        """Commits or aborts, as a client without KIP-890."""
        event = EndTransaction(
            Answer(),
            self.transactional_id,
            *self.producer,
            is_commit,
            bumps_epoch=False,
            client=CLIENT,
        )
        assert not (await self._ask(event)).error_code
