"""The verbs on a cluster, its nodes and its partitions, declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypedDict

from kohort.control.verbs import Name, NodeId, Verbs, verb

if TYPE_CHECKING:
    from kohort.broker.server import Broker


class ClusterReplaced(TypedDict):
    """The cluster that has taken the place of another one."""

    cluster_id: str


class NodeState(TypedDict):
    """State of a node.

    Attributes:
        node: the id of a node.
    """

    node: int
    running: bool


class PartitionMoved(TypedDict):
    """The new leader of a partition.

    Attributes:
        topic: the name of a topic.
        partition: the index of a partition.
        node: the id of a node.
    """

    topic: str
    partition: int
    node: int


class ClusterVerbs(Verbs):
    """Verbs on the cluster."""

    what = "cluster"
    path = "cluster"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @verb("the cluster is now {cluster_id}, and empty")
    async def replace(self) -> ClusterReplaced:
        """Puts another, empty cluster in the place of this one.

        It has the same ports and nodes. Clients find another cluster id, and none of
        their topics, groups and producer ids. Faults stay.
        """
        await self._broker.replace()
        return {"cluster_id": self._broker.cluster.id}


class NodeVerbs(Verbs):
    """Verbs on a node."""

    what = "node"
    path = "nodes/{id}"
    names: ClassVar = {"id": NodeId}

    def __init__(self, broker: Broker, node_id: int) -> None:
        self._broker = broker
        self._node_id = node_id

    @property
    def exists(self) -> bool:
        """True if the cluster has the node."""
        return self._node_id in self._broker.cluster.nodes

    @verb("node {node} has stopped")
    async def stop(self) -> NodeState:
        """Stops a node; other nodes take over its partitions.

        Its connections are closed. Answers when it has stopped.
        """
        await self._broker.stop_node(self._node_id)
        return {"node": self._node_id, "running": False}

    @verb("node {node} is running")
    async def start(self) -> NodeState:
        """Starts a node that was stopped, on the port that it had.

        Answers when clients can connect to it.
        """
        await self._broker.start_node(self._node_id)
        return {"node": self._node_id, "running": True}

    @verb("node {node} has restarted")
    async def restart(self) -> NodeState:
        """Stops a node and starts it again, on the port that it had.

        Answers when clients can connect to it. Its coordinators move to other nodes, if
        there are any.
        """
        await self._broker.restart_node(self._node_id)
        return {"node": self._node_id, "running": True}


class PartitionVerbs(Verbs):
    """Verbs on a partition."""

    what = "partition"
    path = "partitions/{topic}/{index}"
    names: ClassVar = {"topic": Name, "index": NodeId}

    def __init__(self, broker: Broker, topic: str, index: int) -> None:
        self._broker = broker
        self._topic = topic
        self._index = index

    @property
    def exists(self) -> bool:
        """True if the topic has the partition."""
        topic = self._broker.cluster.topics.by_name.get(self._topic)
        return topic is not None and self._index < len(topic.partitions)

    @verb("node {node} leads {topic}-{partition}")
    def move(self, node: NodeId) -> PartitionMoved:
        """Makes a node the leader of a partition.

        Args:
            node: the id of a node.
        """
        self._broker.move_partition(self._topic, self._index, node)
        return {"topic": self._topic, "partition": self._index, "node": node}
