"""The topics that a consumer subscribes to, by name or by a pattern."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kohort.client.config import ConsumerConfig
from kohort.client.errors import ConfigError, KohortError, error_of
from kohort.client.group.driver import MemberDriver
from kohort.client.group.events import Subscribed
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import Metadata
from kohort.protocol.errors import ErrorCode

log = logging.getLogger("kohort.client.subscription")

_FATAL = {
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
"""Errors of a topic that are not retried."""

_ABSENT_FOR_SURE = 2
"""Responses after which a topic is missing: the first request may create it."""


class SubscriptionPattern(NamedTuple):
    """A regular expression that the coordinator matches with all topic names (KIP-848).

    In RE2's syntax; the whole name has to match.
    """

    pattern: str


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern for topic names.

    Raises:
        ConfigError: an invalid regular expression.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"pattern: {pattern!r}: {error}") from error


class Subscription:
    """Gives the member its topics, and updates them by a pattern.

    Args:
        on_error: takes errors for the next poll.

    Attributes:
        pattern: for topic names; None for a list of topics, or if the coordinator
            matches them.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        driver: MemberDriver,
        on_error: Callable[[KohortError], None],
    ) -> None:
        self.pattern: re.Pattern[str] | None = None
        self._cluster = cluster
        self._config = config
        self._driver = driver
        self._on_error = on_error
        self._absences: Counter[str] = Counter()
        self._watching: asyncio.Task[None] | None = None

    def subscribe(
        self,
        topics: Sequence[str],
        pattern: re.Pattern[str] | SubscriptionPattern | None,
    ) -> None:
        """Subscribes to topics, or to those that match a pattern."""
        self.clear()
        if pattern is None:
            self._driver.submit(Subscribed(topics))
            self._cluster.want_topics(topics)
            return
        if isinstance(pattern, SubscriptionPattern):
            self._driver.submit(Subscribed((), pattern.pattern))
        else:
            self.pattern = pattern
        # The metadata brings the first topics, or the names of assigned ones.
        self._watching = asyncio.create_task(self._watch_all_topics())

    def clear(self) -> None:
        """Removes the pattern; the caller unsubscribes the member."""
        self.pattern = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def stop(self) -> list[asyncio.Task[None]]:
        """Stops; returns the unfinished task."""
        if self._watching is None:
            return []
        self._watching.cancel()
        return [self._watching]

    async def _watch_all_topics(self) -> None:
        cluster = self._cluster
        try:
            await cluster.retrying(cluster.deadline(), lambda: cluster.watch(None))
        except KohortError as error:
            self._on_error(error)

    def metadata_changed(self, metadata: Metadata) -> None:
        """Subscribes to the topics that match, and checks topics for errors."""
        if self.pattern is not None:
            hides = self._config.exclude_internal_topics
            matching = [
                name
                for name, topic in metadata.topics.items()
                if not topic.error_code
                and not (hides and topic.is_internal)
                and self.pattern.fullmatch(name)
            ]
            self._driver.submit(Subscribed(sorted(matching)))
        error = self._error_in(metadata)
        if error is not None:
            self._on_error(error)

    def _error_in(self, metadata: Metadata) -> KohortError | None:
        """The error of a topic that will not have records, None without one.

        A missing topic may still be created: it is only logged, once.
        """
        found = None
        for name in self._driver.member.subscription or ():
            topic = metadata.topics.get(name)
            if topic is None:
                continue
            if topic.error_code in _FATAL:
                found = error_of(topic.error_code, api="Metadata", topic=name)
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                del self._absences[name]
                continue
            self._absences[name] += 1
            if self._absences[name] == _ABSENT_FOR_SURE:
                log.warning(
                    "%s: topic %r does not exist; waiting for it to be created",
                    self._config.client_id,
                    name,
                )
        return found
