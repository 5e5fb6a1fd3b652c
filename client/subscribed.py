"""Topics that are subscribed to: which a pattern means, and what is wrong with them."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable

from kohort.client.errors import ConfigError, KohortError, error_of
from kohort.client.metadata import Metadata
from kohort.protocol.errors import ErrorCode

log = logging.getLogger("kohort.client")

_NOT_TO_BE_HAD = {
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
"""Why there will be no records of a topic, however long one waits."""

_ABSENT_FOR_SURE = 2
"""Answers: the first one may be what makes a broker create the topic."""


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern for names of topics.

    Raises:
        ConfigError: it is no regular expression.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"pattern: {pattern!r}: {error}") from error


def matching(
    pattern: re.Pattern[str], metadata: Metadata, *, hides_internal: bool
) -> list[str]:
    """The topics that there are of which the whole name matches."""
    return sorted(
        name
        for name, topic in metadata.topics.items()
        if not topic.error_code
        and not (hides_internal and topic.is_internal)
        and pattern.fullmatch(name)
    )


class Watched:
    """What metadata has told so far of the topics that are subscribed to."""

    def __init__(self) -> None:
        self._absences: Counter[str] = Counter()

    def error_in(self, metadata: Metadata, topics: Iterable[str]) -> KohortError | None:
        """Why there will never be records of one of the topics.

        That one does not exist is none: it may come. The log says so, once.
        """
        found = None
        for name in topics:
            topic = metadata.topics.get(name)
            if topic is None:
                continue
            if topic.error_code in _NOT_TO_BE_HAD:
                found = error_of(topic.error_code, api="Metadata", topic=name)
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                del self._absences[name]
                continue
            self._absences[name] += 1
            if self._absences[name] == _ABSENT_FOR_SURE:
                log.warning("topic %r does not exist, and is waited for", name)
        return found
