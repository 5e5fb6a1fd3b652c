"""The cluster over HTTP: its state, stopping and starting nodes, moving leaders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypedDict, cast

from aiohttp import web
from msgspec import Meta

from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.cluster.status import status
from kohort.broker.log.store import StorageError
from kohort.broker.server import Broker
from kohort.control.http.operations import Fields, NodeId, Operation, Text, in_turns

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


class ToNode(Fields):
    """The node to move to."""

    node: NodeId


class NodeState(TypedDict):
    """State of a node."""

    node: NodeId
    running: bool


class PartitionMoved(TypedDict):
    """The new leader of a partition."""

    topic: TopicName
    partition: Partition
    node: NodeId


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


class ClusterReplaced(TypedDict):
    """The cluster that has taken the place of another one."""

    cluster_id: str


def operations(broker: Broker) -> list[Operation]:
    """The operations on a broker's cluster."""
    do = _Handlers(broker)
    node, partition = "/v1/nodes/{id}", "/v1/partitions/{topic}/{index}"
    refuses = (404, 409)
    return [
        Operation("GET", "/v1/cluster", do.show_cluster),
        Operation("POST", "/v1/cluster/replace", do.replace_cluster, (409,)),
        Operation("POST", f"{node}/stop", do.stop_node, refuses),
        Operation("POST", f"{node}/start", do.start_node, refuses),
        Operation("POST", f"{node}/restart", do.restart_node, refuses),
        Operation("POST", f"{partition}/move", do.move_partition, refuses),
    ]


class _Handlers:
    """The handlers of the operations."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def show_cluster(self) -> ClusterState:
        """Shows nodes, topics and coordinators."""
        return cast(ClusterState, await in_turns(status(self._broker.cluster)))

    async def replace_cluster(self) -> ClusterReplaced:
        """Puts another, empty cluster in the place of this one, on the same ports.

        Clients find another cluster id, and none of their topics, groups and producer
        ids. Faults stay.
        """
        with refusals(is_there=True):
            await self._broker.replace()
        return {"cluster_id": self._broker.cluster.id}

    async def stop_node(self, path: NodePath) -> NodeState:
        """Stops a node: its connections end, other nodes lead its partitions.

        Answers when it has stopped.
        """
        with refusals(is_there=path.id in self._broker.cluster.nodes):
            await self._broker.stop_node(path.id)
        return {"node": path.id, "running": False}

    async def start_node(self, path: NodePath) -> NodeState:
        """Starts a node that was stopped, on the port that it had.

        Answers when clients can connect to it.
        """
        with refusals(is_there=path.id in self._broker.cluster.nodes):
            await self._broker.start_node(path.id)
        return {"node": path.id, "running": True}

    async def restart_node(self, path: NodePath) -> NodeState:
        """Stops a node and starts it again, on the port that it had.

        Answers when clients can connect to it. Its coordinators move to other nodes, if
        there are any.
        """
        with refusals(is_there=path.id in self._broker.cluster.nodes):
            await self._broker.restart_node(path.id)
        return {"node": path.id, "running": True}

    async def move_partition(self, path: PartitionPath, body: ToNode) -> PartitionMoved:
        """Makes a node the leader of a partition."""
        topic, index = path.topic, path.index
        found = self._broker.cluster.topics.by_name.get(topic)
        with refusals(is_there=found is not None and index < len(found.partitions)):
            self._broker.move_partition(topic, index, body.node)
        return {"topic": topic, "partition": index, "node": body.node}


@contextmanager
def refusals(*, is_there: bool) -> Iterator[None]:
    """Answers refusals of the cluster: 404 for an unknown resource, else 409."""
    try:
        yield
    except (OSError, StorageError) as error:
        # The port is taken, or the data directory has no room.
        raise web.HTTPConflict(text=str(error)) from None
    except ClusterError as error:
        kind = web.HTTPConflict if is_there else web.HTTPNotFound
        raise kind(text=str(error)) from None
