"""State of a cluster apart from its logs, as JSON.

`ClusterMetadata` is the whole state, `ClusterChange` a changed part;
`kohort.broker.log.journal` keeps both in files.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from kohort.protocol.slotted import slotted


class MetadataError(Exception):
    """The file is not valid cluster metadata."""


_CRC: Final = b',\n"crc": "%08x"}\n'
"""The end of a file: the CRC-32 of all bytes before."""

Entity = tuple[tuple[str, str | None], ...]
"""A client with quotas: its names by type ("user", "client-id", "ip"), sorted; None for
the default of a type."""

QuotaValues = Mapping[Entity, Mapping[str, float]]
"""Quotas by key, by client."""


@slotted
class PartitionMetadata:
    """Replicas and leader of a partition: node ids; `leader` is -1 for none.

    `removing` are the replicas that a reassignment in progress will remove.
    """

    replicas: Sequence[int]
    leader: int
    epoch: int
    removing: Sequence[int] = ()


@slotted
class TopicMetadata:
    """A topic: 16 bytes of id, its own configuration, its partitions by index."""

    id: bytes
    overrides: Mapping[str, str]
    partitions: Sequence[PartitionMetadata]


@slotted
class ScramCredential:
    """A credential of one mechanism (RFC 5802); a password cannot be derived of it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


ScramUsers = Mapping[str, Mapping[int, ScramCredential]]
"""Credentials by the number of their mechanism, by user."""


@slotted
class ClusterMetadata:
    """A cluster.

    Attributes:
        topics: by name.
        configs: configuration changed at run time, by owner: a node id as text, "" for
            all nodes, or "group NAME" and the like.
        next_producer_id: the first id that has not been assigned.
        features: finalized levels that were changed at run time, by feature.
        quotas: the quotas of clients.
        scram: the SCRAM credentials of users.
    """

    topics: Mapping[str, TopicMetadata]
    configs: Mapping[str, Mapping[str, str]]
    next_producer_id: int
    features: Mapping[str, int] = MappingProxyType({})
    quotas: QuotaValues = MappingProxyType({})
    scram: ScramUsers = MappingProxyType({})

    @classmethod
    def from_json(cls, data: bytes) -> tuple[ClusterMetadata, int]:
        """Reads the metadata in a file, and the number of the last change in it.

        Raises:
            MetadataError: the file is damaged.
        """
        with _metadata_errors():
            _check_crc(data)
            found = json.loads(data)
            topics = {name: _topic(value) for name, value in found["topics"].items()}
            metadata = cls(
                topics,
                _configs(found["configs"]),
                int(found["next_producer_id"]),
                _features(found.get("features", {})),
                _quotas(found.get("quotas", [])),
                _scram(found.get("scram", {})),
            )
            # Files from before the journal have no number.
            return metadata, int(found.get("change", 0))

    def changed(self, changes: Iterable[ClusterChange]) -> ClusterMetadata:
        """The metadata after these changes."""
        topics = dict(self.topics)
        configs, next_producer_id = self.configs, self.next_producer_id
        features, quotas, scram = self.features, self.quotas, dict(self.scram)
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
            if change.features is not None:
                features = change.features
            if change.quotas is not None:
                quotas = change.quotas
            scram.update(change.scram)
        users = {user: of for user, of in scram.items() if of}
        return ClusterMetadata(
            topics, configs, next_producer_id, features, quotas, users
        )

    @property
    def without_topics(self) -> ClusterChange:
        """All of it except the topics."""
        return ClusterChange(
            {},
            self.configs,
            self.next_producer_id,
            self.features,
            self.quotas,
            self.scram,
        )


@slotted
class ClusterChange:
    """A change of a cluster: its parts replace the previous ones.

    Applying the same change twice has the effect of applying it once.

    Attributes:
        topics: new and changed topics by name; None for deleted ones.
        configs: all configuration changed at run time; None if unchanged.
        next_producer_id: None if unchanged.
        features: all changed levels; None if unchanged.
        quotas: all quotas; None if unchanged.
        scram: all credentials of each changed user; empty for a removed one.
    """

    topics: Mapping[str, TopicMetadata | None]
    configs: Mapping[str, Mapping[str, str]] | None = None
    next_producer_id: int | None = None
    features: Mapping[str, int] | None = None
    quotas: QuotaValues | None = None
    scram: ScramUsers = MappingProxyType({})

    def to_json(self, number: int) -> bytes:
        """One line, without its end."""
        return json.dumps(self.parts(number), separators=(",", ":")).encode()

    def parts(self, number: int) -> dict[str, object]:
        """The change as JSON values."""
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
        if self.features is not None:
            parts["features"] = dict(self.features)
        if self.quotas is not None:
            parts["quotas"] = [
                {"entity": dict(entity), "values": dict(values)}
                for entity, values in self.quotas.items()
            ]
        if self.scram:
            parts["scram"] = {
                user: {str(number): _credential_to_json(c) for number, c in of.items()}
                for user, of in self.scram.items()
            }
        return parts

    @classmethod
    def from_json(cls, line: bytes) -> tuple[ClusterChange, int]:
        """Reads the change in a line, and its number.

        Raises:
            MetadataError: the line is damaged.
        """
        with _metadata_errors():
            found = json.loads(line)
            topics = {
                name: None if value is None else _topic(value)
                for name, value in found.get("topics", {}).items()
            }
            configs, producer_id = found.get("configs"), found.get("next_producer_id")
            features, quotas = found.get("features"), found.get("quotas")
            change = cls(
                topics,
                None if configs is None else _configs(configs),
                None if producer_id is None else int(producer_id),
                None if features is None else _features(features),
                None if quotas is None else _quotas(quotas),
                _scram(found.get("scram", {})),
            )
            return change, int(found["change"])


