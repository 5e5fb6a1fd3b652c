"""Records as numbers: they arrive at a rate, and consumers read them by their offsets.

The partitions of a simulated topic have an end, which grows with time, and no bytes. To
all of the broker they are partitions: ListOffsets, lags and the accounts see their
ends. A consumer does not send Fetch: `Flow` reads the ends, and notes what a Fetch
would have noted for the account of delivery.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from kohort.broker.cluster.cluster import Cluster as BrokerCluster
from kohort.broker.log.memory import BatchStore
from kohort.broker.log.partition import Partition
from kohort.broker.notice import Client
from kohort.client.config import ConsumerConfig
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.fetcher import Fetcher
from kohort.client.consuming.partition import Partition as Position
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import TopicPartition
from kohort.protocol.records import read_header
from kohort.simulation.world.scheduler import Process, Scheduler

Rows = Sequence[tuple[TopicPartition, int, int]]
"""Records: their partition, the first offset, and their number."""

ROUNDING_S: Final = 1e-6
"""Added to the time of an arrival, as the end of the log is rounded at that time."""


class Arrivals:
    """The records of one partition: when each of them arrives.

    Attributes:
        rate: records per second.
    """

    __slots__ = ("_base", "_since", "rate")

    def __init__(self, since: float, rate: float, phase: float) -> None:
        self._since = since
        # The exact end at that time: the fraction is the next record's share.
        self._base = phase
        self.rate = rate

    def end(self, now: float) -> int:
        """The offset behind the last record that has arrived by a time."""
        return int(self._base + (now - self._since) * self.rate)

    def arrival(self, offset: int) -> float:
        """The time at which the record of an offset arrives, or infinity."""
        left = offset + 1 - self._base
        if left <= 0:
            return self._since
        if not self.rate:
            return math.inf
        return self._since + left / self.rate + ROUNDING_S

    def change(self, now: float, rate: float) -> None:
        """Records arrive at another rate from now on."""
        self._base += (now - self._since) * self.rate
        self._since = now
        self.rate = rate


class _Store(BatchStore):
    """The store of a partition without bytes."""

    __slots__ = ("arrivals",)

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        super().__init__()

    def ends_at(self, time_ms: int) -> tuple[int, int]:
        """See `Store.ends_at`."""
        end = self.arrivals.end(time_ms / 1000)
        return end, end


class FlowingPartition(Partition):
    """A partition whose end follows its arrivals."""

    __slots__ = ("_scheduler", "arrivals")

    def __init__(self, name: str, arrivals: Arrivals, scheduler: Scheduler) -> None:
        self.arrivals = arrivals
        self._scheduler = scheduler
        super().__init__(name, store=_Store(arrivals))

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last record that has arrived."""
        return self.arrivals.end(self._scheduler.now)

    @log_end_offset.setter
    def log_end_offset(self, _: int) -> None:
        """Nothing: only time appends."""


class FlushedPartition(Partition):
    """A partition of an internal topic; a loss of power keeps what was flushed.

    Attributes:
        flushed: the offset behind the last record that was flushed.
        losses: how often it has lost records.
    """

    __slots__ = ("flushed", "losses")

    def __init__(self, name: str) -> None:
        self.flushed = self.losses = 0
        super().__init__(name)

    def flush(self) -> None:
        """Notes that all records so far are on the disk."""
        super().flush()
        self.flushed = self.log_end_offset

    def lose_unflushed(self) -> None:
        """Removes the records that were not flushed; no coordinator has it loaded."""
        self.losses += self.flushed < self.log_end_offset
        kept = BatchStore()
        kept.config = self.config
        for batch in self.store.batches(self.log_start_offset, self.flushed):
            header = read_header(batch)
            last, time_ms = header.last_offset, header.max_timestamp
            kept.append(batch, header.base_offset, last, time_ms, time_ms)
        self.store = kept
        self.log_end_offset = self.flushed


class _Reader:
    """The connection that a consumer's fetches would have; see `fetch_watch`."""

    is_heard = True

    def __init__(self, client: Client) -> None:
        self.client = client
        self.reads = 0


