"""A scripted leader with logs that can be truncated."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from tests.client.fake_broker import TOPIC_ID, Asked, FakeBroker
from tests.client.stage import PATIENCE, text

from kohort.client import Consumer, TopicPartition
from kohort.protocol.apis.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import CONTROL, TRANSACTIONAL, Record, build_batch

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "fetch_max_wait_ms": 200}
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class Log:
    """The batches of one partition.

    Attributes:
        epoch: of the current leader.
        batches: (first offset, offset after the last one, epoch, bytes) each.
        aborted: aborted transactions.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.aborted: list[AbortedTransaction] = []

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.batches[-1][1] if self.batches else 0

    def append(
        self, *values: str, producer: int = -1, flags: int = 0, **options: Any
    ) -> None:
        """Appends a batch of the current leader."""
        rows = [Record(0, 1_000, None, value.encode()) for value in values]
        self._add(rows, producer, flags, **options)

    def mark(self, producer: int, *, commits: bool) -> None:
        """Appends the end of a producer's transaction."""
        rows = [Record(0, 1_000, struct.pack(">hh", 0, int(commits)), b"")]
        self._add(rows, producer, CONTROL)

    def _add(
        self, rows: Sequence[Record], producer: int, flags: int, **options: Any
    ) -> None:
        first = self.end
        data = build_batch(
            rows,
            base_offset=first,
            partition_leader_epoch=self.epoch,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            attributes=flags | (TRANSACTIONAL if producer >= 0 else 0),
            **options,
        )
        self.batches.append((first, first + len(rows), self.epoch, bytes(data)))

    def elect(self, *, cut_off_at: int | None = None) -> None:
        """Elects another leader, perhaps one that lacks records from an offset on."""
        self.epoch += 1
        if cut_off_at is not None:
            self.batches = [row for row in self.batches if row[1] <= cut_off_at]

    def read(self, offset: int, most: int) -> bytes:
        """Complete batches from an offset, at least one if there is any."""
        data = b""
        for _, end, _, batch in self.batches:
            if end > offset and (not data or len(data) + len(batch) <= most):
                data += batch
        return data

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to this one, and the end of its records."""
        found = [row[2] for row in self.batches if row[2] <= epoch]
        if not found or epoch > self.epoch:
            return -1, -1
        ends = [row[1] for row in self.batches if row[2] <= epoch]
        return found[-1], max(ends)


class Logs(FakeBroker):
    """The node that leads all partitions of "t".

    Args:
        partitions: number of partitions.
        first: called with every request; returns True if it has answered it.
        holds: the API whose requests are kept in `held` for the scene to answer.

    Attributes:
        logs: by partition.
        followers: the addresses of other nodes, by id.
        replica: the preferred read replica (KIP-392); -1 for none.
    """

    def __init__(
        self,
        partitions: int = 1,
        first: Callable[[Asked], bool] | None = None,
        holds: str = "",
        **options: Any,
    ) -> None:
        answers = {
            "Metadata": self._metadata,
            "Fetch": self.fetch,
            "ListOffsets": self._list_offsets,
            "OffsetForLeaderEpoch": self.tell_ends,
        }
        wrapped = {name: self._shown(answer) for name, answer in answers.items()}
        super().__init__(wrapped, **options)
        self.logs = [Log() for _ in range(partitions)]
        self.followers: Mapping[int, int] = {}
        self.replica = -1
        self.first = first
        self.holds = holds
        self.held: list[Asked] = []
        self._parked: list[Asked] = []

    def _shown(self, answer: Callable[[Asked], None]) -> Callable[[Asked], None]:
        def shown(asked: Asked) -> None:
            if asked.api.name == self.holds:
                self.held.append(asked)
            elif self.first is None or not self.first(asked):
                answer(asked)

        return shown

    # -- for scenes

    def consumer(self, **settings: Any) -> Consumer:
        """A consumer of this broker, without a group, that starts at the beginning."""
        defaults: dict[str, Any] = {
            "bootstrap_servers": self.address,
            "auto_offset_reset": "earliest",
            **QUICK,
        }
        return Consumer(**(defaults | settings))

    def requests(self, api: str) -> list[Any]:
        """The requests of an API so far."""
        return [asked.message for asked in self.of(api)]

    def wake(self) -> None:
        """Answers pending fetches."""
        parked, self._parked = self._parked, []
        for asked in parked:
            self._answer(asked)

    # -- answers

    def _metadata(self, asked: Asked) -> None:
        partitions = [
            MetadataResponsePartition(0, number, 1, log.epoch, [1], [1])
            for number, log in enumerate(self.logs)
        ]
        topics = [
            MetadataResponseTopic(0, topic.name, TOPIC_ID, False, partitions)
            for topic in asked.message.topics
        ]
        ports = {1: self.port, **self.followers}
        nodes = [MetadataResponseBroker(n, "127.0.0.1", p) for n, p in ports.items()]
        asked.reply(MetadataResponse(0, nodes, "c", 1, topics))

    def _list_offsets(self, asked: Asked) -> None:
        rows = [
            ListOffsetsPartitionResponse(
                row.partition_index,
                offset=0 if row.timestamp == -2 else self.logs[row.partition_index].end,
                leader_epoch=self.logs[row.partition_index].epoch,
            )
            for topic in asked.message.topics
            for row in topic.partitions
        ]
        asked.reply(ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", rows)]))

    def tell_ends(self, asked: Asked) -> None:
        """Answers OffsetForLeaderEpoch."""
        rows = []
        for topic in asked.message.topics:
            for row in topic.partitions:
                log = self.logs[row.partition]
                code = _wrong_epoch(row.current_leader_epoch, log)
                end = (-1, -1) if code else log.end_of(row.leader_epoch)
                rows.append(EpochEndOffset(code, row.partition, *end))
        topics = [OffsetForLeaderTopicResult("t", rows)]
        asked.reply(OffsetForLeaderEpochResponse(0, topics))

    def fetch(self, asked: Asked) -> None:
        """Answers Fetch, perhaps later."""
        if self._found(asked) or not asked.message.max_wait_ms:
            self._answer(asked)
            return
        self._parked.append(asked)
        wait_s = asked.message.max_wait_ms / 1000
        asyncio.get_running_loop().call_later(wait_s, self._expire, asked)

    def _expire(self, asked: Asked) -> None:
        if asked in self._parked:
            self._parked.remove(asked)
            self._answer(asked)

    def _answer(self, asked: Asked) -> None:
        topics = [FetchableTopicResponse("t", partitions=self._found(asked))]
        asked.reply(FetchResponse(responses=topics))

    def _found(self, asked: Asked) -> list[PartitionData]:
        rows = []
        left = asked.message.max_bytes
        for topic in asked.message.topics:
            for row in topic.partitions:
                log = self.logs[row.partition]
                code = _wrong_epoch(row.current_leader_epoch, log)
                if not code and not 0 <= row.fetch_offset <= log.end:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                data = b""
                is_sent_on = self.replica >= 0 and not code
                if not code and not is_sent_on and left > 0:
                    most = min(row.partition_max_bytes, left)
                    data = log.read(row.fetch_offset, most)
                    left -= len(data)
                if data or code or is_sent_on:
                    aborted = log.aborted if asked.message.isolation_level else []
                    found = PartitionData(
                        row.partition,
                        code,
                        log.end,
                        log.end,
                        aborted_transactions=aborted,
                        preferred_read_replica=self.replica,
                        records=data,
                    )
                    rows.append(found)
        return rows


def _wrong_epoch(epoch: int, log: Log) -> ErrorCode:
    if epoch in (-1, log.epoch):
        return ErrorCode.NONE
    if epoch < log.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


async def values(reader: Consumer, count: int) -> list[str]:
    """The values of this many records, by iteration."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE):
        async for record in reader:
            found.append(text(record))
            if len(found) == count:
                break
    return found


def names(first: int, last: int) -> list[str]:
    """The values of the records first to last - 1."""
    return [f"r{number}" for number in range(first, last)]


@contextlib.asynccontextmanager
async def reading(
    broker: Logs, *places: TopicPartition, **settings: Any
) -> AsyncIterator[Consumer[Any, Any]]:
    """A consumer of partition 0, or of these partitions, with a time limit."""
    async with asyncio.timeout(PATIENCE), broker.consumer(**settings) as reader:
        reader.assign(places or [T0])
        yield reader
