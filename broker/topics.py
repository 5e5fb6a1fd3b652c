"""The topics of the cluster and their partitions."""

from __future__ import annotations

import re

from kohort.broker.config import Config
from kohort.broker.ids import Ids
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import LogConfig

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}").fullmatch


def why_no_topic_name(name: str) -> str | None:
    """What is wrong with a name of a topic; None if nothing is."""
    if name in {".", ".."} or not _LEGAL_NAME(name):
        return (
            f"topic name {name[:260]!r} is illegal: 1 to 249 of a-z, A-Z, 0-9, "
            '".", "_" and "-", and neither "." nor ".."'
        )
    return None


class Topic:
    """A topic.

    Attributes:
        name: its name.
        id: the 16 bytes of its id (KIP-516).
        partitions: its partitions by index.
        overrides: the topic's own configuration, as texts by key.
    """

    __slots__ = ("id", "name", "overrides", "partitions")

    def __init__(self, name: str, topic_id: bytes, overrides: dict[str, str]) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self.overrides = overrides


class Topics:
    """All topics, by name and by id."""

    def __init__(self, config: Config, ids: Ids) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self._config = config
        self._ids = ids
        # Metric names do not tell "." from "_", so Kafka refuses a topic whose
        # name is another's but for these.
        self._by_metric_name: dict[str, str] = {}

    def why_illegal(self, name: str) -> str | None:
        """What is wrong with a name for a new topic; None if nothing is."""
        why = why_no_topic_name(name)
        if why is not None:
            return why
        other = self._by_metric_name.get(name.replace(".", "_"))
        if other is not None and other != name:
            return f"topic name {name!r} collides with {other!r}"
        return None

    def create(
        self, name: str, partitions: int, overrides: dict[str, str] | None = None
    ) -> Topic:
        """Creates a topic; its name is legal and not taken."""
        topic = Topic(name, self._ids.topic_id(), overrides or {})
        self.by_name[name] = self.by_id[topic.id] = topic
        self._by_metric_name[name.replace(".", "_")] = name
        self.grow(topic, partitions)
        return topic

    def grow(self, topic: Topic, partitions: int) -> None:
        """Adds partitions to a topic, up to this number of them."""
        for index in range(len(topic.partitions), partitions):
            topic.partitions.append(Partition(f"{topic.name}-{index}"))
        self.configure(topic, topic.overrides)

    def configure(self, topic: Topic, overrides: dict[str, str]) -> None:
        """Gives a topic this configuration; what it does not name is the broker's."""
        topic.overrides = overrides
        values = self._config.topic(overrides)
        config = LogConfig(
            values["message.timestamp.type"],
            values["max.message.bytes"],
            values["retention.ms"],
            values["retention.bytes"],
            ",".join(values["cleanup.policy"]),
            values["message.timestamp.before.max.ms"],
            values["message.timestamp.after.max.ms"],
            self._config["producer.id.expiration.ms"],
        )
        for partition in topic.partitions:
            partition.config = config

    def reconfigure(self) -> None:
        """Takes over what has changed in the broker's configuration."""
        for topic in self.by_name.values():
            self.configure(topic, topic.overrides)

    def delete(self, name: str) -> None:
        """Deletes a topic; whoever waits for its records is told."""
        topic = self.by_name.pop(name)
        del self.by_id[topic.id]
        del self._by_metric_name[name.replace(".", "_")]
        for partition in topic.partitions:
            partition.wake()
