"""State of a cluster apart from its logs, as JSON.

`ClusterMetadata` is all of it, `ClusterChange` is a part that has changed;
`kohort.broker.log.journal` keeps both in files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kohort.protocol.slotted import slotted


class MetadataError(Exception):
    """The file is not valid cluster metadata."""


@slotted
class PartitionMetadata:
    """Replicas and leader of a partition: node ids; `leader` is -1 for none."""

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
        next_producer_id: the first id that has not been assigned.
    """

    topics: Mapping[str, TopicMetadata]
    configs: Mapping[str, Mapping[str, str]]
    next_producer_id: int

    @classmethod
    def from_json(cls, data: bytes) -> tuple[ClusterMetadata, int]:
        """The metadata that a file holds, and the number of the last change in it.

        Raises:
            MetadataError: the file is not whole.
        """
        with _metadata_errors():
            found = json.loads(data)
            topics = {name: _topic(value) for name, value in found["topics"].items()}
            metadata = cls(
                topics, _configs(found["configs"]), int(found["next_producer_id"])
            )
            # Files of before there was a journal have no number.
            return metadata, int(found.get("change", 0))

    def changed(self, changes: Iterable[ClusterChange]) -> ClusterMetadata:
        """The metadata after these changes."""
        topics = dict(self.topics)
        configs, next_producer_id = self.configs, self.next_producer_id
        for change in changes:
            for name, topic in change.topics.items():
                if topic is None:
                    topics.pop(name, None)
                else:
                    topics[name] = topic
            if change.configs is not None:
                configs = change.configs
            if change.next_producer_id is not None:
                next_producer_id = change.next_producer_id
        return ClusterMetadata(topics, configs, next_producer_id)


@slotted
class ClusterChange:
    """A change of a cluster: the parts named here replace those that were there.

    To make the same change twice is to make it once.

    Attributes:
        topics: topics by name that are new, or have changed; None for deleted ones.
        configs: all configuration that was changed at run time; None if it is
            as before.
        next_producer_id: None if it is as before.
    """

    topics: Mapping[str, TopicMetadata | None]
    configs: Mapping[str, Mapping[str, str]] | None = None
    next_producer_id: int | None = None

    def to_json(self, number: int) -> bytes:
        """One line, without its end."""
        parts: dict[str, object] = {"change": number}
        if self.topics:
            parts["topics"] = {
                name: None if topic is None else _to_json(topic)
                for name, topic in self.topics.items()
            }
        if self.configs is not None:
            parts["configs"] = {name: dict(of) for name, of in self.configs.items()}
        if self.next_producer_id is not None:
            parts["next_producer_id"] = self.next_producer_id
        return json.dumps(parts, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, line: bytes) -> tuple[ClusterChange, int]:
        """The change that a line holds, and its number.

        Raises:
            MetadataError: the line is not whole.
        """
        with _metadata_errors():
            found = json.loads(line)
            topics = {
                name: None if value is None else _topic(value)
                for name, value in found.get("topics", {}).items()
            }
            configs, producer_id = found.get("configs"), found.get("next_producer_id")
            change = cls(
                topics,
                None if configs is None else _configs(configs),
                None if producer_id is None else int(producer_id),
            )
            return change, int(found["change"])


def snapshot(
    number: int,
    topics: Iterable[tuple[str, TopicMetadata]],
    configs: Mapping[str, Mapping[str, str]],
    next_producer_id: int,
) -> Iterator[bytes]:
    """The parts of a file that `ClusterMetadata.from_json` reads, topic by topic.

    Args:
        number: that of the last change in it.
        topics: taken one by one, as the parts are.
        configs: see `ClusterMetadata`, as for the next.
        next_producer_id: see there.
    """
    head = {
        "change": number,
        "configs": {name: dict(values) for name, values in configs.items()},
        "next_producer_id": next_producer_id,
    }
    yield json.dumps(head)[:-1].encode() + b', "topics": {'
    comma = b""
    for name, topic in topics:
        yield comma + f"\n{json.dumps(name)}: {json.dumps(_to_json(topic))}".encode()
        comma = b","
    yield b"\n}}\n"


def _to_json(topic: TopicMetadata) -> dict[str, object]:
    return {
        "id": topic.id.hex(),
        "overrides": dict(topic.overrides),
        "partitions": [
            {"replicas": list(p.replicas), "leader": p.leader, "epoch": p.epoch}
            for p in topic.partitions
        ],
    }


@contextmanager
def _metadata_errors() -> Iterator[None]:
    try:
        yield
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,  # a number that is infinite in JSON
        RecursionError,  # brackets within brackets
    ) as error:
        raise MetadataError(f"{type(error).__name__}: {error}") from None


def _configs(value: Any) -> dict[str, dict[str, str]]:
    return {
        str(name): {str(key): str(text) for key, text in values.items()}
        for name, values in value.items()
    }


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
