"""New topics: made one by one, saved together, visible from then on."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.long_work import Pace
from kohort.broker.topics.topic import Topic

MOST_PARTITIONS = 1000
"""Partitions that are saved at once: one line of 50 KB and one fsync. If the write
fails, or the process is killed before it, at most this many are lost."""


class NewTopics:
    """Creates topics a piece at a time, and publishes them together.

        new = NewTopics(cluster)
        yield from new.make(...)
        yield from new.make(...)
        new.enter()

    Until then the topics are not visible, and their names are reserved. If the process
    is killed before, the next start removes their empty folders.

    Args:
        cluster: the cluster of the topics.
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
        """Creates a topic. The caller has checked its name.

        Args:
            name: its name.
            replicas: the replicas of each partition.
            overrides: the topic's own configuration.
            pace: when to yield.

        Raises:
            StorageError: the disk has no room for it, or it is being created already.
        """
        topic = yield from self._cluster.topics.make(name, replicas, overrides, pace)
        self._made.append(topic)
        return topic

    def make_automatically(self, name: str, pace: Pace) -> Generator[None, None, Topic]:
        """Creates a topic with the settings of automatic creation; see `make`."""
        count, factor, overrides = self._cluster.automatic(name)
        replicas = self._cluster.spread_topic(count, factor)
        return (yield from self.make(name, replicas, overrides, pace))

    @property
    def is_full(self) -> bool:
        """Returns whether the topics so far should be entered before more are made."""
        partitions = sum(len(topic.partitions) for topic in self._made)
        return partitions >= MOST_PARTITIONS

    def enter(self) -> None:
        """Saves the new topics and makes them visible.

        Raises:
            StorageError: the topics could not be saved; none of them is visible.
        """
        made, self._made = self._made, []
        if made:
            self._cluster.enter_topics(made)
