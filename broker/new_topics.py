"""Topics that are being made: together they are written down, then they are there."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kohort.broker.cluster import Cluster
from kohort.broker.long_work import Pace
from kohort.broker.topics import Topic

MOST_PARTITIONS = 1000
"""Partitions that are written down at once: one line of 50 KB and one fsync. As many
at most are taken back if that fails, or the process is killed before."""


class NewTopics:
    """Makes topics a piece at a time, and enters them together.

        new = NewTopics(cluster)
        yield from new.make(...)
        yield from new.make(...)
        new.enter()

    Until then their names are reserved, and the topics are not visible. A process
    that is killed before leaves empty folders, which the next start removes.

    Args:
        cluster: where they will be.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._made: list[Topic] = []

    def make(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        overrides: dict[str, str] | None,
        pace: Pace,
    ) -> Generator[None, None, Topic]:
        """Makes a topic; its name is legal and not taken.

        Args:
            name: its name.
            replicas: the replicas of each partition.
            overrides: its own configuration.
            pace: when to yield.

        Raises:
            StorageError: there is no room for it, or it is being made already.
        """
        topic = yield from self._cluster.make_topic(name, replicas, overrides, pace)
        self._made.append(topic)
        return topic

    def make_automatically(self, name: str, pace: Pace) -> Generator[None, None, Topic]:
        """Makes a topic that a client has asked for; see `make`."""
        count, factor, overrides = self._cluster.automatic(name)
        replicas = self._cluster.spread_topic(count, factor)
        return (yield from self.make(name, replicas, overrides, pace))

    @property
    def is_full(self) -> bool:
        """Whether they are to be entered before others are made."""
        partitions = sum(len(topic.partitions) for topic in self._made)
        return partitions >= MOST_PARTITIONS

    def enter(self) -> None:
        """Enters the topics that were made: from now on they are visible.

        Raises:
            StorageError: they cannot be written down; none of them is there.
        """
        made, self._made = self._made, []
        if made:
            self._cluster.enter_topics(made)
