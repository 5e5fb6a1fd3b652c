"""A producer of transactions on one connection, request by request."""

from __future__ import annotations

from typing import Any

from tests.wire.client import WireClient

from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.apis.k65_describe_transactions import DescribeTransactionsRequest
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

TRANSACTION = 1
"""The type of FindCoordinator's keys."""


class Producer:
    """A producer with a transactional id.

    Args:
        client: a connection to its coordinator, and to the leaders of its partitions.
        transactional_id: its id.

    Attributes:
        client: see above; may be replaced when the coordinator moves.
        producer_id, epoch: as the latest `init` or `end` has returned them.
    """

    def __init__(self, client: WireClient, transactional_id: str = "tx") -> None:
        self.client = client
        self.id = transactional_id
        self.producer_id = self.epoch = -1
        self._sequence = 0

    async def init(self, timeout_ms: int = 60_000) -> int:
        """InitProducerId; returns the error code."""
        request = InitProducerIdRequest(self.id, timeout_ms)
        answer = await self.client.call("InitProducerId", 5, request)
        if not answer.error_code:
            self.producer_id = answer.producer_id
            self.epoch = answer.producer_epoch
            self._sequence = 0
        return int(answer.error_code)

    async def add(self, topic: str = "t", *partitions: int) -> list[int]:
        """AddPartitionsToTxn; returns the error code of each partition."""
        topics = [AddPartitionsToTxnTopic(topic, partitions or (0,))]
        request = AddPartitionsToTxnRequest(
            (), self.id, self.producer_id, self.epoch, topics
        )
        answer = await self.client.call("AddPartitionsToTxn", 3, request)
        (result,) = answer.results_by_topic_v3_and_below
        return [row.partition_error_code for row in result.results_by_partition]

    async def add_group(self, group: str = "g") -> int:
        """AddOffsetsToTxn; returns the error code."""
        request = AddOffsetsToTxnRequest(self.id, self.producer_id, self.epoch, group)
        answer = await self.client.call("AddOffsetsToTxn", 4, request)
        return int(answer.error_code)

    async def produce(self, value: bytes, topic: str = "t", partition: int = 0) -> int:
        """Produce v11 of one record; returns the error code."""
        batch = build_batch(
            [Record(0, 1_000, None, value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            attributes=TRANSACTIONAL,
        )
        rows = [
            TopicProduceData(
                topic, partition_data=[PartitionProduceData(partition, batch)]
            )
        ]
        answer = await self.client.call(
            "Produce", 11, ProduceRequest(self.id, -1, 1000, rows)
        )
        error = answer.responses[0].partition_responses[0].error_code
        self._sequence += not error
        return int(error)

    async def end(self, *, commit: bool = True, version: int = 4) -> int:
        """EndTxn; returns the error code."""
        request = EndTxnRequest(self.id, self.producer_id, self.epoch, commit)
        answer = await self.client.call("EndTxn", version, request)
        if not answer.error_code and version >= 5:
            self.producer_id = answer.producer_id
            self.epoch = answer.producer_epoch
            self._sequence = 0
        return int(answer.error_code)

    async def describe(self) -> Any:
        """DescribeTransactions of its id."""
        request = DescribeTransactionsRequest([self.id])
        answer = await self.client.call("DescribeTransactions", 0, request)
        return answer.transaction_states[0]

    async def state(self) -> str:
        """The state of its id; the error code, if there is one."""
        found = await self.describe()
        return str(found.transaction_state or found.error_code)


async def find(client: WireClient, *ids: str) -> list[Any]:
    """FindCoordinator for transactional ids."""
    request = FindCoordinatorRequest("", TRANSACTION, ids)
    return list((await client.call("FindCoordinator", 4, request)).coordinators)
