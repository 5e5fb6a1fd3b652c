"""The consumer: an application's view of a group and its records."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Self

from kohort.client.cluster import Cluster
from kohort.client.commit import Commits
from kohort.client.config import ConsumerConfig
from kohort.client.consumed import ConsumerRecord
from kohort.client.coordination import Coordination
from kohort.client.errors import ClosedError, ConfigError, KohortError
from kohort.client.fetcher import Fetcher
from kohort.client.listener import ConsumerGroupMetadata, ConsumerRebalanceListener
from kohort.client.membership import (
    Call,
    CallKind,
    Closed,
    CommitRefused,
    RebalanceEnforced,
    Subscribed,
    Unsubscribed,
)
from kohort.client.metadata import Metadata
from kohort.client.offsets import TopicPartition
from kohort.client.positions import Positions
from kohort.client.subscribed import Watched, compiled, matching
from kohort.protocol.apis.k03_metadata import MetadataRequest

CLOSE_MS = 30_000
"""How long `close` may take, as in the Java client."""

_LAST_MS = 500
"""Of that, what is kept at most for the connections."""


class Consumer(Positions):
    """Consumes records, alone or as a member of a group.

        async with Consumer("orders", group_id="billing") as consumer:
            async for record in consumer:
                ...

    As in the Java client a rebalance goes on while the application waits for
    records: listeners are called then, and what it has been given is done with.
    Heartbeats go on all the time. It has to come back within
    ``max.poll.interval.ms``, else it leaves the group by itself.

    Args:
        topics: to subscribe to.
        config: the settings; or else
        settings: each of them, under Kafka's names with underscores.

    Raises:
        ConfigError: a setting is unknown or cannot be.
    """

    def __init__(
        self, *topics: str, config: ConsumerConfig | None = None, **settings: Any
    ) -> None:
        if config is not None and settings:
            raise ConfigError(f"{next(iter(settings))}: is given besides a config")
        self.config = ConsumerConfig.of(settings) if config is None else config
        self._topics = topics
        self._changed = asyncio.Event()
        self._listener: ConsumerRebalanceListener | None = None
        self._pattern: re.Pattern[str] | None = None
        self._watched = Watched()
        self._is_closing = False
        self._is_closed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._last_commit = 0.0
        # From `start` on:
        self._cluster: Cluster
        self._fetcher: Fetcher
        self._commits: Commits | None = None
        self._member: Coordination | None = None
        self._has_started = False

    # -- the start and the end

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Connects, and joins the group if topics were named already.

        Raises:
            KohortError: no broker answers. The consumer is closed.
        """
        if self._has_started or self._is_closing:
            raise ClosedError("a consumer is started once")
        config = self.config
        cluster = Cluster(
            config, allow_auto_topic_creation=config.allow_auto_create_topics
        )
        if config.group_id is not None:
            self._commits = Commits(cluster, config, self._on_refused)
            self._member = Coordination(cluster, config, self._on_call, self._wake)
        self._cluster = cluster
        self._fetcher = Fetcher(cluster, config, self._commits, self._wake)
        self._has_started = True
        try:
            await cluster.start()
            cluster.listeners.append(self._metadata_changed)
            self._last_commit = cluster.clock()
            if self._topics:
                self.subscribe(self._topics)
        except BaseException:
            await self.close(0)
            raise

    async def close(
        self, timeout_ms: int = CLOSE_MS, *, leaves: bool | None = None
    ) -> None:
        """Gives the partitions back, commits if that is automatic, and leaves.

        Returns within the time, whatever brokers and listeners do. Called by the
        listener it returns at once: the rest is done when the listener has returned.

        Args:
            timeout_ms: the time.
            leaves: whether the group is told; None for: not of a static member.
        """
        is_inside = self._member is not None and self._member.is_inside
        if self._is_closing:
            if is_inside:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._is_closed.wait()
            return
        self._is_closing = True
        self._wake()
        if not self._has_started:
            self._is_closed.set()
        elif is_inside:
            self._closing = asyncio.create_task(self._close(timeout_ms, leaves))
        else:
            await self._close(timeout_ms, leaves)

    async def _close(self, timeout_ms: int, leaves: bool | None) -> None:
        deadline = self._cluster.clock() + timeout_ms / 1000
        last_ms = min(_LAST_MS, timeout_ms // 4)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((timeout_ms - last_ms) / 1000):
                    await self._say_goodbye(leaves)
        finally:
            tasks = self._stop()
            try:
                await self._cluster.close(min(self._left_ms(deadline), _LAST_MS))
                if tasks:
                    left_ms = self._left_ms(deadline)
                    await asyncio.wait(tasks, timeout=left_ms / 1000)
            finally:
                self._is_closed.set()
                self._wake()

    def _left_ms(self, deadline: float) -> int:
        return max(int((deadline - self._cluster.clock()) * 1000), 0)

    async def _say_goodbye(self, leaves: bool | None) -> None:
        member = self._member
        if member is not None:
            with member.polling():
                member.tell(Closed(leaves))
                await member.ended()
        if self._commits is not None:
            # Of partitions that were assigned by hand.
            await self._commit_if_automatic(self._fetcher.partitions)
            await self._commits.drained()

    def _stop(self) -> list[asyncio.Task[None]]:
        """Ends everything at once: the tasks that are still on their way out."""
        tasks = self._fetcher.under_way()
        self._fetcher.stop()
        if self._watching is not None:
            self._watching.cancel()
            tasks.append(self._watching)
        if self._member is not None:
            tasks += self._member.under_way()
            self._member.stop()
        if self._commits is not None:
            tasks += self._commits.under_way()
            self._commits.stop()
        return tasks

    # -- what is consumed

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Wants the records of some topics, shared with the group, from now on.

        In place of what was subscribed to before. Nothing is waited for.

        Args:
            topics: their names.
            pattern: a regular expression for names, in place of them: topics
                that come later count as well.
            listener: is told of partitions that come and go.

        Raises:
            ConfigError: there is no ``group_id``, or not one of topics and pattern,
                or the listener is none.
        """
        self._check()
        if not isinstance(listener, ConsumerRebalanceListener | None):
            what = type(listener).__name__
            raise ConfigError(f"listener: {what} is no ConsumerRebalanceListener")
        if isinstance(topics, str):
            topics = [topics]
        names = [*topics]
        if self._member is None:
            raise ConfigError("group_id: is needed to subscribe")
        if bool(names) == (pattern is not None):
            raise ConfigError("subscribe takes either topics or a pattern")
        if self._fetcher.partitions and self._member.session.subscription is None:
            raise ConfigError("partitions are assigned by hand: unsubscribe first")
        wanted = None if pattern is None else compiled(pattern)
        self._listener = listener
        assert self._commits is not None  # noqa: S101 - there is a group
        self._commits.session = self._member.session
        self._follow(wanted)
        if wanted is None:
            self._member.tell(Subscribed(names))
            self._cluster.want_topics(names)

    def _follow(self, pattern: re.Pattern[str] | None) -> None:
        """Goes by a pattern, or by none any more."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self._pattern = pattern
        if pattern is not None:
            # The first topics come with the metadata, see `_metadata_changed`.
            self._watching = asyncio.create_task(self._watch_all())

    async def _watch_all(self) -> None:
        cluster = self._cluster
        try:
            await cluster.retrying(cluster.deadline(), lambda: cluster.watch(None))
        except KohortError as error:
            self._fetcher.error = error
            self._wake()

    def _metadata_changed(self, metadata: Metadata) -> None:
        member = self._member
        if member is None:
            return
        if self._pattern is not None:
            hides = self.config.exclude_internal_topics
            names = matching(self._pattern, metadata, hides_internal=hides)
            member.tell(Subscribed(names))
        topics = member.session.subscription or ()
        error = self._watched.error_in(metadata, topics)
        if error is not None:
            self._fetcher.error = error
            self._wake()

    async def unsubscribe(self) -> None:
        """Wants nothing any more: leaves the group, or drops what was assigned.

        Called by the listener it returns at once: the member leaves when the listener
        has returned.

        Raises:
            Exception: what the listener has raised meanwhile.
        """
        self._check()
        member = self._member
        self._follow(None)
        if member is not None and member.session.subscription is not None:
            with member.polling():
                member.tell(Unsubscribed())
                if member.is_inside:
                    return
                while member.session.is_unsubscribing and not self._is_closing:
                    await self._next_change(None)
        self._fetcher.remove([*self._fetcher.partitions])
        if self._commits is not None:
            self._commits.session = None
        if member is not None:
            raised, member.raised = member.raised, None
            if raised is not None:
                raise raised

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consumes some partitions, in no group, from now on.

        Raises:
            ConfigError: the consumer is subscribed to topics.
        """
        self._check()
        member = self._member
        if member is not None and (
            self._pattern is not None
            or member.session.subscription is not None
            or member.session.is_unsubscribing
        ):
            raise ConfigError("topics are subscribed to: unsubscribe first")
        if self._commits is not None:
            self._commits.session = None
        wanted = [TopicPartition(*place) for place in partitions]
        fetcher = self._fetcher
        fetcher.remove([p for p in fetcher.partitions if p not in set(wanted)])
        fetcher.add(wanted)

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        if self._member is None:
            return frozenset()
        return frozenset(self._member.session.subscription or ())

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are consumed."""
        if not self._has_started:
            return frozenset()
        return frozenset(self._fetcher.partitions)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group, the generation and the member that this is at the moment.

        Raises:
            ConfigError: there is no ``group_id``.
        """
        self._check()
        if self._member is None:
            raise ConfigError("group_id: is needed to be in a group")
        session = self._member.session
        return ConsumerGroupMetadata(
            session.settings.group_id,
            session.generation_id,
            session.member_id,
            session.settings.group_instance_id,
        )

    def enforce_rebalance(self, reason: str = "the application wants one") -> None:
        """Has the group rebalance; the brokers hear the reason (KIP-568, KIP-800)."""
        self._check()
        if self._member is not None:
            self._member.tell(RebalanceEnforced(reason))

    # -- the cluster

    async def topics(self, timeout_ms: int | None = None) -> frozenset[str]:
        """The topics that there are; internal ones if those are not excluded.

        Args:
            timeout_ms: None for ``default.api.timeout.ms``.

        Raises:
            KohortError: no broker answers.
        """
        self._check()

        def message(version: int) -> object:
            return MetadataRequest(None if version else (), False)

        response = await self._cluster.retrying(
            self._cluster.deadline(timeout_ms),
            lambda: self._cluster.call(None, "Metadata", message),
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
        """The numbers of a topic's partitions; none if there is no such topic.

        Args:
            topic: its name.
            timeout_ms: None for ``default.api.timeout.ms``.

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

    async def seek_to_committed(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> None:
        """Goes on from what is committed; of all partitions if none is named.

        Where nothing is committed, from where ``auto_offset_reset`` says.

        Args:
            partitions: that are consumed here.
            timeout_ms: None for ``default.api.timeout.ms``.

        Raises:
            ConfigError: a partition is not consumed here, or there is no group.
            KohortError: what is committed could not be found out.
        """
        wanted = partitions or tuple(self.assignment())
        for place in wanted:
            self._of(place)
        found = await self.committed(*wanted, timeout_ms=timeout_ms)
        for place, row in found.items():
            partition = self._of(place)
            if row is not None:
                partition.seek(row.offset, row.leader_epoch)
            else:
                partition.begin_again()
        self._fetcher.pump()

    # -- the listener

    def _on_refused(self, generation_id: int, code: int) -> None:
        if self._member is not None:
            self._member.tell(CommitRefused(generation_id, code))

    async def _on_call(self, call: Call) -> None:
        places = frozenset(TopicPartition(*place) for place in call.partitions)
        fetcher = self._fetcher
        listener = self._listener or ConsumerRebalanceListener()
        assert self._commits is not None  # noqa: S101 - there is a group
        if call.kind is CallKind.ASSIGNED:
            fetcher.add(places, is_held=True)
            try:
                await listener.on_partitions_assigned(places)
            finally:
                fetcher.release(places)
            return
        fetcher.hold(places)
        try:
            if call.kind is CallKind.LOST:
                await listener.on_partitions_lost(places)
            else:
                await self._commit_if_automatic(places)
                try:
                    await listener.on_partitions_revoked(places)
                except Exception:
                    await self._commits.drained()
                    raise
                # Whoever gets them next begins behind all that was handed in.
                await self._commits.drained()
        finally:
            self._commits.lost(places)
            fetcher.remove(places)

    # -- records

    async def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: int = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records, by partition; waits for some if there are none.

        Rebalances go on here, and listeners are called, whatever the timeout.

        Args:
            partitions: that are of interest; all that are consumed if none.
            timeout_ms: how long to wait for records.
            max_records: in all; None for ``max_poll_records``.

        Raises:
            KohortError: the consumer has failed, or a record cannot be read.
        """
        most = self.config.max_poll_records if max_records is None else max_records
        if most < 1:
            raise ConfigError(f"max_records: {most} is not at least 1")
        self._check()
        deadline = self._cluster.clock() + timeout_ms / 1000
        return await self._poll(partitions, deadline, most)

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """As `getmany`, of all partitions."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record; waits for it.

        Raises:
            KohortError: as from `getmany`.
        """
        self._check()
        if not partitions and (record := self._at_once()) is not None:
            return record
        found = await self._poll(partitions, None, 1)
        ((record,),) = found.values()
        return record

    def _at_once(self) -> ConsumerRecord | None:
        """The next record, where nothing else is to be done before.

        Whatever else a poll does, commits and calls of the listener, is put off by
        one turn of the fetcher at most.
        """
        member = self._member
        if self._is_closing or self._changed.is_set():
            return None
        if member is not None and member.is_calling:
            return None
        return self._fetcher.one()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """All records, as they come; ends when the consumer is closed."""
        while not self._is_closing:
            try:
                record = await self.getone()
            except ClosedError:
                if self._is_closing:
                    return
                raise
            yield record
            while (record := self._at_once()) is not None:  # type: ignore[assignment]
                yield record

    async def _poll(
        self,
        partitions: Sequence[TopicPartition],
        deadline: float | None,
        most: int,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        member = self._member
        if member is not None and member.is_caller:
            raise KohortError("a listener cannot wait for records: they wait for it")
        self._commit_in_time()
        with contextlib.nullcontext() if member is None else member.polling():
            # Whoever never has to wait would keep everybody else from running.
            await asyncio.sleep(0)
            while True:
                self._check()
                self._changed.clear()
                if member is None or not member.is_calling:
                    self._raise()
                    found = self._fetcher.take(partitions, most)
                    if found:
                        return found
                    left = None
                    if deadline is not None:
                        left = deadline - self._cluster.clock()
                        if left <= 0:
                            return {}
                else:
                    left = None
                await self._next_change(left)
