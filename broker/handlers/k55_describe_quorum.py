"""DescribeQuorum: the controller is the leader and the only voter of the quorum."""

from __future__ import annotations

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.protocol.apis.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kohort.protocol.errors import ErrorCode

_METADATA_TOPIC = "__cluster_metadata"
_LEADER_EPOCH = 1
_ROW_COST = 2
"""Cost of one row, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Describes the metadata partition, which has the only quorum."""
    message: DescribeQuorumRequest = request.message
    cluster = request.node.cluster
    asked = [
        (topic.topic_name, [row.partition_index for row in topic.partitions[:2]])
        for topic in message.topics[:2]
    ]
    if asked == [(_METADATA_TOPIC, [0])]:
        topics = [TopicData(_METADATA_TOPIC, [_quorum(cluster)])]
        controller = cluster.nodes[cluster.controller_id]
        listener = Listener("CONTROLLER", controller.host, controller.port)
        nodes = [Node(controller.id, [listener])]
        request.finish(DescribeQuorumResponse(0, "", topics, nodes))
        return
    # As in Kafka, a request for more than that partition gets nothing.
    why = f"only {_METADATA_TOPIC}-0 has a quorum"
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    pace, topics = Pace(), []
    for topic in message.topics:
        rows = yield from map_in_pieces(
            lambda row: PartitionData(row.partition_index, error, why),
            topic.partitions,
            pace,
            _ROW_COST,
        )
        topics.append(TopicData(topic.topic_name, rows))
        if pace.spend(_ROW_COST):
            yield
    yield from request.finish_in_pieces(DescribeQuorumResponse(0, "", topics), pace)


def _quorum(cluster: Cluster) -> PartitionData:
    """The state of the quorum: the other nodes are observers."""
    leader, end, now_ms = cluster.controller_id, cluster.changes, cluster.now_ms()
    states = [
        ReplicaState(
            node_id,
            log_end_offset=end,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for node_id in cluster.running
    ]
    return PartitionData(
        partition_index=0,
        leader_id=leader,
        leader_epoch=_LEADER_EPOCH,
        high_watermark=end,
        current_voters=[state for state in states if state.replica_id == leader],
        observers=[state for state in states if state.replica_id != leader],
    )
