"""The common part of OffsetCommit and TxnOffsetCommit: sorts and answers rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kohort.broker.coordinator.effects import CommitResult
from kohort.broker.coordinator.events import NO_OFFSETS, OffsetRow, Offsets
from kohort.broker.coordinator.offsets import is_too_long
from kohort.broker.log.partition import Partition
from kohort.broker.long_work import Pace
from kohort.broker.request import Request
from kohort.broker.shards.group_records import (
    LARGEST_FRAME,
    MOST_NAME,
    SMALLEST_RECORD,
    BatchSize,
)
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.broker.topics.topics import Topics
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.protocol.apis.k28_txn_offset_commit import (
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )

R = TypeVar("R")
T = TypeVar("T", "OffsetCommitRequestTopic", "TxnOffsetCommitRequestTopic")
P = TypeVar("P", "OffsetCommitRequestPartition", "TxnOffsetCommitRequestPartition")

SLICE: Final = 500
"""Partitions looked up between two checks whether a piece is full."""
ROW_COST: Final = 2
"""Cost of looking up one partition, as `Pace` counts."""
_MOST_TEXT: Final = 0x7FFF
"""Maximum bytes of metadata in the log."""
_SIZED_COST: Final = 1
"""Cost of counting the bytes of one offset."""


def largest_batch(topics: Topics) -> int:
    """Bytes that a batch of ``__consumer_offsets`` may have."""
    topic = topics.by_name.get(OFFSETS_TOPIC)
    if topic is None:
        return topics.log_config({}).max_message_bytes
    return topic.partitions[0].config.max_message_bytes


class Found(Generic[T, P]):
    """The partitions of a commit, sorted into known and unknown ones.

    Args:
        largest: bytes of the largest batch that the log accepts.

    Attributes:
        largest: see above.
        known: by topic, the partitions that exist.
        unknown: by topic, the others, and their error.
        is_too_large: whether there are more offsets than fit in any batch; then they
            are not kept.
    """

    __slots__ = ("_columns", "_logs", "is_too_large", "known", "largest", "unknown")

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.known: list[tuple[T, Sequence[P]]] = []
        self.unknown: list[tuple[T, Sequence[P], ErrorCode]] = []
        self.is_too_large = False
        self._logs: dict[str, Sequence[Partition]] = {}
        # The offsets to commit, of known partitions.
        self._columns: tuple[list[Any], ...] = tuple([] for _ in NO_OFFSETS.columns())

    @property
    def count(self) -> int:
        """The number of offsets to commit."""
        return len(self._columns[0])

    @property
    def offsets(self) -> Offsets:
        """The offsets to commit."""
        return Offsets(*map(tuple, self._columns))

    def texts(self) -> Iterator[tuple[str, str | None]]:
        """Yields topic and metadata of each offset to commit."""
        return zip(self._columns[0], self._columns[4], strict=True)

    def is_stale(self, topics: Topics) -> bool:
        """Returns whether a topic was deleted since its partitions were sorted.

        An offset that is committed after the deletion would stay, and be that of a new
        topic with the same name.
        """
        for name, logs in self._logs.items():
            topic = topics.by_name.get(name)
            if topic is None or topic.partitions is not logs:
                return True
        return False

    def sort(
        self,
        wanted: Sequence[P],
        name: str,
        partitions: Sequence[Partition],
        known: list[P],
        unknown: list[P],
    ) -> None:
        """Adds each partition of one topic to one of the two lists."""
        if partitions:
            self._logs[name] = partitions
        rows: list[OffsetRow] = []
        for p in wanted:
            index = p.partition_index
            if 0 <= index < len(partitions):
                known.append(p)
                rows.append(
                    (
                        name,
                        index,
                        p.committed_offset,
                        p.committed_leader_epoch,
                        p.committed_metadata,
                        partitions[index].log_end_offset,
                    )
                )
            else:
                unknown.append(p)
        if (
            self.is_too_large
            or (self.count + len(rows)) * SMALLEST_RECORD > self.largest
        ):
            self.is_too_large = True
            for column in self._columns:
                column.clear()
        else:
            added = Offsets.of(rows).columns()
            for column, values in zip(self._columns, added, strict=True):
                column.extend(values)

    def answers(
        self, result: CommitResult, make: Callable[[int, int], R], pace: Pace
    ) -> Generator[None, None, list[tuple[str, bytes, list[R]]]]:
        """Makes the rows of the response; other work may run between two pieces.

        Unknown partitions come first, then the others with the result's codes. If a
        partition is unknown, Kafka has one entry per topic.

        Args:
            result: the coordinator's.
            make: makes a row from a partition and its error code.
            pace: counts the work.

        Returns:
            (name, id, rows) of each topic.
        """
        codes: Iterator[int] = repeat(result.error_code)
        if result.codes is not None:
            codes = iter(result.codes)
        answers: list[tuple[str, bytes, list[R]]] = []
        merged: dict[tuple[str, bytes], list[R]] = {}
        rows_of = chain(
            ((topic, some, repeat(int(error))) for topic, some, error in self.unknown),
            ((topic, some, codes) for topic, some in self.known),
        )
        for topic, partitions, codes_of in rows_of:
            key: tuple[str, bytes] = (topic.name, _id_of(topic))
            if not self.unknown or key not in merged:
                merged[key] = []
                answers.append((*key, merged[key]))
            rows = merged[key]
            for start in range(0, len(partitions), SLICE):
                some = partitions[start : start + SLICE]
                indexes = [p.partition_index for p in some]
                rows += map(make, indexes, codes_of)
                if pace.spend(len(some)):
                    yield
            if pace.spend(1):
                yield
        return answers


def may_be_too_large(request: Request, offsets: Offsets) -> bool:
    """Returns whether a commit of offsets of maximum size would be too large."""
    cluster = request.node.cluster
    count, largest = len(offsets.partitions), largest_batch(cluster.topics)
    most = LARGEST_FRAME + 4 * len(request.message.group_id) + MOST_NAME
    if count * (most + _MOST_TEXT) <= largest:
        return False
    if any(offsets.metadata):
        # Longer metadata is never written to the log.
        most += 4 * cluster.config["offset.metadata.max.bytes"]
    return count * most > largest


def is_too_large(
    request: Request, found: Found[T, P], pace: Pace, *, has_expiry: bool
) -> Generator[None, None, bool]:
    """Returns whether the log refuses these offsets, which go into one batch."""
    if not may_be_too_large(request, found.offsets):
        return False
    longest = request.node.cluster.config["offset.metadata.max.bytes"]
    size = BatchSize(request.message.group_id, has_expiry=has_expiry)
    for topic, metadata in found.texts():
        if metadata is None or not is_too_long(metadata, longest):
            size.add(topic, metadata or "")
        if pace.spend(_SIZED_COST):
            yield
    return size.total > found.largest


def _id_of(topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic) -> bytes:
    return topic.topic_id if isinstance(topic, OffsetCommitRequestTopic) else b""
