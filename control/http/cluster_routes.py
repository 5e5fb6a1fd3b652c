"""The cluster over HTTP: its state, stopping and starting nodes, moving leaders."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, cast

from msgspec import Meta

from kohort.broker.cluster.status import status
from kohort.broker.server import Broker
from kohort.control.cluster_verbs import ClusterVerbs, NodeVerbs, PartitionVerbs
from kohort.control.http.operations import (
    Fields,
    NodeId,
    Nothing,
    Operation,
    Text,
    in_turns,
)
from kohort.control.http.verb_routes import verb_operations

TopicName = Annotated[Text, Meta(description="The name of a topic.")]
Partition = Annotated[
    int, Meta(ge=0, le=2**31 - 1, description="The index of a partition.")
]
Leader = Annotated[int, Meta(description="The id of a node; -1 for none.")]


class NodePath(Fields):
    """The path of a node."""

    id: NodeId


class PartitionPath(Fields):
    """The path of a partition."""

    topic: TopicName
    index: Partition


class ClusterNode(TypedDict):
    """A node of the cluster.

    Attributes:
        partitions_led: partitions that it leads.
        groups: groups that it coordinates.
    """

    id: NodeId
    host: str
    port: int
    running: bool
    partitions_led: int
    groups: int


class TopicPartition(TypedDict):
    """A partition of a topic."""

    partition: Partition
    replicas: list[int]
    leader: Leader
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int


class Topic(TypedDict):
    """A topic."""

    name: TopicName
    partitions: list[TopicPartition]


class Coordinator(TypedDict):
    """A partition of __consumer_offsets, and the coordinator of its groups."""

    partition: Partition
    node: Leader
    state: Literal["active", "loading", "unloaded", "failed"]
    groups: int


class ClusterState(TypedDict):
    """Nodes, topics with their partitions, and coordinators."""

    cluster_id: str
    nodes: list[ClusterNode]
    topics: list[Topic]
    coordinators: list[Coordinator]


def operations(broker: Broker) -> list[Operation]:
    """The operations on a broker's cluster."""

    async def show_cluster() -> ClusterState:
        """Shows nodes, topics and coordinators."""
        return cast(ClusterState, await in_turns(status(broker.cluster)))

    return [
        Operation("GET", "/v1/cluster", show_cluster),
        *verb_operations(ClusterVerbs, Nothing, lambda _: ClusterVerbs(broker)),
        *verb_operations(NodeVerbs, NodePath, lambda path: NodeVerbs(broker, path.id)),
        *verb_operations(
            PartitionVerbs,
            PartitionPath,
            lambda path: PartitionVerbs(broker, path.topic, path.index),
        ),
    ]
