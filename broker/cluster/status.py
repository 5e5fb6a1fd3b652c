"""The state of a cluster as JSON: nodes, topics, coordinators."""

from __future__ import annotations

from kohort.broker.cluster.cluster import Cluster


def status(cluster: Cluster) -> dict[str, object]:
    """Returns the nodes, the topics and the coordinators of a cluster."""
    topics = cluster.topics.by_name.values()
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
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition": index,
                        "replicas": list(topic.replicas[index]),
                        "leader": topic.leaders[index],
                        "leader_epoch": partition.leader_epoch,
                        "log_start_offset": partition.log_start_offset,
                        "log_end_offset": partition.log_end_offset,
                    }
                    for index, partition in enumerate(topic.partitions)
                ],
            }
            for topic in topics
        ],
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
