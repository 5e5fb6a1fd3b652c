"""The topics of a cluster, as the coordinators of groups see them."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from kohort.protocol.slotted import slotted


@slotted
class TopicImage:
    """A topic.

    Attributes:
        topic_id: its id.
        name: its name.
        racks: the racks of the replicas of each partition, by partition; sorted.
    """

    topic_id: bytes
    name: str
    racks: Sequence[Sequence[str]]


class TopicsImage(Protocol):
    """The topics of a cluster, always as of now."""

    def version(self) -> int:
        """A number that grows with each change."""

    def names(self) -> AbstractSet[str]:
        """The names of all topics, internal ones included."""

    def named(self, name: str) -> TopicImage | None:
        """Returns the topic of a name; None if it does not exist."""

    def with_id(self, topic_id: bytes) -> TopicImage | None:
        """Returns the topic of an id; None if it does not exist."""


class NoTopics:
    """A cluster without topics."""

    def version(self) -> int:
        """0."""
        return 0

    def names(self) -> AbstractSet[str]:
        """None."""
        return frozenset()

    def named(self, name: str) -> TopicImage | None:
        """None."""
        del name
        return None

    def with_id(self, topic_id: bytes) -> TopicImage | None:
        """None."""
        del topic_id
        return None
