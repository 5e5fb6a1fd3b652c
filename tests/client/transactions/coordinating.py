"""A scripted broker that leads the partitions and coordinates the transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.client.fake_broker import Asked, coordinates
from tests.client.producer_stage import Leader, producer

from kohort.client.consuming.consumer_group import ConsumerGroupMetadata
from kohort.client.producer import Producer
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdResponse
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kohort.protocol.apis.k25_add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.apis.k26_end_txn import EndTxnResponse
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

GROUP = ConsumerGroupMetadata("g", 3, "m", None)
PRODUCER_ID = 9
LOST = "lost"
"""In place of an error code: the connection ends without a response."""
SILENT = "silent"
"""In place of an error code: no response."""

Codes = Mapping[str, Sequence[int | str]]


class Coordinator(Leader):
    """Answers with the scripted codes first, and then accepts everything.

    Args:
        codes: by API, error codes, `LOST` or `SILENT`.
        version: the level of ``transaction.version``.

    Attributes:
        partition_codes: the codes of single partitions in AddPartitionsToTxn.
    """

    def __init__(
        self, codes: Codes | None = None, version: int = 2, **options: Any
    ) -> None:
        self._left = {api: [*each] for api, each in (codes or {}).items()}
        self._epoch = -1
        self.partition_codes: dict[int, int] = {}
        answers = {
            "FindCoordinator": coordinates(self),
            "InitProducerId": self._scripted(self._initialize),
            "AddPartitionsToTxn": self._scripted(self._add_partitions),
            "AddOffsetsToTxn": self._scripted(self._add_offsets),
            "TxnOffsetCommit": self._scripted(self._commit),
            "EndTxn": self._scripted(self._end),
        }
        super().__init__(
            self._scripted(self.say),
            answers=answers,
            features={"transaction.version": version},
            **options,
        )

    def _scripted(
        self, answer: Callable[[Asked, int], None]
    ) -> Callable[[Asked], None]:
        def scripted(asked: Asked) -> None:
            left = self._left.get(asked.api.name)
            code = left.pop(0) if left else 0
            if code == LOST:
                asked.close()
            elif isinstance(code, int):
                answer(asked, code)

        return scripted

    def _initialize(self, asked: Asked, code: int) -> None:
        self._epoch += not code
        asked.reply(InitProducerIdResponse(0, code, PRODUCER_ID, self._epoch))

    def _add_partitions(self, asked: Asked, code: int) -> None:
        codes = self.partition_codes
        rows = [
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(number, codes.get(number, code))
                    for number in topic.partitions
                ],
            )
            for topic in asked.message.v3_and_below_topics
        ]
        asked.reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows))

    def _add_offsets(self, asked: Asked, code: int) -> None:
        asked.reply(AddOffsetsToTxnResponse(0, code))

    def _commit(self, asked: Asked, code: int) -> None:
        rows = [
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(p.partition_index, code)
                    for p in topic.partitions
                ],
            )
            for topic in asked.message.topics
        ]
        asked.reply(TxnOffsetCommitResponse(0, rows))

    def _end(self, asked: Asked, code: int) -> None:
        if asked.version < 5:
            asked.reply(EndTxnResponse(0, code))
            return
        self._epoch += not code
        asked.reply(EndTxnResponse(0, code, PRODUCER_ID, self._epoch))

    def script(self, api: str, *codes: int | str) -> None:
        """Sets the next answers of an API."""
        self._left[api] = [*codes]

    def apis(self) -> list[str]:
        """The requests so far, without those that find nodes."""
        names = [asked.api.name for asked in self.asked]
        return [name for name in names if name not in {"Metadata", "FindCoordinator"}]


def sender(broker: Coordinator, **settings: Any) -> Producer[Any, Any]:
    """A transactional producer."""
    return producer(broker, transactional_id="x", **settings)
