"""The topics as the coordinators of groups see them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from kohort.broker.coordinator.topics import TopicImage
from kohort.broker.topics.topic import Topic
from kohort.broker.topics.topics import Topics


class ClusterTopics:
    """A `TopicsImage` of the cluster's topics. Nodes have no racks."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._images: dict[bytes, TopicImage] = {}
        self._version = topics.version

    def version(self) -> int:
        """The number of changes so far."""
        return self._topics.version

    def names(self) -> AbstractSet[str]:
        """The names of all topics, internal ones included."""
        return self._topics.by_name.keys()

    def named(self, name: str) -> TopicImage | None:
        """Returns the topic of a name; None if it does not exist."""
        topic = self._topics.by_name.get(name)
        return None if topic is None else self._image(topic)

    def with_id(self, topic_id: bytes) -> TopicImage | None:
        """Returns the topic of an id; None if it does not exist."""
        topic = self._topics.by_id.get(topic_id)
        return None if topic is None else self._image(topic)

    def _image(self, topic: Topic) -> TopicImage:
        """The image of a topic, made once until topics change."""
        if self._version != self._topics.version:
            self._images.clear()
            self._version = self._topics.version
        found = self._images.get(topic.id)
        if found is None:
            racks = ((),) * len(topic.partitions)
            found = self._images[topic.id] = TopicImage(topic.id, topic.name, racks)
        return found
