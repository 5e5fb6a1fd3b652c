"""Positions, and the records behind them: fetched ahead, given out in order.

Nothing runs all the time: whatever changes calls `pump`, which begins what can be
begun, one request per node at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kohort.client.cluster import Cluster
from kohort.client.commit import Commits
from kohort.client.config import ConsumerConfig
from kohort.client.consumed import Chunk, ConsumerRecord, consumed, corrupt
from kohort.client.errors import (
    ClosedError,
    FencedLeaderEpochError,
    KohortError,
    NoOffsetForPartitionError,
    NotLeaderError,
    OffsetOutOfRangeError,
    error_of,
)
from kohort.client.metadata import Metadata
from kohort.client.offsets import (
    EARLIEST,
    LATEST,
    OffsetAndTimestamp,
    TopicPartition,
)
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError
from kohort.protocol.records import BatchHeader, Record

_BY_NAME_ONLY = (4, 12)
"""From version 13 on topics go by id."""
_WITHOUT_TIERS = (1, 9)

_AHEAD = 2
"""Responses of a partition that are kept: one is read, one is ready."""

_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class Partition:
    """A partition that is consumed.

    Attributes:
        position: the offset of the next record for the application; None while
            it is looked up.
        reset: the timestamp to start from, where that was asked for.
        is_paused: by the application.
        is_held: as long as the listener has not taken note of it.
        high_watermark: as of the last fetch; None before.
        epoch: leader epoch of the record before the position; -1 for none.
    """

    __slots__ = (
        "_chunks",
        "_pending",
        "epoch",
        "failures",
        "fetch_offset",
        "high_watermark",
        "is_held",
        "is_paused",
        "place",
        "position",
        "reset",
        "retry_at",
    )

    def __init__(self, place: TopicPartition, *, is_held: bool) -> None:
        self.place = place
        self.position: int | None = None
        self.reset: int | None = None
        self.is_paused = False
        self.is_held = is_held
        self.high_watermark: int | None = None
        self.epoch = -1
        self.fetch_offset = 0
        self.retry_at = 0.0
        self.failures = 0
        self._chunks: deque[Chunk] = deque()
        self._pending: tuple[Record, BatchHeader] | None = None

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Goes on from an offset."""
        self.position = self.fetch_offset = offset
        self.epoch = epoch
        self.forget()

    def seek_to(self, timestamp: int) -> None:
        """Goes on from a point in time, once its offset is known."""
        self.position = None
        self.reset = timestamp
        self.forget(keeps_reset=True)

    def forget(self, *, keeps_reset: bool = False) -> None:
        """Drops what was fetched ahead."""
        self._chunks.clear()
        self._pending = None
        self.retry_at = 0.0
        self.failures = 0
        if not keeps_reset:
            self.reset = None

    def add(self, chunk: Chunk) -> None:
        """Takes what was fetched."""
        self._chunks.append(chunk)
        self.fetch_offset = chunk.end

    def wants_more(self, now: float) -> bool:
        """Whether something is to be fetched."""
        return (
            self.position is not None
            and not self.is_paused
            and not self.is_held
            and len(self._chunks) < _AHEAD
            and now >= self.retry_at
        )

    def peek(self) -> tuple[Record, BatchHeader] | None:
        """The next record, if it is there.

        Raises:
            CorruptMessageError: the bytes are damaged.
        """
        while self._pending is None and self._chunks:
            try:
                self._pending = self._chunks[0].next()
            except WireError as error:
                raise corrupt(self.place, error) from error
            if self._pending is None:
                # What is at the end may be no records: markers, or compacted.
                self.position = self._chunks.popleft().end
        return self._pending

    def advance(self, record: Record, header: BatchHeader) -> None:
        """The record that was peeked at is the application's now."""
        self._pending = None
        self.position = record.offset + 1
        self.epoch = header.partition_leader_epoch


