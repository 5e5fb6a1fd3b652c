"""A transactional producer that keeps nothing to itself: each step is in the history.

It speaks both generations of the protocol. In the first, partitions and groups are
added to a transaction before they are used (KIP-98). In the second, that is part of
Produce and TxnOffsetCommit, and each end of a transaction bumps the epoch (KIP-890).
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.exactly_once.history import (
    Acked,
    Asked,
    History,
    Outcome,
    Place,
    Sent,
    Staged,
    Value,
)
from tests.exactly_once.member import Membership
from tests.long_runs.wire import (
    GROUP,
    TRANSACTION,
    GaveUpError,
    RefusedError,
    Wire,
)

from kohort.protocol import records
from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record

PRODUCE_TIMEOUT_MS = 10_000


class Generation(enum.Enum):
    """Versions of the requests of each generation."""

    FIRST = 1
    SECOND = 2

    @property
    def versions(self) -> Mapping[str, int]:
        """By API."""
        if self is Generation.FIRST:
            return {"Produce": 11, "TxnOffsetCommit": 4, "EndTxn": 4}
        return {"Produce": 12, "TxnOffsetCommit": 5, "EndTxn": 5}


class Producer:
    """One instance of a transactional id.

    Args:
        wire: its connections.
        history: of the run.
        transactional_id: may be that of other producers.
        timeout_ms: of its transactions.
        generation: of the protocol.

    Attributes:
        transaction: number of the current one, or of the last.
    """

    def __init__(
        self,
        wire: Wire,
        history: History,
        transactional_id: str,
        timeout_ms: int,
        generation: Generation,
    ) -> None:
        self.transaction = 0
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self._wire = wire
        self._history = history
        self._versions = generation.versions
        self._adds = generation is Generation.FIRST
        self._instance = 0
        self._id = self._epoch = -1
        self._sequences: Counter[Place] = Counter()
        self._added: set[object] = set()
        self._began = 0.0
        self._records = 0
        self._is_open = False

    @property
    def may_have_timed_out(self) -> bool:
        """True if the current transaction is so old that its end is no surprise."""
        return (time.monotonic() - self._began) * 1000 > self.timeout_ms * 0.8

    async def _ask(self, api_name: str, version: int, message: object) -> Any:
        return await self._wire.coordinated(
            TRANSACTION, self.transactional_id, api_name, version, message
        )

    async def initialize(self) -> None:
        """Gets id and epoch: fences earlier instances, and aborts their transaction."""
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms)

        async def ask() -> None:
            answer = await self._ask("InitProducerId", 4, request)
            self._wire.check("InitProducerId", answer.error_code)
            self._id, self._epoch = answer.producer_id, answer.producer_epoch

        await self._wire.until(f"{self.transactional_id} gets its id", ask)
        self._sequences.clear()
        self._instance = self._history.initialize(self.transactional_id)

    def begin(self) -> None:
        """Begins a transaction, of which the broker knows nothing yet."""
        self._added.clear()
        self._records = 0
        self._began = time.monotonic()
        self._is_open = True
        self.transaction = self._history.begin(self.transactional_id, self._instance)

    async def send(
        self, *batches: tuple[Place, Sequence[tuple[int, int] | None]]
    ) -> None:
        """Sends a batch to each of some partitions, at once.

        Args:
            batches: a place, and the source of each record.

        Raises:
            RefusedError: the broker does not take one.
        """
        sending = []
        for place, sources in batches:
            values = []
            for source in sources:
                values.append(Value(self.transaction, self._records, source).encode())
                self._records += 1
            self._history.add(Sent(self.transaction, place, tuple(values)))
            sending.append(self._send(place, tuple(values)))
        done = await asyncio.gather(*sending, return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def _send(self, place: Place, values: tuple[bytes, ...]) -> None:
        if self._adds and place not in self._added:
            await self._wire.until(f"{place} is added", lambda: self._add(place))
            self._added.add(place)
        now_ms = int(time.time() * 1000)
        batch = records.build_batch(
            [Record(timestamp_ms=now_ms, value=value) for value in values],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[place],
            attributes=records.TRANSACTIONAL,
        )
        offset = await self._wire.until(
            f"a batch of transaction {self.transaction} is appended",
            lambda: self._produce(place, batch),
        )
        self._sequences[place] += len(values)
        self._history.add(Acked(self.transaction, place, offset, values))

    async def _add(self, place: Place) -> None:
        topic, partition = place
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [partition])],
        )
        answer = await self._ask("AddPartitionsToTxn", 3, request)
        for about in answer.results_by_topic_v3_and_below:
            for each in about.results_by_partition:
                self._wire.check("AddPartitionsToTxn", each.partition_error_code)

    async def _produce(self, place: Place, batch: bytes) -> int:
        topic, partition = place
        data = TopicProduceData(
            topic, partition_data=[PartitionProduceData(partition, batch)]
        )
        request = ProduceRequest(self.transactional_id, -1, PRODUCE_TIMEOUT_MS, [data])
        leader = await self._wire.leader(topic, partition)
        answer = await self._wire.call(
            leader, "Produce", self._versions["Produce"], request
        )
        about = answer.responses[0].partition_responses[0]
        if about.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return -1
        self._wire.check("Produce", about.error_code)
        offset: int = about.base_offset
        return offset

    async def send_offsets(
        self, member: Membership, topic: str, offsets: Mapping[int, int]
    ) -> None:
        """Commits offsets of a group as part of the transaction.

        Raises:
            RefusedError: the producer or the member is fenced.
        """
        self._history.add(Staged(self.transaction, tuple(sorted(offsets.items()))))
        if self._adds and member.group not in self._added:
            await self._wire.until(
                "the group is added", lambda: self._add_group(member.group)
            )
            self._added.add(member.group)
        rows = [TxnOffsetCommitRequestPartition(*row) for row in offsets.items()]
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            member.group,
            self._id,
            self._epoch,
            member.generation,
            member.member_id,
            topics=[TxnOffsetCommitRequestTopic(topic, rows)],
        )

        async def ask() -> None:
            answer = await self._wire.coordinated(
                GROUP,
                member.group,
                "TxnOffsetCommit",
                self._versions["TxnOffsetCommit"],
                request,
            )
            for each in answer.topics[0].partitions:
                self._wire.check("TxnOffsetCommit", each.error_code)

        await self._wire.until("offsets are staged", ask)

    async def _add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            self.transactional_id, self._id, self._epoch, group
        )
        answer = await self._ask("AddOffsetsToTxn", 3, request)
        self._wire.check("AddOffsetsToTxn", answer.error_code)

    async def commit(self) -> Outcome:
        """Commits.

        Raises:
            RefusedError: the broker refuses; the transaction's end is in the history.
        """
        self._history.add(Asked(self.transaction))
        return await self._end(is_commit=True)

    async def abort(self) -> Outcome:
        """Aborts.

        Raises:
            RefusedError: the broker refuses; the transaction's end is in the history.
        """
        return await self._end(is_commit=False)

    def vanish(self) -> None:
        """Ends an open transaction in the history alone: as aborted."""
        self._ended(Outcome.ABORTED)

    def _ended(self, outcome: Outcome) -> None:
        if self._is_open:
            self._is_open = False
            self._history.end(self.transaction, outcome)

    async def _end(self, *, is_commit: bool) -> Outcome:
        request = EndTxnRequest(self.transactional_id, self._id, self._epoch, is_commit)
        version = self._versions["EndTxn"]
        attempts = 0

        async def ask() -> None:
            nonlocal attempts
            attempts += 1
            answer = await self._ask("EndTxn", version, request)
            self._wire.check("EndTxn", answer.error_code)
            if version >= 5:
                self._id, self._epoch = answer.producer_id, answer.producer_epoch
                self._sequences.clear()

        outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        try:
            await self._wire.until(f"transaction {self.transaction} ends", ask)
        except RefusedError:
            # An earlier attempt may have succeeded, without a response.
            is_unknown = is_commit and attempts > 1
            outcome = Outcome.UNKNOWN if is_unknown else Outcome.ABORTED
            raise
        except (GaveUpError, asyncio.CancelledError):
            outcome = Outcome.UNKNOWN if is_commit else Outcome.ABORTED
            raise
        finally:
            self._ended(outcome)
        return outcome
