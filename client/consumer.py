"""The consumer: group membership, positions and records of an application."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Generic, Unpack, overload

from kohort.client.config import ConsumerConfig
from kohort.client.consuming.chunks import ConsumerRecord
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.consumer_group import (
    ConsumerGroup,
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
)
from kohort.client.consuming.fetcher import Fetcher
from kohort.client.consuming.partition import Partition
from kohort.client.consuming.polls import Polls
from kohort.client.consuming.subscription import SubscriptionPattern, compile_pattern
from kohort.client.errors import (
    ClosedError,
    ConfigError,
)
from kohort.client.group.events import (
    CommitRefused,
    RebalanceEnforced,
    Unsubscribed,
)
from kohort.client.lifecycle import Client, Lifecycle
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import (
    EARLIEST,
    LATEST,
    Committable,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    committable,
)
from kohort.client.settings import ConsumerSettings, K, V
from kohort.protocol.apis.k03_metadata import MetadataRequest

CLOSE_MS = 30_000
"""How long `close` may take, as in the Java client."""

_LAST_MS = 500
"""The last part of that time, reserved for closing the connections."""


class Consumer(Client, Generic[K, V]):
    """Consumes records, alone or as a member of a group.

    Keys are K and values V: bytes without deserializers.

        async with Consumer("orders", group_id="billing") as consumer:
            async for record in consumer:
                ...

    As in the Java client, rebalances proceed while the application waits for records:
    then listeners are called, and the records returned before count as processed.
    Heartbeats are sent in the background. If the application does not poll again
    within ``max.poll.interval.ms``, the consumer leaves the group on its own.

    Args:
        topics: to subscribe to.
        config: the settings; or pass them as keywords instead:
        settings: each setting, under Kafka's name with underscores.

    Raises:
        ConfigError: an unknown setting or an invalid value.
    """

    config: ConsumerConfig

    @overload
    def __init__(
        self: Consumer[Any, Any], *topics: str, config: ConsumerConfig
    ) -> None: ...
    @overload
    def __init__(
        self, *topics: str, **settings: Unpack[ConsumerSettings[K, V]]
    ) -> None: ...

    def __init__(
        self, *topics: str, config: ConsumerConfig | None = None, **settings: Any
    ) -> None:
        for topic in topics:
            if not isinstance(topic, str) or not topic:
                raise ConfigError(f"topics: {topic!r} is not a topic's name")
        self.config = ConsumerConfig.choose(config, settings)
        if topics and self.config.group_id is None:
            raise ConfigError(
                "group_id: topics are assigned within a group; without one, use assign"
            )
        self._topics = topics
        self._life = Lifecycle("consumer")
        self._changed = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        # From `start` on:
        self._cluster: Cluster
        self._fetcher: Fetcher
        self._polls: Polls
        self._group: ConsumerGroup | None = None

    # -- start and close

    async def start(self) -> None:
        """Connects, and joins the group if it is already subscribed.

        Raises:
            KohortError: no broker answers. The consumer is closed.
        """
        self._life.begin()
        config = self.config
        cluster = Cluster(
            config, allow_auto_topic_creation=config.allow_auto_create_topics
        )
        commits = None
        if config.group_id is not None:
            commits = Commits(cluster, config, self._commit_refused)
        fetcher = Fetcher(cluster, config, commits, self._changed.set)
        if commits is not None:
            self._group = ConsumerGroup(
                cluster, config, fetcher, commits, self._changed.set
            )
        self._cluster = cluster
        self._fetcher = fetcher
        self._polls = Polls(
            cluster, fetcher, self._group, self._changed, self._life, self._check
        )
        self._life.is_started = True
        try:
            await cluster.start()
            if self._group is not None:
                self._group.start()
            if self._topics:
                self.subscribe(self._topics)
        except BaseException:
            await self.close(0)
            raise

    async def close(
        self, timeout_ms: int = CLOSE_MS, *, leaves: bool | None = None
    ) -> None:
        """Revokes the partitions, commits with ``enable.auto.commit``, and leaves.

        Returns within the time limit, even if a broker or listener hangs. If the
        listener calls it, it returns immediately, and continues after the listener.

        Args:
            timeout_ms: the limit for everything.
            leaves: whether the member leaves the group; None for dynamic ones only.
        """
        if not self._life.begin_close():
            if not self._is_inside:
                await self._life.wait_closed(timeout_ms)
            return
        self._changed.set()
        if self._is_inside:
            self._closing = asyncio.create_task(self._end(timeout_ms, leaves))
        else:
            await self._end(timeout_ms, leaves)

    async def _end(self, timeout_ms: int, leaves: bool | None) -> None:
        try:
            await self._life.end_close(lambda: self._close(timeout_ms, leaves))
        finally:
            self._changed.set()

    async def _close(self, timeout_ms: int, leaves: bool | None) -> None:
        deadline = self._cluster.clock() + timeout_ms / 1000
        last_ms = min(_LAST_MS, timeout_ms // 4)
        group = self._group
        try:
            if group is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout((timeout_ms - last_ms) / 1000):
                        await group.close(leaves)
        finally:
            tasks: list[asyncio.Future[Any]] = [*self._fetcher.under_way()]
            self._fetcher.stop()
            if group is not None:
                tasks += group.stop()
            await self._cluster.close(min(self._left_ms(deadline), _LAST_MS))
            if tasks:
                await asyncio.wait(tasks, timeout=self._left_ms(deadline) / 1000)

    def _left_ms(self, deadline: float) -> int:
        return max(int((deadline - self._cluster.clock()) * 1000), 0)

    @property
    def _is_inside(self) -> bool:
        """True if the caller is the listener, or a task of it."""
        return self._group is not None and self._group.driver.is_inside

    def _check(self) -> None:
        """Raises `ClosedError` if closed; not to the listener until it returns."""
        self._life.check(is_inside=self._is_inside)

    def _commit_refused(self, generation_id: int, code: int) -> None:
        if self._group is not None:
            self._group.driver.submit(CommitRefused(generation_id, code))

    def _group_to(self, what: str) -> ConsumerGroup:
        if self._group is None:
            raise ConfigError(f"group_id: is needed to {what}")
        return self._group

    # -- the subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Replaces the subscription; returns immediately.

        Args:
            topics: topic names.
            pattern: a regular expression for names, in place of topics; it also
                matches topics that are created later. Python's matches here, a
                `SubscriptionPattern` at the coordinator.
            listener: called when partitions are assigned, revoked or lost.

        Raises:
            ConfigError: no ``group_id``, both or neither of topics and pattern, or an
                invalid listener, or a `SubscriptionPattern` in a classic group.
        """
        self._check()
        if not isinstance(listener, ConsumerRebalanceListener | None):
            what = type(listener).__name__
            raise ConfigError(f"listener: {what} is not a ConsumerRebalanceListener")
        names = [topics] if isinstance(topics, str) else [*topics]
        group = self._group_to("subscribe")
        if bool(names) == (pattern is not None):
            raise ConfigError("subscribe takes either topics or a pattern")
        if self._fetcher.partitions and group.member.subscription is None:
            raise ConfigError("partitions are assigned by hand: unsubscribe first")
        wanted: re.Pattern[str] | SubscriptionPattern | None = None
        if isinstance(pattern, SubscriptionPattern):
            if self.config.group_protocol == "classic":
                raise ConfigError(
                    "pattern: a SubscriptionPattern needs group_protocol=consumer"
                )
            wanted = pattern
        elif pattern is not None:
            wanted = compile_pattern(pattern)
        group.subscribe(names, wanted, listener)

    async def unsubscribe(self) -> None:
        """Leaves the group, or drops the partitions from `assign`.

        If the listener calls it, it returns immediately, and the member leaves after
        the listener.

        Raises:
            Exception: raised by the listener.
        """
        self._check()
        group = self._group
        if group is not None:
            group.subscription.clear()
            if group.member.subscription is not None:
                with group.driver.polling:
                    group.driver.submit(Unsubscribed())
                    if group.driver.is_inside:
                        return
                    while group.member.unsubscribed and not self._life.is_closing:
                        await self._polls.next_change()
        self._fetcher.remove([*self._fetcher.partitions])
        if group is not None:
            group.commits.member = None
            group.driver.raise_from_listener()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consumes these partitions from now on, without group membership.

        Raises:
            ConfigError: the consumer is subscribed to topics.
        """
        self._check()
        if self._group is not None:
            if self._group.is_subscribed:
                raise ConfigError(
                    "the consumer is subscribed to topics: unsubscribe first"
                )
            self._group.commits.member = None
        wanted = dict.fromkeys(TopicPartition(*place) for place in partitions)
        fetcher = self._fetcher
        fetcher.remove([p for p in fetcher.partitions if p not in wanted])
        fetcher.add(wanted)

    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        if self._group is None:
            return frozenset()
        return frozenset(self._group.member.subscription or ())

    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        if not self._life.is_started:
            return frozenset()
        return frozenset(self._fetcher.partitions)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The current group, generation and member.

        Raises:
            ConfigError: no ``group_id``.
        """
        self._check()
        member = self._group_to("be in a group").member
        return ConsumerGroupMetadata(
            member.group_id,
            member.generation_id,
            member.member_id,
            member.config.group_instance_id,
        )

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Asks the group for a rebalance, with a reason (KIP-568, KIP-800).

        With the consumer protocol it only logs a warning, as the Java client does.
        """
        self._check()
        if self._group is not None:
            self._group.driver.submit(RebalanceEnforced(reason))

    # -- positions

    def _partition(self, place: TopicPartition) -> Partition:
        self._check()
        return self._fetcher.partition(place)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continues at an offset.

        Args:
            partition: an assigned partition.
            offset: of the next record. With a leader epoch, it is validated first,
                which detects truncation of the log (KIP-320).

        Raises:
            ConfigError: the partition is not assigned, or the offset is invalid.
        """
        row = committable(partition, offset)
        self._partition(partition).seek(row.offset, row.leader_epoch)
        self._fetcher.pump()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continues at the first record; in all partitions if none is given."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continues after the last record; in all partitions if none is given."""
        self._seek_to(partitions, LATEST)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Continues at the first record at or after a time; without one, at the end.

        Args:
            timestamp_ms: milliseconds since the epoch.
            partitions: all if none is given.
        """
        self._seek_to(partitions, timestamp_ms)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        self._check()
        for place in [*partitions] or [*self._fetcher.partitions]:
            self._partition(place).seek_to(timestamp)
        self._fetcher.pump()

    async def seek_to_committed(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> None:
        """Continues at the committed offsets; in all partitions if none is given.

        Without a committed offset ``auto_offset_reset`` applies.

        Args:
            partitions: assigned partitions.
            timeout_ms: None for ``default.api.timeout.ms``.

        Raises:
            ConfigError: a partition is not assigned, or there is no group.
            KohortError: the committed offsets could not be fetched.
        """
        wanted = partitions or tuple(self.assignment())
        for place in wanted:
            self._partition(place)
        found = await self.committed(*wanted, timeout_ms=timeout_ms)
        for place, row in found.items():
            partition = self._partition(place)
            if row is not None:
                partition.seek(row.offset, row.leader_epoch)
            else:
                partition.begin_again()
        self._fetcher.pump()

    def pause(self, *partitions: TopicPartition) -> None:
        """Returns no records of some partitions until `resume`."""
        for place in partitions:
            self._partition(place).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Continues with paused partitions."""
        for place in partitions:
            self._partition(place).is_paused = False
        self._fetcher.pump()
        self._changed.set()

    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions."""
        held = self._fetcher.partitions.items() if self._life.is_started else ()
        return frozenset(place for place, p in held if p.is_paused)

    async def position(
        self, partition: TopicPartition, timeout_ms: int | None = None
    ) -> int:
        """The offset of the next record of a partition.

        Raises:
            RequestTimedOutError: it was not found in time.
            KohortError: no committed offset, and ``auto_offset_reset`` is ``none``.
        """
        self._check()
        deadline = self._cluster.deadline(timeout_ms)
        return await self._polls.position(partition, deadline)

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last record, from the last fetch."""
        return self._partition(partition).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The first offset of an open transaction, or `highwater`; from the last fetch.

        With ``isolation.level=read_committed`` records below it are returned.
        """
        return self._partition(partition).last_stable_offset

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of offsets from the position to the end, from the last fetch.

        The end is the last stable offset with ``isolation.level=read_committed``, else
        the high watermark. None before the first fetch.
        """
        held = self._partition(partition)
        is_committed = self.config.isolation_level == "read_committed"
        end = held.last_stable_offset if is_committed else held.high_watermark
        if held.position is None or end is None:
            return None
        return max(0, end - held.position)

    # -- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, Committable] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commits after all earlier commits, and waits for the response.

        Cancelling the caller does not cancel the commit.

        Args:
            offsets: the next offset of each partition; None for all positions.
            timeout_ms: None for ``default.api.timeout.ms``.

        Raises:
            CommitFailedError: the group has rebalanced without this member.
            KohortError: another error.
        """
        await asyncio.shield(self.commit_async(offsets, timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, Committable] | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Task[None]:
        """Commits without waiting; the task has the result.

        Raises:
            ConfigError: no ``group_id``, or an invalid offset.
        """
        self._life.check(is_inside=True)
        group = self._group_to("commit")
        if offsets is None:
            rows = self._fetcher.positions(self._fetcher.partitions)
        else:
            rows = {TopicPartition(*p): committable(p, o) for p, o in offsets.items()}
        return group.commits.post(rows, timeout_ms)

    async def committed(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each partition; None without one."""
        self._check()
        commits = self._group_to("fetch committed offsets").commits
        places = [TopicPartition(*place) for place in partitions]

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            await commits.drained()
            return await commits.committed(places)

        deadline = self._cluster.deadline(timeout_ms)
        return await self._cluster.retrying(deadline, attempt)

    # -- topics and logs

    async def topics(self, timeout_ms: int | None = None) -> frozenset[str]:
        """All topics; without internal ones if ``exclude.internal.topics`` is set.

        Raises:
            KohortError: no broker answers.
        """
        self._check()
        request = MetadataRequest(None, False)
        response = await self._cluster.retrying(
            self._cluster.deadline(timeout_ms),
            lambda: self._cluster.call(None, "Metadata", request),
        )
        hides = self.config.exclude_internal_topics
        return frozenset(
            topic.name
            for topic in response.topics
            if not topic.error_code and not (hides and topic.is_internal)
        )

    async def partitions_for_topic(
        self, topic: str, timeout_ms: int | None = None
    ) -> frozenset[int]:
        """The numbers of a topic's partitions; empty for an unknown topic.

        Raises:
            KohortError: no broker answers.
        """
        self._check()
        await self._cluster.retrying(
            self._cluster.deadline(timeout_ms),
            lambda: self._cluster.add_topics([topic]),
        )
        infos = self._cluster.metadata.partitions(topic)
        return frozenset(info.partition for info in infos)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        found = await self._offsets_at(dict.fromkeys(partitions, EARLIEST), timeout_ms)
        return {place: row.offset for place, row in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition.

        With ``isolation.level=read_committed`` the last stable offset.
        """
        found = await self._offsets_at(dict.fromkeys(partitions, LATEST), timeout_ms)
        return {place: row.offset for place, row in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The offset of the first record at or after a time, per partition, or None.

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
            return await self._fetcher.lookup.offsets_at(asked)

        deadline = self._cluster.deadline(timeout_ms)
        return await self._cluster.retrying(deadline, attempt)

    # -- records

    async def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: int = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """The next records, by partition; waits for some if there are none.

        Rebalances proceed and listeners are called here, even with a timeout of 0.

        Args:
            partitions: the partitions to read; all if none is given.
            timeout_ms: how long to wait for records.
            max_records: for all partitions together; None for ``max_poll_records``.

        Raises:
            KohortError: the consumer has failed, or a record cannot be read.
        """
        most = self.config.max_poll_records if max_records is None else max_records
        if most < 1:
            raise ConfigError(f"max_records: {most} is not at least 1")
        self._check()
        deadline = self._cluster.clock() + timeout_ms / 1000
        return await self._polls.poll(partitions, deadline, most)

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """As `getmany`, of all partitions."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    def metrics(self) -> dict[str, int]:
        """Counts since the start.

        Returns:
            ``records_received``, by the application; ``fetches``, the Fetch responses.

        Raises:
            ClosedError: the consumer is not started.
        """
        self._life.check()
        return {
            "records_received": self._fetcher.received,
            "fetches": self._fetcher.fetches,
        }

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        """The next record; waits for it.

        Raises:
            KohortError: as from `getmany`.
        """
        self._check()
        if not partitions and (record := self._polls.next_ready()) is not None:
            return record
        found = await self._polls.poll(partitions, None, 1)
        ((record,),) = found.values()
        return record

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterates over records as they arrive, until the consumer is closed."""
        while not self._life.is_closing:
            try:
                record: ConsumerRecord[K, V] | None = await self.getone()
            except ClosedError:
                if self._life.is_closing:
                    return
                raise
            while record is not None:
                yield record
                record = self._polls.next_ready()
