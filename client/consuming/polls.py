"""Polls wait for records; meanwhile rebalances continue and listeners are called."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from kohort.client.consuming.chunks import AnyRecord
from kohort.client.consuming.consumer_group import ConsumerGroup
from kohort.client.consuming.fetcher import Fetcher
from kohort.client.errors import KohortError, RequestTimedOutError
from kohort.client.lifecycle import Lifecycle
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import TopicPartition

Records = dict[TopicPartition, list[AnyRecord]]


class Polls:
    """Waits for records and for changes of the group.

    Args:
        changed: set when a poll has to check for changes.
        check: raises `ClosedError` when the consumer is closed.
    """

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        group: ConsumerGroup | None,
        changed: asyncio.Event,
        life: Lifecycle,
        check: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._group = group
        self._changed = changed
        self._life = life
        self._check = check

    async def next_change(self, seconds: float | None = None) -> None:
        """Returns when something has changed, or after some time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    def next_ready(self) -> AnyRecord | None:
        """The next record, if a poll would have nothing else to do.

        Commits and calls of the listener, which polls also do, are delayed by one turn
        of the fetcher at most.
        """
        if self._life.is_closing or self._changed.is_set():
            return None
        if self._group is not None and self._group.driver.is_calling:
            return None
        return self._fetcher.next_ready()

    async def poll(
        self, partitions: Sequence[TopicPartition], deadline: float | None, most: int
    ) -> Records:
        """The next records; see `Consumer.getmany`.

        Args:
            partitions: the partitions to read; all if empty.
            deadline: on the cluster's clock; None waits for records without limit.
            most: maximum number of records.

        Raises:
            KohortError: the consumer has failed, or a record cannot be read.
        """
        driver = None
        if self._group is not None:
            driver = self._group.driver
            if driver.is_caller:
                what = "a listener cannot poll: the poll waits for the listener"
                raise KohortError(what)
            self._group.commit_in_time()
        with contextlib.nullcontext() if driver is None else driver.polling:
            # Lets other tasks run, even if no poll ever waits.
            await asyncio.sleep(0)
            while True:
                self._check()
                self._changed.clear()
                left = None
                if driver is None or not driver.is_calling:
                    self._raise_failures()
                    found = self._fetcher.poll(partitions, most)
                    if found:
                        return found
                    if deadline is not None:
                        left = deadline - self._cluster.clock()
                        if left <= 0:
                            return {}
                await self.next_change(left)

    async def position(self, place: TopicPartition, deadline: float) -> int:
        """Waits for a partition's position; see `Consumer.position`."""
        found = self._fetcher.partition(place)
        while found.position is None or found.is_in_doubt:
            self._raise_failures()
            left = deadline - self._cluster.clock()
            if left <= 0:
                what = "the position is not known yet"
                raise RequestTimedOutError(what, **found.place._asdict())
            if not found.is_asked:
                found.is_asked = True
                self._fetcher.pump()
            await self.next_change(left)
            self._check()
            found = self._fetcher.partition(place)
        return found.position

    def _raise_failures(self) -> None:
        """Raises the errors since the last poll, one at a time."""
        if self._group is not None:
            if self._group.driver.failure is not None:
                raise self._group.driver.failure
            self._group.driver.raise_from_listener()
        error, self._fetcher.error = self._fetcher.error, None
        if error is not None:
            raise error
