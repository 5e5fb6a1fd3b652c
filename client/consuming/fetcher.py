"""Prefetches records of a consumer's partitions and returns them in order.

There is no background task: every change calls `pump`, which starts all requests that
can be sent, at most one Fetch per node at a time.

A Fetch without new records waits at the broker, and the next one to that node waits
behind it. So while some partitions of a node have enough prefetched records, no
waiting Fetch is sent for its others: only now and then one that does not wait, or one
if the application waits and has no records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kohort.client.config import ConsumerConfig
from kohort.client.consuming.chunks import (
    AnyRecord,
    Chunk,
    ConsumerRecord,
    corrupt,
    deserialized,
)
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.offset_lookup import OffsetLookup
from kohort.client.consuming.partition import Partition
from kohort.client.errors import (
    ClosedError,
    ConfigError,
    FencedLeaderEpochError,
    KohortError,
    MessageTooLargeError,
    error_of,
)
from kohort.client.hooks import tell
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import Metadata
from kohort.client.offsets import (
    OffsetAndMetadata,
    TopicPartition,
)
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

_BY_NAME_ONLY = (4, 12)
"""Versions with topic names; from 13 on, Fetch has topic ids."""

_TURN_S = 0.005
"""Seconds for which records are returned before other tasks may run."""


class _Due:
    """The work of one `pump`.

    Attributes:
        lost: partitions without a position.
        doubted: partitions whose log may be truncated, by leader.
        wanting: partitions to fetch, by node.
        full: nodes with partitions that have enough prefetched records.
        bytes_ahead: prefetched bytes of partitions that are not paused.
        next_try: the end of the next back-off.
    """

    __slots__ = ("bytes_ahead", "doubted", "full", "lost", "next_try", "wanting")

    def __init__(self) -> None:
        self.lost: list[Partition] = []
        self.doubted: dict[int, list[Partition]] = {}
        self.wanting: dict[int, list[Partition]] = {}
        self.full: set[int] = set()
        self.bytes_ahead = 0
        self.next_try = float("inf")


class Fetcher:
    """The partitions of a consumer.

    Args:
        commits: committed offsets, the first positions; None without a group.
        on_change: called when a poll has to check for changes.

    Attributes:
        partitions: the assigned partitions.
        error: for the next poll.
        lookup: finds positions and offsets.
        received: number of records that the application got.
        fetches: number of Fetch responses.
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
        self.received = 0
        self.fetches = 0
        self._on_received = config.on_received
        self._cluster = cluster
        self._config = config
        self._on_change = on_change
        self.lookup = OffsetLookup(
            cluster, config, commits, self._back_off, self.fail, self._found
        )
        self._ready: dict[TopicPartition, Partition] = {}
        """Partitions with fetched records; the next one first."""
        self._reading: Partition | None = None
        """The partition that `next_ready` continues with."""
        self._turn_ends = 0.0
        self._is_starved = False
        """True if a poll waits, and found no records."""
        self._fetching: dict[int, asyncio.Task[None]] = {}
        self._look_at: dict[int, float] = {}
        """By node: when to fetch its other partitions while some have enough."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._isolation = int(config.isolation_level == "read_committed")
        self._deserializes = (
            config.key_deserializer is not None or config.value_deserializer is not None
        )
        cluster.listeners.append(self._metadata_changed)

    def stop(self) -> None:
        """Cancels all requests."""
        self._is_stopped = True
        if self._metadata_changed in self._cluster.listeners:
            self._cluster.listeners.remove(self._metadata_changed)
        if self._timer is not None:
            self._timer.cancel()
        for task in self.under_way():
            task.cancel()

    def under_way(self) -> list[asyncio.Task[None]]:
        """The tasks that are not done."""
        return [*self._fetching.values(), *self.lookup.under_way()]

    # -- assigned partitions

    def add(self, places: Iterable[TopicPartition], *, is_held: bool = False) -> None:
        """Adds partitions; they are not fetched while they are held."""
        for place in places:
            if place not in self.partitions:
                self.partitions[place] = Partition(place, is_held=is_held)
        self.pump()

    def release(self, places: Iterable[TopicPartition]) -> None:
        """Continues with held partitions."""
        for place in places:
            if place in self.partitions:
                self.partitions[place].is_held = False
        self.pump()

    def hold(self, places: Iterable[TopicPartition]) -> None:
        """Returns no more records of some partitions; keeps their positions."""
        for place in places:
            if place in self.partitions:
                self.partitions[place].is_held = True

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Removes partitions."""
        for place in places:
            partition = self.partitions.pop(place, None)
            if partition is not None:
                self._ready.pop(place, None)
                partition.forget()

    def partition(self, place: TopicPartition) -> Partition:
        """The state of an assigned partition.

        Raises:
            ConfigError: it is not assigned.
        """
        found = self.partitions.get(place)
        if found is None:
            raise ConfigError(f"{place[0]}-{place[1]} is not assigned to this consumer")
        return found

    def positions(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The known positions of partitions, as offsets to commit."""
        found = {}
        for place in places:
            partition = self.partitions.get(place)
            if partition is None or partition.is_in_doubt:
                continue
            if partition.position is not None:
                row = OffsetAndMetadata(partition.position, "", partition.epoch)
                found[place] = row
        return found

    # -- records

    def next_ready(self) -> AnyRecord | None:
        """The next record of the partition that `poll` returned last, without waiting.

        None if that partition has none ready, or if other tasks should run; other
        partitions may have records.

        Raises:
            SerializationError: a deserializer failed.
        """
        partition = self._reading
        if partition is None or partition.is_paused or partition.is_held:
            return None
        at = partition.at
        if at >= len(partition.rows) or self._cluster.clock() > self._turn_ends:
            return None
        record = partition.rows[at]
        if self._deserializes:
            record = self._deserialized(record)
        partition.at = at + 1
        partition.advance(record)
        self.received += 1
        if self._on_received is not None:
            tell(self._on_received, record)
        return record

    def _deserialized(self, record: ConsumerRecord) -> AnyRecord:
        config = self._config
        return deserialized(record, config.key_deserializer, config.value_deserializer)

    def poll(
        self, wanted: Iterable[TopicPartition], most: int
    ) -> dict[TopicPartition, list[AnyRecord]]:
        """Prefetched records of these partitions, of all if none is given.

        Raises:
            KohortError: the next record is damaged or cannot be deserialized.
        """
        found: dict[TopicPartition, list[AnyRecord]] = {}
        chosen = set(wanted)
        self._reading = None
        for place, partition in [*self._ready.items()]:
            if partition.is_still or (chosen and place not in chosen):
                continue
            rows: list[AnyRecord] = []
            try:
                self._read(partition, rows, most)
            except KohortError:
                if not rows and not found:
                    raise
            else:
                if len(rows) < most:
                    del self._ready[place]
            if rows:
                found[place] = rows
                most -= len(rows)
                self._count(rows)
                # Other partitions come first the next time.
                if self._ready.pop(place, None):
                    self._ready[place] = partition
            if most <= 0:
                self._reading = partition
                break
        self._is_starved = not found
        self._turn_ends = self._cluster.clock() + _TURN_S
        self.pump()
        return found

    def _count(self, rows: Sequence[AnyRecord]) -> None:
        self.received += len(rows)
        if self._on_received is not None:
            for record in rows:
                tell(self._on_received, record)

    def _read(self, partition: Partition, rows: list[AnyRecord], most: int) -> None:
        """Adds up to `most` records of a partition to `rows`.

        Raises:
            KohortError: the next record is damaged or cannot be deserialized.
        """
        while len(rows) < most and partition.ahead():
            at, some = partition.at, partition.rows
            if at or len(some) > most - len(rows):
                some = some[at : at + most - len(rows)]
            if self._deserializes:
                for record in some:
                    rows.append(self._deserialized(record))
                    partition.at += 1
                    partition.advance(record)
            else:
                rows += some
                partition.at = at + len(some)
                partition.advance(some[-1])

    # -- requests

    def pump(self) -> None:
        """Starts all look-ups of positions and fetches that can be sent."""
        if self._is_stopped:
            return
        now = self._cluster.clock()
        due = _Due()
        for partition in self.partitions.values():
            if partition.retry_at > now:
                due.next_try = min(due.next_try, partition.retry_at)
            elif partition.position is None:
                if partition.is_asked or not partition.is_held:
                    due.lost.append(partition)
            elif not partition.is_held:
                self._sort(partition, now, due)
        if due.lost:
            self.lookup.resolve(due.lost)
        self.lookup.check(due.doubted)
        next_try = due.next_try
        if self._is_starved or due.bytes_ahead < self._config.fetch_max_bytes:
            next_try = min(next_try, self._fetch_all(due.wanting, due.full, now))
        self._arm(next_try - now)

    def _sort(self, partition: Partition, now: float, due: _Due) -> None:
        """Adds a partition with a position to the due requests."""
        leader = self._cluster.leader(*partition.place)
        if leader is None:
            self._cluster.request_update()
        elif self.lookup.doubts(partition):
            due.doubted.setdefault(leader, []).append(partition)
        elif not partition.is_paused:
            node_id = self._source(partition, leader, now)
            due.bytes_ahead += partition.size
            if partition.is_full:
                due.full.add(node_id)
            elif node_id not in self._fetching:
                due.wanting.setdefault(node_id, []).append(partition)

    def _fetch_all(
        self, wanting: Mapping[int, list[Partition]], full: set[int], now: float
    ) -> float:
        """Starts fetches; returns when to check again, if at all."""
        wait_ms = self._config.fetch_max_wait_ms
        next_look = float("inf")
        for node_id, partitions in wanting.items():
            waits = self._is_starved or node_id not in full
            look_at = self._look_at.get(node_id, now)
            if not waits and look_at > now:
                next_look = min(next_look, look_at)
                continue
            self._look_at[node_id] = now + wait_ms / 1000
            # Longest-waiting partitions first: responses have a size limit.
            partitions.sort(key=lambda partition: partition.chunks)
            fetch = self._fetch(node_id, partitions, wait_ms if waits else 0)
            self._fetching[node_id] = asyncio.create_task(fetch)
        return next_look

    def _source(self, partition: Partition, leader: int, now: float) -> int:
        """The node to fetch from: the leader, or the replica it named (KIP-392)."""
        replica = partition.replica
        if replica is None:
            return leader
        if now < partition.replica_until and replica in self._cluster.metadata.nodes:
            return replica
        partition.replica = None
        return leader

    def _metadata_changed(self, _: Metadata) -> None:
        self.pump()

    def _found(self) -> None:
        self._on_change()
        self.pump()

    def _arm(self, delay: float) -> None:
        """Calls `pump` when more requests may be due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay + 0.001, self.pump)

    def _back_off(self, partition: Partition) -> None:
        config = self._config
        doubled = config.retry_backoff_ms * 2 ** min(partition.failures, 16)
        partition.failures += 1
        delay_ms = min(doubled, config.retry_backoff_max_ms)
        partition.retry_at = self._cluster.clock() + delay_ms / 1000

    def fail(self, error: KohortError) -> None:
        """Takes an error for the next poll."""
        if not isinstance(error, ClosedError):
            self.error = error
            self._on_change()

    # -- fetches

    async def _fetch(
        self, node_id: int, partitions: Sequence[Partition], wait_ms: int
    ) -> None:
        asked = {p.place: (p, p.fetch_offset, p.leader_epoch) for p in partitions}
        try:
            response = await self._cluster.call(
                node_id,
                "Fetch",
                self._request(partitions, wait_ms),
                versions=_BY_NAME_ONLY,
                timeout_ms=self._config.request_timeout_ms + wait_ms,
                lane="fetch",
            )
            self.fetches += 1
            if response.error_code:
                raise error_of(
                    response.error_code,
                    api="Fetch",
                    broker=self._cluster.name_of(node_id),
                )
            for topic in response.responses:
                for row in topic.partitions:
                    place = TopicPartition(topic.topic, row.partition_index)
                    partition, *at = asked.get(place, (None, 0, 0))
                    # It may have been revoked, or its position changed, meanwhile.
                    if (
                        partition is not None
                        and self.partitions.get(place) is partition
                        and partition.position is not None
                        and [partition.fetch_offset, partition.leader_epoch] == at
                        and not partition.is_in_doubt
                    ):
                        self._fetched(partition, row, node_id)
        except KohortError as error:
            for partition in partitions:
                partition.replica = None
                self._back_off(partition)
            self._cluster.note(error)
            if not error.retriable:
                self.fail(error)
        finally:
            self._fetching.pop(node_id, None)
        self.pump()

    def _request(self, partitions: Sequence[Partition], wait_ms: int) -> FetchRequest:
        config = self._config
        newest = self._cluster.metadata.leader_epoch
        topics: dict[str, list[FetchPartition]] = {}
        for partition in partitions:
            topic, number = partition.place
            row = FetchPartition(
                number,
                newest(topic, number),
                partition.fetch_offset,
                partition_max_bytes=config.max_partition_fetch_bytes,
            )
            topics.setdefault(topic, []).append(row)
        return FetchRequest(
            max_wait_ms=wait_ms,
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
        if row.last_stable_offset >= 0:
            partition.last_stable_offset = row.last_stable_offset
        if row.preferred_read_replica >= 0:
            age_s = self._config.metadata_max_age_ms / 1000
            partition.replica = row.preferred_read_replica
            partition.replica_until = self._cluster.clock() + age_s
        if not row.records:
            return
        aborted = [
            (a.first_offset, a.producer_id) for a in row.aborted_transactions or ()
        ]
        try:
            chunk = Chunk(
                partition.place,
                row.records,
                partition.fetch_offset,
                aborted if self._isolation else (),
                is_checked=self._config.check_crcs,
            )
        except WireError as error:
            self._back_off(partition)
            self.fail(corrupt(partition.place, error, retriable=True))
            return
        if chunk.end <= partition.fetch_offset:
            self._back_off(partition)
            self.fail(_no_whole_batch(partition, chunk))
            return
        partition.add(chunk)
        self._ready[partition.place] = partition
        self._is_starved = False
        self._on_change()

    def _refused(self, partition: Partition, code: int, node_id: int) -> None:
        replica, partition.replica = partition.replica, None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower may not have it yet: the leader is asked next (KIP-392).
            # Prefetched records, if any, are still returned.
            if replica is not None or partition.place in self._ready:
                self._back_off(partition)
            else:
                self.lookup.reset(partition, partition.fetch_offset)
            return
        error = error_of(
            code,
            api="Fetch",
            broker=self._cluster.name_of(node_id),
            **partition.place._asdict(),
        )
        self._back_off(partition)
        self._cluster.note(error)
        if isinstance(error, FencedLeaderEpochError):
            self._cluster.request_update()
        if not error.retriable:
            self.fail(error)


def _no_whole_batch(partition: Partition, chunk: Chunk) -> MessageTooLargeError:
    """Since KIP-74, brokers send the first batch whole, however large."""
    return MessageTooLargeError(
        f"{chunk.size} bytes came without a whole batch at offset "
        f"{partition.fetch_offset}: max_partition_fetch_bytes is too small for it",
        api="Fetch",
        **partition.place._asdict(),
    )
