"""Cluster metadata: nodes, topics, and the leaders of partitions.

These are values; `kohort.client.network.cluster` keeps the latest and fetches the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kohort.client.network.connection import broker_name
from kohort.client.network.equal_responses import KEPT
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.slotted import replace, slotted

NO_NODE = -1
"""Node id for no leader or no controller."""


@slotted
class Node:
    """A broker of the cluster, and its address."""

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
    """`NO_NODE` if the partition has no leader."""
    leader_epoch: int
    """-1 if the broker does not send it."""
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    error_code: int


@slotted
class TopicInfo:
    """A topic, or its error."""

    name: str
    topic_id: bytes
    """16 bytes; zeros if the broker does not send it."""
    is_internal: bool
    partitions: Sequence[PartitionInfo]
    """By number, from 0, without gaps."""
    error_code: int


@slotted
class Metadata:
    """A Metadata response, merged with still valid parts of earlier ones."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicInfo]
    """The requested topics, including unknown ones."""
    fetched_at: float
    """On the client's clock, in seconds."""

    def partitions(self, topic: str) -> Sequence[PartitionInfo]:
        """The partitions of a topic; empty if the topic is unknown."""
        found = self.topics.get(topic)
        return found.partitions if found is not None else ()

    def leader(self, topic: str, partition: int) -> int:
        """The node id of a partition's leader, or `NO_NODE`."""
        partitions = self.partitions(topic)
        if 0 <= partition < len(partitions):
            return partitions[partition].leader_id
        return NO_NODE

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The highest known leader epoch of a partition; -1 if unknown."""
        partitions = self.partitions(topic)
        return partitions[partition].leader_epoch if partition < len(partitions) else -1


NOTHING = Metadata(None, NO_NODE, {}, {}, float("-inf"))
"""Metadata before the first response."""


def read(response: Any, now: float, previous: Metadata) -> Metadata:
    """The metadata in a MetadataResponse.

    The leader with the higher epoch counts, even if the other one came later: brokers
    learn of new leaders one after the other (KIP-320).
    """
    nodes = {
        b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers
    }
    topics = {}
    for topic in _topics(response):
        known = previous.topics.get(topic.name, topic)
        topics[topic.name] = topic if known is topic else _newest(topic, known)
    return Metadata(response.cluster_id, response.controller_id, nodes, topics, now)


_latest: deque[tuple[Any, Sequence[TopicInfo]]] = deque(maxlen=KEPT)
"""The latest responses, and their topics; see `equal_responses`."""


def _topics(response: Any) -> Sequence[TopicInfo]:
    for known, topics in tuple(_latest):
        if known is response:
            return topics
    topics = [_topic(each) for each in response.topics]
    _latest.appendleft((response, topics))
    return topics


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
    """Returns whether a refresh soon may have more."""
    return topic.error_code in {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    } or any(p.leader_id == NO_NODE for p in topic.partitions)


@slotted
class NewLeader:
    """A new leader, from the response of the old one (KIP-951)."""

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int


def with_leaders(
    metadata: Metadata, leaders: Iterable[NewLeader], nodes: Iterable[Node]
) -> Metadata:
    """The metadata with new leaders (KIP-951).

    A leader is ignored if its address is unknown, or if its epoch is not newer.
    """
    known = {**metadata.nodes, **{node.node_id: node for node in nodes}}
    topics = dict(metadata.topics)
    is_news = False
    for new in leaders:
        topic = topics.get(new.topic)
        if topic is None or not 0 <= new.partition < len(topic.partitions):
            continue
        partition = topic.partitions[new.partition]
        if new.leader_id not in known or new.leader_epoch <= partition.leader_epoch:
            continue
        rows = list(topic.partitions)
        rows[new.partition] = replace(
            partition, leader_id=new.leader_id, leader_epoch=new.leader_epoch
        )
        topics[new.topic] = replace(topic, partitions=rows)
        is_news = True
    return replace(metadata, nodes=known, topics=topics) if is_news else metadata
