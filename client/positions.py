"""Where a consumer is in its partitions, and what it commits of that."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping

from kohort.client.cluster import Cluster
from kohort.client.commit import Commits
from kohort.client.config import ConsumerConfig
from kohort.client.coordination import Coordination
from kohort.client.errors import (
    ClosedError,
    ConfigError,
    KohortError,
    RequestTimedOutError,
)
from kohort.client.fetcher import Fetcher
from kohort.client.offsets import (
    EARLIEST,
    LATEST,
    Committable,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    committable,
)
from kohort.client.partition import Partition

log = logging.getLogger("kohort.client")


class Positions:
    """The part of a consumer that is about offsets.

    Attributes:
        config: the settings.
    """

    config: ConsumerConfig
    _cluster: Cluster
    _fetcher: Fetcher
    _commits: Commits | None
    _member: Coordination | None
    _changed: asyncio.Event
    _is_closed: asyncio.Event
    _has_started: bool
    _is_closing: bool
    _last_commit: float

    # -- what has changed

    def _check(self) -> None:
        # While it is closed its listener may do what it does at other times.
        member = self._member
        is_inside = member is not None and member.is_inside
        if self._is_closed.is_set() or (self._is_closing and not is_inside):
            raise ClosedError("the consumer was closed")
        if not self._has_started:
            raise ClosedError("the consumer was not started")

    def _wake(self) -> None:
        self._changed.set()

    async def _next_change(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    def _raise(self) -> None:
        """Raises what has gone wrong since the last poll."""
        member = self._member
        if member is not None:
            if member.failure is not None:
                raise member.failure
            raised, member.raised = member.raised, None
            if raised is not None:
                raise raised
        error, self._fetcher.error = self._fetcher.error, None
        if error is not None:
            raise error

    # -- positions

    def _of(self, place: TopicPartition) -> Partition:
        self._check()
        found = self._fetcher.partitions.get(place)
        if found is None:
            raise ConfigError(f"{place[0]}-{place[1]} is not consumed here")
        return found

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Goes on from an offset.

        Args:
            partition: that is consumed here.
            offset: of the next record. If it comes with a leader epoch, it is
                checked first that the log was not cut off before it (KIP-320).

        Raises:
            ConfigError: the partition is not consumed here, or it is no offset.
        """
        row = committable(partition, offset)
        self._of(partition).seek(row.offset, row.leader_epoch)
        self._fetcher.pump()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes on from the first record that there is; of all if none is named."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes on behind the last record; of all if none is named."""
        self._seek_to(partitions, LATEST)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Goes on from the first record of a time, or the end if there is none.

        Args:
            timestamp_ms: since the epoch.
            partitions: all if none is named.
        """
        self._seek_to(partitions, timestamp_ms)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        self._check()
        for place in [*partitions] or [*self._fetcher.partitions]:
            self._of(place).seek_to(timestamp)
        self._fetcher.pump()

    def pause(self, *partitions: TopicPartition) -> None:
        """Gives out nothing of some partitions until `resume`."""
        for place in partitions:
            self._of(place).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Goes on with partitions that were paused."""
        for place in partitions:
            self._of(place).is_paused = False
        self._fetcher.pump()
        self._wake()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        held = self._fetcher.partitions.items() if self._has_started else ()
        return frozenset(place for place, p in held if p.is_paused)

    async def position(
        self, partition: TopicPartition, timeout_ms: int | None = None
    ) -> int:
        """The offset of the next record of a partition.

        Raises:
            RequestTimedOutError: it could not be found out in time.
            KohortError: there is none, as ``auto_offset_reset`` is none.
        """
        found = self._of(partition)
        deadline = self._cluster.deadline(timeout_ms)
        while found.position is None or found.is_in_doubt:
            self._raise()
            left = deadline - self._cluster.clock()
            if left <= 0:
                raise RequestTimedOutError(
                    "its position is not known yet",
                    topic=partition[0],
                    partition=partition[1],
                )
            if not found.is_asked:
                found.is_asked = True
                self._fetcher.pump()
            await self._next_change(left)
            found = self._of(partition)
        return found.position

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset behind the last record, as of the last fetch."""
        return self._of(partition).high_watermark

    # -- offsets of logs

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        found = await self._offsets_at(dict.fromkeys(partitions, EARLIEST), timeout_ms)
        return {place: row.offset for place, row in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition."""
        found = await self._offsets_at(dict.fromkeys(partitions, LATEST), timeout_ms)
        return {place: row.offset for place, row in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time, per partition; None for none.

        Args:
            times: milliseconds since the epoch.
            timeout_ms: None for ``default.api.timeout.ms``.
        """
        found = await self._offsets_at(times, timeout_ms)
        return {p: row if row.offset >= 0 else None for p, row in found.items()}

    async def _offsets_at(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._check()
        asked = {TopicPartition(*place): time for place, time in times.items()}

        async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
            await self._cluster.add_topics({place.topic for place in asked})
            return await self._fetcher.offsets_at(asked)

        deadline = self._cluster.deadline(timeout_ms)
        return await self._cluster.retrying(deadline, attempt)

    # -- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, Committable] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commits, and waits until that is done; after all that was committed before.

        A caller that is cancelled does not take the commit back.

        Args:
            offsets: of the next records to consume; None for all positions.
            timeout_ms: None for ``default.api.timeout.ms``.

        Raises:
            CommitFailedError: the group has moved on.
            KohortError: it failed otherwise.
        """
        await asyncio.shield(self.commit_async(offsets, timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, Committable] | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Task[None]:
        """Commits, and does not wait: the task tells what became of it.

        Raises:
            ConfigError: there is no group, or an offset is none.
        """
        if not self._has_started or self._is_closed.is_set():
            raise ClosedError("the consumer is not open")
        if self._commits is None:
            raise ConfigError("group_id: is needed to commit")
        if offsets is None:
            rows = self._positions(self._fetcher.partitions)
        else:
            rows = {TopicPartition(*p): committable(p, o) for p, o in offsets.items()}
        return self._commits.post(rows, timeout_ms)

    async def committed(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of some partitions; None where nothing."""
        self._check()
        commits = self._commits
        if commits is None:
            raise ConfigError("group_id: is needed to ask what is committed")
        places = [TopicPartition(*place) for place in partitions]

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            await commits.drained()
            return await commits.committed(places)

        deadline = self._cluster.deadline(timeout_ms)
        return await self._cluster.retrying(deadline, attempt)

    def _positions(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        found = {}
        for place in places:
            partition = self._fetcher.partitions.get(place)
            if partition is None or partition.is_in_doubt:
                continue
            if partition.position is not None:
                row = OffsetAndMetadata(partition.position, "", partition.epoch)
                found[place] = row
        return found

    def _commit_in_time(self) -> None:
        """Commits what was given out before this poll, if it is time to."""
        config = self.config
        if not config.enable_auto_commit or self._commits is None:
            return
        now = self._cluster.clock()
        if now - self._last_commit >= config.auto_commit_interval_ms / 1000:
            self._last_commit = now
            rows = self._positions(self._fetcher.partitions)
            if rows:
                self._commits.post(rows).add_done_callback(_log_failure)

    async def _commit_if_automatic(self, places: Iterable[TopicPartition]) -> None:
        """The last commit of partitions that go; that it fails stops nobody."""
        if not self.config.enable_auto_commit or self._commits is None:
            return
        rows = self._positions(places)
        if rows:
            with contextlib.suppress(KohortError):
                task = self._commits.post(rows)
                task.add_done_callback(_log_failure)
                await asyncio.shield(task)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.warning("offsets were not committed: %s", task.exception())
