"""cluster.json: what a cluster knows apart from its logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.protocol.slotted import slotted


class MetadataError(Exception):
    """The file does not hold what it should."""


@slotted
class PartitionMetadata:
    """Who keeps a partition: node ids; `leader` is -1 for nobody."""

    replicas: Sequence[int]
    leader: int
    epoch: int


@slotted
class TopicMetadata:
    """A topic: 16 bytes of id, its own configuration, its partitions by index."""

    id: bytes
    overrides: Mapping[str, str]
    partitions: Sequence[PartitionMetadata]


@slotted
class ClusterMetadata:
    """A cluster.

    Attributes:
        topics: by name.
        configs: configuration that was changed at run time, by whose it is: a
            node id as text, or "" for all nodes.
        next_producer_id: the first that nobody has been given.
    """

    topics: Mapping[str, TopicMetadata]
    configs: Mapping[str, Mapping[str, str]]
    next_producer_id: int

    def to_json(self) -> bytes:
        """The file."""
        topics = {
            name: {
                "id": topic.id.hex(),
                "overrides": dict(topic.overrides),
                "partitions": [
                    {"replicas": list(p.replicas), "leader": p.leader, "epoch": p.epoch}
                    for p in topic.partitions
                ],
            }
            for name, topic in self.topics.items()
        }
        configs = {name: dict(values) for name, values in self.configs.items()}
        everything = {
            "topics": topics,
            "configs": configs,
            "next_producer_id": self.next_producer_id,
        }
        return json.dumps(everything, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> ClusterMetadata:
        """What a file says.

        Raises:
            MetadataError: it is not whole.
        """
        try:
            found = json.loads(data)
            topics = {name: _topic(value) for name, value in found["topics"].items()}
            configs = {
                str(name): {str(key): str(value) for key, value in values.items()}
                for name, values in found["configs"].items()
            }
            return cls(topics, configs, int(found["next_producer_id"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MetadataError(f"{type(error).__name__}: {error}") from None


def _topic(value: Any) -> TopicMetadata:
    partitions = [
        PartitionMetadata(
            [int(node) for node in row["replicas"]],
            int(row["leader"]),
            int(row["epoch"]),
        )
        for row in value["partitions"]
    ]
    overrides = {str(key): str(text) for key, text in value["overrides"].items()}
    topic_id = bytes.fromhex(value["id"])
    if len(topic_id) != 16:
        raise ValueError(f"a topic id of {len(topic_id)} bytes")
    return TopicMetadata(topic_id, overrides, partitions)
