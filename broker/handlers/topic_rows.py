"""Encoded topics of a Metadata response.

A client asks for all topics every few minutes, and a cluster may have 100,000
partitions. Most of their rows differ only in the index: with few nodes, many partitions
have the same leader, epoch and replicas. So the rest of each different row is encoded
once, and a topic is joined from these. They are found by all that they contain, so a
change of the cluster makes other ones, and none is ever out of date.

Metadata's arrays of topics and of partitions are followed by a few fixed bytes. The
message is encoded with an empty array, and the rows are put in its place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.handlers.replicas import placed
from kohort.broker.request import JOIN_BELOW, Request
from kohort.broker.topics.topic import NO_NODE, Topic
from kohort.protocol.apis.k03_metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.generated_calls import uvarint
from kohort.protocol.messages import codec

_KEPT = 10_000
"""Rows kept, in 4 MB. Three nodes have a few dozen."""

_Row = tuple[int, int, int, tuple[int, ...], tuple[int, ...]]
_rows: dict[_Row, bytes] = {}
"""Rows behind the index, by version, leader, leader epoch, replicas, and the stopped
nodes."""

_JOINED_KEPT = 1_000
"""Slices of topics kept joined, in some 5 MB."""

_Placing = tuple[list[int], list[int], list[Sequence[int]], tuple[int, ...]]
_joined: dict[tuple[bytes, int, int], tuple[_Placing, bytes]] = {}
"""Joined rows of slices, by topic id, version and first index: the leaders, epochs and
replicas that they have, and the stopped nodes."""

_start_of = struct.Struct(">hi").pack
"""The start of a row in all versions: error code, index."""


class TopicRows:
    """The topics of one response.

    Attributes:
        errors: the error codes in them.
    """

    def __init__(self, request: Request) -> None:
        version, is_flexible = request.version, request.api.is_flexible(request.version)
        self.errors: set[int] = set()
        self._version = version
        self._is_flexible = is_flexible
        self._topic = codec(MetadataResponseTopic, version, flexible=is_flexible)
        self._count = 0
        self._parts: list[Buffer] = []
        # Rows that are not joined yet, and their bytes.
        self._small: list[bytes] = []
        self._size = 0

    def partitions(
        self, cluster: Cluster, topic: Topic, start: int, stop: int
    ) -> bytes:
        """The rows of some partitions of a topic."""
        nodes = cluster.nodes.values()
        stopped = tuple(node.id for node in nodes if not node.is_running)
        leaders = topic.leaders[start:stop]
        if NO_NODE in leaders:
            self.errors.add(ErrorCode.LEADER_NOT_AVAILABLE)
        epochs = [each.epochs.latest for each in topic.partitions[start:stop]]
        placing = leaders, epochs, topic.replicas[start:stop], stopped
        key = topic.id, self._version, start
        known = _joined.get(key)
        if known is None or known[0] != placing:
            if len(_joined) >= _JOINED_KEPT:
                _joined.clear()
            known = _joined[key] = placing, self._rows(cluster, topic, start, placing)
        return known[1]

    def _rows(
        self, cluster: Cluster, topic: Topic, start: int, placing: _Placing
    ) -> bytes:
        *rows, stopped = placing
        found: list[bytes] = []
        for index, (leader, epoch, replicas) in enumerate(
            zip(*rows, strict=True), start
        ):
            key = (self._version, leader, epoch, tuple(replicas), stopped)
            row = _rows.get(key)
            if row is None:
                row = self._encoded(cluster, topic, index)
                if len(_rows) >= _KEPT:
                    _rows.clear()
                _rows[key] = row
            error = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_NODE else 0
            found += (_start_of(error, index), row)
        return b"".join(found)

    def _encoded(self, cluster: Cluster, topic: Topic, index: int) -> bytes:
        """The row of a partition behind its index."""
        error, leader, epoch, replicas, in_sync, offline = placed(cluster, topic, index)
        row = MetadataResponsePartition(
            error, index, leader, epoch, replicas, in_sync, offline
        )
        of_version = codec(
            MetadataResponsePartition, self._version, flexible=self._is_flexible
        )
        return of_version.encode(row)[len(_start_of(error, index)) :]

    def add(
        self, topic: MetadataResponseTopic, count: int = 0, rows: Iterable[bytes] = ()
    ) -> None:
        """Adds a topic.

        Args:
            topic: the topic without partitions.
            count: the number of its partitions.
            rows: the rows of its partitions, as from `partitions`.
        """
        if topic.error_code:
            self.errors.add(topic.error_code)
        encoded = self._topic.encode(topic)
        # Behind the partitions: the operations (v8), tagged fields (v9).
        tail = 4 * (self._version >= 8) + self._is_flexible
        before, after = self._split(encoded, tail, count)
        row = b"".join((before, *rows, after))
        self._count += 1
        self._small.append(row)
        self._size += len(row)
        if self._size >= JOIN_BELOW:
            self._join()

    def _join(self) -> None:
        """Joins small rows, as a part of a response has a cost."""
        self._parts.append(b"".join(self._small))
        self._small.clear()
        self._size = 0

    def within(self, body: bytes) -> list[Buffer]:
        """The parts of a response: `body` is encoded, without topics."""
        self._join()
        # Behind the topics: the operations (v8 to v10), error (v13), tagged fields.
        tail = 4 * (8 <= self._version <= 10) + 2 * (self._version >= 13)
        before, after = self._split(body, tail + self._is_flexible, self._count)
        return [before, *self._parts, after]

    def _split(self, encoded: bytes, tail: int, count: int) -> tuple[bytes, bytes]:
        """A message with an empty array: up to its items, and from there on.

        Args:
            encoded: the message.
            tail: bytes behind the array.
            count: the number of items that will be in it.
        """
        end = len(encoded) - tail
        if self._is_flexible:
            return encoded[: end - 1] + uvarint(count + 1), encoded[end:]
        return encoded[: end - 4] + struct.pack(">i", count), encoded[end:]
