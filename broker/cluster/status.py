"""The state of a cluster as JSON: nodes, topics, coordinators."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.long_work import Pace
from kohort.broker.topics.topic import Topic

_PARTITION_COST: Final = 1
"""Cost of one partition, as `Pace` counts."""


def status(cluster: Cluster) -> Generator[None, None, dict[str, object]]:
    """Returns the nodes, the topics and the coordinators, a piece at a time."""
    topics = [*cluster.topics.by_name.values()]
    rows, pace = [], Pace()
    for topic in topics:
        partitions = yield from _partitions(topic, pace)
        rows.append({"name": topic.name, "partitions": partitions})
    led = [leader for topic in topics for leader in topic.leaders]
    return {
        "cluster_id": cluster.id,
        "nodes": [
            {
                "id": node.id,
                "host": node.host,
                "port": node.port,
                "running": node.is_running,
                "partitions_led": led.count(node.id),
                "groups": sum(s.group_count for s in cluster.shards.led_by(node.id)),
            }
            for node in cluster.nodes.values()
        ],
        "topics": rows,
        "coordinators": [
            {
                "partition": shard.index,
                "node": shard.node_id,
                "state": shard.state,
                "groups": shard.group_count,
            }
            for shard in cluster.shards
        ],
    }


def _partitions(
    topic: Topic, pace: Pace
) -> Generator[None, None, list[dict[str, object]]]:
    rows: list[dict[str, object]] = []
    for index, partition in enumerate(topic.partitions):
        rows.append(
            {
                "partition": index,
                "replicas": list(topic.replicas[index]),
                "leader": topic.leaders[index],
                "leader_epoch": partition.leader_epoch,
                "log_start_offset": partition.log_start_offset,
                "log_end_offset": partition.log_end_offset,
            }
        )
        if pace.spend(_PARTITION_COST):
            yield
    return rows
