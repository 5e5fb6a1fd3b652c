"""What a client knows of a cluster: its nodes, and who leads which partition.

Values; `kohort.client.cluster` keeps the newest one and fetches the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.connection import broker_name
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import ZERO_UUID
from kohort.protocol.slotted import replace, slotted

NOBODY = -1
"""The node that leads, or controls, where none does."""


@slotted
class Node:
    """A broker of the cluster, and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return broker_name(self.host, self.port, self.node_id)


@slotted
class PartitionInfo:
    """A partition of a topic."""

    topic: str
    partition: int
    leader_id: int
    """`NOBODY` where none leads it."""
    leader_epoch: int
    """-1 where the broker does not tell."""
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    error_code: int


@slotted
class TopicInfo:
    """A topic, or why there is none of that name."""

    name: str
    topic_id: bytes
    """16 bytes; zeros where the broker does not tell."""
    is_internal: bool
    partitions: Sequence[PartitionInfo]
    """By number, from 0 on, without a gap."""
    error_code: int


@slotted
class Metadata:
    """One answer of a broker, and what is still known from those before."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicInfo]
    """Those that were asked for, also those that there are not."""
    fetched_at: float
    """On the client's clock, in seconds."""

    def partitions(self, topic: str) -> Sequence[PartitionInfo]:
        """The partitions of a topic; none where the topic is not known."""
        found = self.topics.get(topic)
        return found.partitions if found is not None else ()

    def leader(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition, or `NOBODY`."""
        partitions = self.partitions(topic)
        if 0 <= partition < len(partitions):
            return partitions[partition].leader_id
        return NOBODY


NOTHING = Metadata(None, NOBODY, {}, {}, float("-inf"))
"""What is known before anybody has been asked."""


def read(response: Any, now: float, previous: Metadata) -> Metadata:
    """The metadata in a MetadataResponse.

    Of two leaders of a partition the one of the higher epoch counts, also if the
    other was heard of later: brokers learn of leaders one after the other (KIP-320).
    """
    nodes = {
        b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers
    }
    topics = {}
    for each in response.topics:
        topic = _topic(each)
        known = previous.topics.get(topic.name)
        topics[topic.name] = topic if known is None else _newest(topic, known)
    return Metadata(response.cluster_id, response.controller_id, nodes, topics, now)


def _topic(topic: Any) -> TopicInfo:
    partitions = [
        PartitionInfo(
            topic.name,
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            p.replica_nodes,
            p.isr_nodes,
            p.offline_replicas,
            p.error_code,
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    ]
    return TopicInfo(
        topic.name, topic.topic_id, topic.is_internal, partitions, topic.error_code
    )


def _newest(topic: TopicInfo, known: TopicInfo) -> TopicInfo:
    if topic.topic_id == ZERO_UUID or topic.topic_id != known.topic_id:
        return topic  # it may have been deleted and made again
    partitions = [
        known.partitions[number]
        if number < len(known.partitions)
        and known.partitions[number].leader_epoch > partition.leader_epoch >= 0
        else partition
        for number, partition in enumerate(topic.partitions)
    ]
    return replace(topic, partitions=partitions)


def lacks_a_leader(topic: TopicInfo) -> bool:
    """Whether asking again soon may tell more."""
    return topic.error_code in {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    } or any(p.leader_id == NOBODY for p in topic.partitions)
