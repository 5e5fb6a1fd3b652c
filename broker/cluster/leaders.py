"""The leaders of partitions, which change with nodes, moves and reassignments.

`Cluster.leaders_changed` saves the changes, all those of a request together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kohort.broker.cluster import reassignments
from kohort.broker.topics.topic import NO_NODE, Topic
from kohort.broker.topics.topics import Topics


class Coordinated(Protocol):
    """The coordinators of a topic, which follow it."""

    def attach(self, topic: Topic) -> None:
        """Takes the new topic: its leaders load their coordinators."""

    def detach(self, cause: str) -> None:
        """Drops the topic, which was deleted, or the broker stops."""

    def lead(self, index: int, node_id: int, cause: str) -> None:
        """Sets the leader of a partition."""


class Leaders:
    """Elects the leaders of partitions.

    Args:
        topics: the topics; begin a leader epoch with each change.
        coordinated: the coordinators that follow the leaders of a topic, by topic.
        is_running: whether a node runs; False for unknown ids.
    """

    def __init__(
        self,
        topics: Topics,
        coordinated: Mapping[str, Coordinated],
        is_running: Callable[[int], bool],
    ) -> None:
        self._topics = topics
        self._coordinated = coordinated
        self._is_running = is_running

    def elected(self, replicas: Iterable[int]) -> int:
        """Returns the first replica whose node runs; `NO_NODE` without one."""
        return next(filter(self._is_running, replicas), NO_NODE)

    def _lead(
        self, topic: Topic, index: int, node_id: int, cause: str = "moved"
    ) -> None:
        self._topics.lead(topic, index, node_id)
        coordinators = self._coordinated.get(topic.name)
        if coordinators is not None:
            coordinators.lead(index, node_id, cause)

    def node_started(self, node_id: int) -> list[Topic]:
        """Makes a node the leader of the leaderless partitions that it replicates.

        Also completes the reassignments that waited for it. Returns a topic for each
        change.
        """
        changed = []
        for topic in self._topics.by_name.values():
            for index, leader in enumerate(topic.leaders):
                if leader == NO_NODE and node_id in topic.replicas[index]:
                    self._lead(topic, index, node_id)
                    changed.append(topic)
            changed += [
                topic
                for index in [*topic.reassignments]
                if self._completed(topic, index)
            ]
        return changed

    def node_stopped(self, node_id: int) -> list[Topic]:
        """Elects leaders in place of a node; returns a topic for each change."""
        changed = []
        for topic in self._topics.by_name.values():
            for index, leader in enumerate(topic.leaders):
                if leader == node_id:
                    elected = self.elected(topic.replicas[index])
                    self._lead(topic, index, elected, "stopped")
                    changed.append(topic)
        return changed

    def move(self, topic: Topic, index: int, node_id: int) -> None:
        """Makes a running node the leader; it becomes a replica if necessary."""
        leader, replicas = topic.leaders[index], list(topic.replicas[index])
        if node_id not in replicas:
            # It replaces the leader, or the preferred leader.
            replicas[replicas.index(leader) if leader in replicas else 0] = node_id
            topic.replicas[index] = replicas
            topic.reassignments.pop(index, None)
        self._lead(topic, index, node_id)

    def elect_preferred(self, topic: Topic, index: int) -> bool:
        """Makes the preferred replica the leader; False if its node is stopped."""
        preferred = topic.replicas[index][0]
        if not self._is_running(preferred):
            return False
        self._lead(topic, index, preferred)
        return True

    def reassign(
        self, topic: Topic, index: int, replicas: Sequence[int] | None
    ) -> None:
        """Begins a reassignment of a partition; None cancels the one in progress."""
        before = topic.replicas[index]
        if replicas is None:
            reassignments.cancel(topic, index)
        else:
            reassignments.begin(topic, index, replicas)
        if not self._completed(topic, index):
            self._replicas_changed(topic, index, before)

    def _completed(self, topic: Topic, index: int) -> bool:
        """Completes a reassignment if possible; returns whether it did."""
        if index not in topic.reassignments or not reassignments.is_complete(
            topic, index, self._is_running
        ):
            return False
        before = topic.replicas[index]
        reassignments.complete(topic, index)
        self._replicas_changed(topic, index, before)
        return True

    def _replicas_changed(
        self, topic: Topic, index: int, before: Sequence[int]
    ) -> None:
        """Elects a leader if necessary; starts a new epoch if replicas were lost."""
        leader, replicas = topic.leaders[index], topic.replicas[index]
        if leader in replicas:
            if not set(before).issubset(replicas):
                self._topics.lead(topic, index, leader)
            return
        elected = self.elected(replicas)
        if elected != leader:
            self._lead(topic, index, elected)