class Flow(Fetcher):
    """The positions of a consumer, which reads records by their arrivals.

    Committed offsets and ``auto.offset.reset`` are looked up as by any consumer.

    Args:
        cluster: the consumer's.
        config: its settings.
        commits: its commits.
        on_change: called when a poll has to look for records.
        brokers: the brokers' state, whose partitions have the ends.
        process: the brokers' process, which takes notes of what is read.
        host: the consumer's host.

    Attributes:
        on_assigned: called with partitions that the consumer gets.
        taken: the records of the last `take`, if `on_assigned` is set.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        commits: Commits,
        on_change: Callable[[], None],
        brokers: BrokerCluster,
        process: Process,
        host: str,
    ) -> None:
        super().__init__(cluster, config, commits, on_change)
        self._brokers = brokers
        self._noting = process
        brokers.connections += 1
        client = Client(config.client_id, f"/{host}", brokers.connections)
        self._reader = _Reader(client)
        self._arrival: asyncio.TimerHandle | None = None
        self._known: dict[TopicPartition, FlowingPartition] = {}
        self.on_assigned: Callable[[Collection[TopicPartition]], None] | None = None
        self.taken: Rows = ()

    def add(self, places: Iterable[TopicPartition], *, is_held: bool = False) -> None:
        """Adds partitions; see `Fetcher.add`."""
        added = [*places]
        super().add(added, is_held=is_held)
        if self.on_assigned is not None:
            self.on_assigned(added)

    def stop(self) -> None:
        """Ends the reading, as a client that closes its connection does."""
        super().stop()
        if self._arrival is not None:
            self._arrival.cancel()
        self.disconnect(was_reset=False)

    def disconnect(self, *, was_reset: bool) -> None:
        """Notes the end of the connection."""
        with self._noting.running():
            if self._brokers.fetch_watch is not None:
                self._brokers.fetch_watch.ended(self._reader, was_reset=was_reset)

    # -- in place of fetches

    def pump(self) -> None:
        """Looks up missing positions, and wakes the poll when records arrive."""
        if self._is_stopped:
            return
        now, next_try = self._cluster.clock(), math.inf
        lost: list[Position] = []
        for position in self.partitions.values():
            if position.position is None and not position.is_held:
                if position.retry_at > now:
                    next_try = min(next_try, position.retry_at)
                else:
                    lost.append(position)
        if lost:
            self.lookup.resolve(lost)
        self._arm(next_try - now)
        self._expect()

    def _expect(self) -> None:
        """Sets the timer of the next record."""
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        when = math.inf
        for position in self.partitions.values():
            partition = self._readable(position)
            if partition is not None:
                assert position.position is not None
                when = min(when, partition.arrivals.arrival(position.position))
        if when != math.inf:
            loop = asyncio.get_running_loop()
            self._arrival = loop.call_at(max(when, loop.time()), self._on_change)

    def _readable(self, position: Position) -> FlowingPartition | None:
        """The partition of a position from which records may be returned."""
        if position.is_still or position.position is None:
            return None
        place = position.place
        found = self._known.get(place)
        if found is None:
            topic = self._brokers.topics.by_name[place.topic]
            partition = topic.partitions[place.partition]
            assert isinstance(partition, FlowingPartition)
            found = self._known[place] = partition
        return found

    def is_due(self) -> bool:
        """Returns whether a record has arrived since the last `take`."""
        return self._arrival is not None and (
            self._arrival.when() <= self._cluster.clock()
        )

    def take(self, most: int) -> int:
        """Moves the positions behind records that have arrived, as a poll does.

        Args:
            most: maximum number of records.

        Returns:
            Their number.
        """
        taken = 0
        rows: list[tuple[Position, FlowingPartition, int]] = []
        for position in [*self.partitions.values()]:
            partition = self._readable(position)
            if partition is None:
                continue
            assert position.position is not None
            count = min(partition.log_end_offset - position.position, most - taken)
            if count > 0:
                taken += count
                rows.append((position, partition, count))
        if taken:
            self._note(rows)
            if self.on_assigned is not None:
                self.taken = [(p.place, p.position or 0, count) for p, _, count in rows]
            for position, _, count in rows:
                assert position.position is not None
                position.position += count
                # The next poll begins with the others.
                self.partitions[position.place] = self.partitions.pop(position.place)
        self._expect()
        return taken

    def _note(self, rows: Sequence[tuple[Position, FlowingPartition, int]]) -> None:
        """Notes what a Fetch of these records, and its answer, would have noted."""
        self.received += sum(count for _, _, count in rows)
        watch, reader = self._brokers.fetch_watch, self._reader
        if watch is None:
            return
        reader.reads += 1
        asked: list[tuple[Any, int]] = []
        for position, partition, _ in rows:
            assert position.position is not None
            asked.append((partition, position.position))
        with self._noting.running():
            watch.asked(reader, asked, lambda: asked, committed=False)
            for (partition, start), (_, _, count) in zip(asked, rows, strict=True):
                watch.delivered(reader, partition, start, start + count)