def snapshot(
    number: int, topics: Iterable[tuple[str, TopicMetadata]], rest: ClusterChange
) -> Iterator[bytes]:
    """The parts of a file that `ClusterMetadata.from_json` reads, topic by topic.

    Args:
        number: the number of the last change in it.
        topics: taken one by one, as the parts are.
        rest: everything except topics.
    """
    part = json.dumps(rest.parts(number))[:-1].encode() + b', "topics": {'
    yield part
    comma, crc = b"", zlib.crc32(part)
    for name, topic in topics:
        part = comma + f"\n{json.dumps(name)}: {json.dumps(_to_json(topic))}".encode()
        yield part
        comma, crc = b",", zlib.crc32(part, crc)
    yield b"\n}" + _CRC % zlib.crc32(b"\n}", crc)


def _check_crc(data: bytes) -> None:
    """Compares the CRC, if there is one: files of earlier versions have none."""
    size = len(_CRC % 0)
    content, end = data[:-size], data[-size:]
    if end.startswith(_CRC.partition(b"%")[0]) and end != _CRC % zlib.crc32(content):
        raise ValueError('wrong CRC; if you have edited it, remove "crc"')


def _to_json(topic: TopicMetadata) -> dict[str, object]:
    return {
        "id": topic.id.hex(),
        "overrides": dict(topic.overrides),
        "partitions": [_partition_to_json(p) for p in topic.partitions],
    }


def _partition_to_json(partition: PartitionMetadata) -> dict[str, object]:
    row: dict[str, object] = {
        "replicas": list(partition.replicas),
        "leader": partition.leader,
        "epoch": partition.epoch,
    }
    if partition.removing:
        row["removing"] = list(partition.removing)
    return row


def _credential_to_json(credential: ScramCredential) -> dict[str, object]:
    return {
        "salt": credential.salt.hex(),
        "stored_key": credential.stored_key.hex(),
        "server_key": credential.server_key.hex(),
        "iterations": credential.iterations,
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
        OverflowError,  # an infinite number in JSON
        RecursionError,  # deeply nested brackets
    ) as error:
        raise MetadataError(f"{type(error).__name__}: {error}") from None


def _configs(value: Any) -> dict[str, dict[str, str]]:
    return {
        str(name): {str(key): str(text) for key, text in values.items()}
        for name, values in value.items()
    }


def _features(value: Any) -> dict[str, int]:
    return {str(name): int(level) for name, level in value.items()}


def _quotas(value: Any) -> dict[Entity, dict[str, float]]:
    return {
        tuple(
            (str(kind), None if name is None else str(name))
            for kind, name in sorted(row["entity"].items())
        ): {str(key): float(number) for key, number in row["values"].items()}
        for row in value
    }


def _scram(value: Any) -> dict[str, dict[int, ScramCredential]]:
    return {
        str(user): {
            int(mechanism): ScramCredential(
                bytes.fromhex(row["salt"]),
                bytes.fromhex(row["stored_key"]),
                bytes.fromhex(row["server_key"]),
                int(row["iterations"]),
            )
            for mechanism, row in of_user.items()
        }
        for user, of_user in value.items()
    }


def _topic(value: Any) -> TopicMetadata:
    partitions = [
        PartitionMetadata(
            [int(node) for node in row["replicas"]],
            int(row["leader"]),
            int(row["epoch"]),
            tuple(int(node) for node in row.get("removing", ())),
        )
        for row in value["partitions"]
    ]
    overrides = {str(key): str(text) for key, text in value["overrides"].items()}
    topic_id = bytes.fromhex(value["id"])
    if len(topic_id) != 16:
        raise ValueError(f"a topic id of {len(topic_id)} bytes")
    return TopicMetadata(topic_id, overrides, partitions)
