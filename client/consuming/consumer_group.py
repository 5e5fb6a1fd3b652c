"""The member, subscription, commits and listener of a consumer in a group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from kohort.client.config import ConsumerConfig
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.fetcher import Fetcher
from kohort.client.consuming.subscription import Subscription, SubscriptionPattern
from kohort.client.errors import KohortError
from kohort.client.group.classic.driver import classic_driver
from kohort.client.group.consumer.driver import consumer_driver
from kohort.client.group.effects import Call, CallKind
from kohort.client.group.events import Closed
from kohort.client.group.member import Member
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import TopicPartition

log = logging.getLogger("kohort.client")


class ConsumerGroupMetadata(NamedTuple):
    """A consumer as its group knows it.

    Attributes:
        group_id: of the group.
        generation_id: the last generation that the consumer joined, or its member
            epoch with the consumer protocol (KIP-848); -1 if none.
        member_id: assigned by the coordinator, "" before that; made by the client
            with the consumer protocol.
        group_instance_id: of a static member (KIP-345), else None.
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class ConsumerRebalanceListener:
    """Called when partitions are assigned, revoked or lost; override any method.

    The methods are awaited while the application waits for records in a poll, in
    `close` or in `unsubscribe`, one at a time. Until they return, no records are
    returned, and the group waits, for ``max.poll.interval.ms`` at most. The poll
    raises their exceptions.
    """

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """Partitions are about to be revoked; you can still commit their offsets."""

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """Partitions were assigned; you can set positions by `seek`.

        Called after every rebalance; with a cooperative assignor or the consumer
        protocol also if there are no new partitions.
        """

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """Partitions are lost: other members may own them, and commits fail.

        As in the Java client, calls `on_partitions_revoked` unless overridden.
        """
        await self.on_partitions_revoked(lost)


class ConsumerGroup:
    """The part of a consumer that needs a ``group_id``.

    Args:
        on_change: called when a poll has to check for changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        fetcher: Fetcher,
        commits: Commits,
        on_change: Callable[[], None],
    ) -> None:
        driver = consumer_driver
        if config.group_protocol == "classic":
            driver = classic_driver
        self.driver = driver(cluster, config, self._call_listener, on_change)
        self.commits = commits
        self.subscription = Subscription(cluster, config, self.driver, fetcher.fail)
        self._cluster = cluster
        self._config = config
        self._fetcher = fetcher
        self._listener = ConsumerRebalanceListener()
        self._last_commit = 0.0

    @property
    def member(self) -> Member:
        """The member's state."""
        return self.driver.member

    def start(self) -> None:
        """Starts, after the cluster."""
        self._cluster.listeners.append(self.subscription.metadata_changed)
        self._last_commit = self._cluster.clock()

    async def close(self, leaves: bool | None) -> None:
        """Revokes the partitions, commits, and leaves; see `Consumer.close`."""
        with self.driver.polling:
            self.driver.submit(Closed(leaves))
            await self.driver.ended()
        # Partitions that were assigned by hand.
        await self._commit_at_once(self._fetcher.partitions)
        await self.commits.drained()

    def stop(self) -> list[asyncio.Future[Any]]:
        """Stops immediately; returns the unfinished tasks."""
        tasks: list[asyncio.Future[Any]] = [*self.subscription.stop()]
        tasks += self.driver.under_way()
        tasks += self.commits.under_way()
        self.driver.stop()
        self.commits.stop()
        return tasks

    # -- the subscription

    @property
    def is_subscribed(self) -> bool:
        """True if the group assigns the partitions, not the application."""
        member = self.member
        return (
            self.subscription.pattern is not None
            or member.subscription is not None
            or member.unsubscribed
        )

    def subscribe(
        self,
        topics: Sequence[str],
        pattern: re.Pattern[str] | SubscriptionPattern | None,
        listener: ConsumerRebalanceListener | None,
    ) -> None:
        """Subscribes to topics, or to a pattern."""
        self._listener = listener or ConsumerRebalanceListener()
        self.commits.member = self.member
        self.subscription.subscribe(topics, pattern)

    # -- the listener

    async def _call_listener(self, call: Call) -> None:
        # In the call's order, so that a run does not depend on hashes.
        places = dict.fromkeys(TopicPartition(*place) for place in call.partitions)
        if call.kind is CallKind.ASSIGNED:
            self._fetcher.add(places, is_held=True)
            try:
                await self._listener.on_partitions_assigned(frozenset(places))
            finally:
                self._fetcher.release(places)
            return
        self._fetcher.hold(places)
        try:
            if call.kind is CallKind.LOST:
                await self._listener.on_partitions_lost(frozenset(places))
            else:
                await self._revoke(places)
        finally:
            self.commits.lost(places)
            self._fetcher.remove(places)

    async def _revoke(self, places: Collection[TopicPartition]) -> None:
        await self._commit_at_once(places)
        try:
            await self._listener.on_partitions_revoked(frozenset(places))
        except Exception:
            await self.commits.drained()
            raise
        # The next owner must see all commits that the listener posted.
        await self.commits.drained()

    # -- commits

    def commit_in_time(self) -> None:
        """Commits the positions if ``auto.commit.interval.ms`` has passed."""
        config = self._config
        if not config.enable_auto_commit:
            return
        now = self._cluster.clock()
        if now - self._last_commit >= config.auto_commit_interval_ms / 1000:
            self._last_commit = now
            self._commit(self._fetcher.partitions)

    async def _commit_at_once(self, places: Iterable[TopicPartition]) -> None:
        """Commits partitions before they are revoked, with auto-commit."""
        if self._config.enable_auto_commit:
            task = self._commit(places)
            if task is not None:
                with contextlib.suppress(KohortError):
                    await asyncio.shield(task)

    def _commit(self, places: Iterable[TopicPartition]) -> asyncio.Task[None] | None:
        rows = self._fetcher.positions(places)
        if not rows:
            return None
        task = self.commits.post(rows)
        task.add_done_callback(self._log_failure)
        return task

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            name, error = self._config.client_id, task.exception()
            log.warning("%s: offsets were not committed: %s", name, error)