class Fetcher:
    """The partitions of a consumer.

    Args:
        cluster: where they are.
        config: the consumer's.
        commits: where positions begin; None without a group.
        on_change: is called when there is something for a poll.

    Attributes:
        partitions: that are consumed, those that are next first.
        error: for the next poll.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        commits: Commits | None,
        on_change: Callable[[], None],
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.error: KohortError | None = None
        self._cluster = cluster
        self._config = config
        self._commits = commits
        self._on_change = on_change
        self._fetching: dict[int, asyncio.Task[None]] = {}
        self._resolving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._isolation = int(config.isolation_level == "read_committed")
        cluster.listeners.append(self._metadata_changed)

    def stop(self) -> None:
        """Ends everything at once."""
        self._is_stopped = True
        if self._metadata_changed in self._cluster.listeners:
            self._cluster.listeners.remove(self._metadata_changed)
        if self._timer is not None:
            self._timer.cancel()
        for task in self.under_way():
            task.cancel()

    def under_way(self) -> list[asyncio.Task[None]]:
        """The tasks that are not done."""
        resolving = [] if self._resolving is None else [self._resolving]
        return [*self._fetching.values(), *resolving]

    # -- what is consumed

    def add(self, places: Iterable[TopicPartition], *, is_held: bool = False) -> None:
        """Begins with some partitions; nothing of them is done while they are held."""
        for place in places:
            if place not in self.partitions:
                self.partitions[place] = Partition(place, is_held=is_held)
        self.pump()

    def release(self, places: Iterable[TopicPartition]) -> None:
        """Goes on with partitions that were held."""
        for place in places:
            if place in self.partitions:
                self.partitions[place].is_held = False
        self.pump()

    def hold(self, places: Iterable[TopicPartition]) -> None:
        """Gives out nothing more of some partitions; their positions stay."""
        for place in places:
            if place in self.partitions:
                self.partitions[place].is_held = True

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Forgets some partitions."""
        for place in places:
            self.partitions.pop(place, None)

    # -- records

    def take(
        self, wanted: Iterable[TopicPartition], most: int
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records that are there, of these partitions, of all if none is named.

        Raises:
            KohortError: there is none before something that is wrong.
        """
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        chosen = set(wanted)
        config = self._config
        for place in [*self.partitions]:
            partition = self.partitions[place]
            if partition.is_paused or partition.is_held:
                continue
            if chosen and place not in chosen:
                continue
            rows: list[ConsumerRecord] = []
            try:
                while most > 0 and (row := partition.peek()) is not None:
                    record = consumed(
                        place, *row, config.key_deserializer, config.value_deserializer
                    )
                    partition.advance(*row)
                    rows.append(record)
                    most -= 1
            except KohortError:
                if not rows and not found:
                    raise
            if rows:
                found[place] = rows
                # Others come first the next time.
                self.partitions[place] = self.partitions.pop(place)
            if most <= 0:
                break
        self.pump()
        return found

    # -- what is under way

    def pump(self) -> None:
        """Begins what can be begun: look-ups of positions, and fetches."""
        if self._is_stopped:
            return
        now = self._cluster.clock()
        self._arm(now)
        if self._resolving is None:
            lost = [
                p
                for p in self.partitions.values()
                if p.position is None and not p.is_held and now >= p.retry_at
            ]
            if lost:
                self._resolving = asyncio.create_task(self._resolve(lost))
        by_node: dict[int, list[Partition]] = {}
        for partition in self.partitions.values():
            if partition.wants_more(now):
                leader = self._cluster.leader(*partition.place)
                if leader is None:
                    self._cluster.request_update()
                elif leader not in self._fetching:
                    by_node.setdefault(leader, []).append(partition)
        for node_id, partitions in by_node.items():
            task = asyncio.create_task(self._fetch(node_id, partitions))
            self._fetching[node_id] = task

    def _metadata_changed(self, _: Metadata) -> None:
        self.pump()

    def _arm(self, now: float) -> None:
        """Looks again when the first back-off is over."""
        waits = [p.retry_at for p in self.partitions.values() if p.retry_at > now]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waits:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(waits) - now + 0.001, self.pump)

    def _back_off(self, partition: Partition) -> None:
        config = self._config
        doubled = config.retry_backoff_ms * 2 ** min(partition.failures, 16)
        partition.failures += 1
        delay_ms = min(doubled, config.retry_backoff_max_ms)
        partition.retry_at = self._cluster.clock() + delay_ms / 1000

    def _fail(self, error: KohortError) -> None:
        if not isinstance(error, ClosedError):
            self.error = error
            self._on_change()

    # -- positions

    async def _resolve(self, partitions: Sequence[Partition]) -> None:
        """Finds where to begin: what is committed, or as the policy says."""
        try:
            await self._cluster.add_topics({p.place.topic for p in partitions})
            await self._begin(partitions)
        except KohortError as error:
            for partition in partitions:
                self._back_off(partition)
            if error.retriable:
                self._cluster.note(error)
            else:
                self._fail(error)
        finally:
            self._resolving = None
        self._on_change()
        self.pump()

    async def _begin(self, partitions: Sequence[Partition]) -> None:
        plain = [p for p in partitions if p.reset is None]
        if plain and self._commits is not None:
            found = await self._commits.committed([p.place for p in plain])
            for partition in plain:
                row = found[partition.place]
                if partition.position is None and partition.reset is None and row:
                    partition.seek(row.offset, row.leader_epoch)
        for partition in plain:
            if partition.position is None and partition.reset is None:
                self._reset(partition, None)
        wanted = {p.place: p for p in partitions if p.reset is not None}
        asked = {place: p.reset for place, p in wanted.items() if p.reset is not None}
        for place, found_at in (await self.offsets_at(asked)).items():
            partition = wanted[place]
            # Behind the last record there is nothing with such a time.
            if partition.reset == asked[place]:
                if found_at.offset >= 0:
                    partition.seek(found_at.offset, found_at.leader_epoch)
                else:
                    partition.seek_to(LATEST)

    def _reset(self, partition: Partition, offset: int | None) -> None:
        """Applies `auto_offset_reset`; `offset` is out of range, None was not there."""
        policy = self._config.auto_offset_reset
        if policy in _RESETS:
            partition.seek_to(_RESETS[policy])
            return
        topic, number = partition.place
        if offset is None:
            self._back_off(partition)
            raise NoOffsetForPartitionError(
                "nothing is committed, and auto_offset_reset is none",
                group=self._config.group_id,
                topic=topic,
                partition=number,
            )
        self._back_off(partition)
        self._fail(
            OffsetOutOfRangeError(
                f"there is no offset {offset}, and auto_offset_reset is none",
                api="Fetch",
                topic=topic,
                partition=number,
                code=ErrorCode.OFFSET_OUT_OF_RANGE,
            )
        )

    async def offsets_at(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offsets at or after some times; see `kohort.client.offsets`.

        Nothing is tried again.

        Raises:
            KohortError: a leader is not known, or an answer has an error.
        """
        by_node: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for place, timestamp in times.items():
            leader = self._cluster.leader(*place)
            if leader is None:
                raise NotLeaderError(
                    "no leader is known",
                    api="ListOffsets",
                    topic=place.topic,
                    partition=place.partition,
                    code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
            row = ListOffsetsPartition(place.partition, -1, timestamp)
            by_node.setdefault(leader, {}).setdefault(place.topic, []).append(row)
        answers = await asyncio.gather(
            *(self._list(node_id, topics) for node_id, topics in by_node.items())
        )
        return {place: row for answer in answers for place, row in answer.items()}

    async def _list(
        self, node_id: int, topics: Mapping[str, list[ListOffsetsPartition]]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        request = ListOffsetsRequest(
            -1,
            self._isolation,
            [ListOffsetsTopic(topic, rows) for topic, rows in topics.items()],
        )
        response = await self._cluster.call(
            node_id, "ListOffsets", request, versions=_WITHOUT_TIERS
        )
        found = {}
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise error_of(
                        row.error_code,
                        api="ListOffsets",
                        broker=self._cluster.name_of(node_id),
                        topic=topic.name,
                        partition=row.partition_index,
                    )
                place = TopicPartition(topic.name, row.partition_index)
                found[place] = OffsetAndTimestamp(
                    row.offset, row.timestamp, row.leader_epoch
                )
        return found

    # -- fetches

    async def _fetch(self, node_id: int, partitions: Sequence[Partition]) -> None:
        asked = {p.place: (p, p.fetch_offset) for p in partitions}
        try:
            response = await self._cluster.call(
                node_id,
                "Fetch",
                self._request(partitions),
                versions=_BY_NAME_ONLY,
                timeout_ms=self._config.request_timeout_ms
                + self._config.fetch_max_wait_ms,
                lane="fetch",
            )
            if response.error_code:
                raise error_of(
                    response.error_code,
                    api="Fetch",
                    broker=self._cluster.name_of(node_id),
                )
            for topic in response.responses:
                for row in topic.partitions:
                    place = TopicPartition(topic.topic, row.partition_index)
                    partition, offset = asked[place]
                    # It may have been given up, or gone elsewhere, meanwhile.
                    if (
                        self.partitions.get(place) is partition
                        and partition.position is not None
                        and partition.fetch_offset == offset
                    ):
                        self._fetched(partition, row, node_id)
        except KohortError as error:
            for partition in partitions:
                self._back_off(partition)
            self._cluster.note(error)
            if not error.retriable:
                self._fail(error)
        finally:
            self._fetching.pop(node_id, None)
        self.pump()

    def _request(self, partitions: Sequence[Partition]) -> FetchRequest:
        config = self._config
        topics: dict[str, list[FetchPartition]] = {}
        for partition in partitions:
            topic, number = partition.place
            infos = self._cluster.metadata.partitions(topic)
            epoch = infos[number].leader_epoch if number < len(infos) else -1
            row = FetchPartition(
                number,
                epoch,
                partition.fetch_offset,
                partition_max_bytes=config.max_partition_fetch_bytes,
            )
            topics.setdefault(topic, []).append(row)
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic, partitions=r) for topic, r in topics.items()],
            rack_id=config.client_rack,
        )

    def _fetched(self, partition: Partition, row: Any, node_id: int) -> None:
        if row.error_code:
            self._refused(partition, row.error_code, node_id)
            return
        partition.failures = 0
        partition.high_watermark = row.high_watermark
        if not row.records:
            return
        aborted = [
            (a.first_offset, a.producer_id) for a in row.aborted_transactions or ()
        ]
        try:
            chunk = Chunk(
                row.records,
                partition.fetch_offset,
                aborted if self._isolation else (),
                is_checked=self._config.check_crcs,
            )
        except WireError as error:
            self._back_off(partition)
            self._fail(corrupt(partition.place, error))
            return
        partition.add(chunk)
        self._on_change()

    def _refused(self, partition: Partition, code: int, node_id: int) -> None:
        topic, number = partition.place
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # What is fetched ahead is still given out, if there is any.
            if partition.peek() is None:
                self._reset(partition, partition.fetch_offset)
            else:
                self._back_off(partition)
            return
        error = error_of(
            code,
            api="Fetch",
            broker=self._cluster.name_of(node_id),
            topic=topic,
            partition=number,
        )
        self._back_off(partition)
        self._cluster.note(error)
        if isinstance(error, FencedLeaderEpochError):
            self._cluster.request_update()
        if not error.retriable:
            self._fail(error)
