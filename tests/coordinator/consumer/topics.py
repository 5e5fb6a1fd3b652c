"""The topics of a cluster in a scene."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from kohort.broker.coordinator.topics import TopicImage


class Topics:
    """Topics that a scene creates, changes and deletes.

    The id of a topic ends with its number.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, TopicImage] = {}
        self._version = 0

    def create(self, name: str, partitions: int, racks: Sequence[str] = ()) -> bytes:
        """Creates a topic; returns its id."""
        self._version += 1
        topic_id = self._version.to_bytes(16, "big")
        self._by_name[name] = TopicImage(topic_id, name, [racks] * partitions)
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        """Gives a topic more partitions."""
        self._version += 1
        image = self._by_name[name]
        racks = [image.racks[0]] * partitions
        self._by_name[name] = TopicImage(image.topic_id, name, racks)

    def delete(self, name: str) -> None:
        """Deletes a topic."""
        self._version += 1
        del self._by_name[name]

    def version(self) -> int:
        """The number of changes so far."""
        return self._version

    def names(self) -> AbstractSet[str]:
        """The names of all topics."""
        return self._by_name.keys()

    def named(self, name: str) -> TopicImage | None:
        """The topic of a name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic of an id."""
        for image in self._by_name.values():
            if image.topic_id == topic_id:
                return image
        return None
