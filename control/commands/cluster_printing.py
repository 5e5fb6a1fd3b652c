"""Tables of nodes, partitions and coordinators, for ``kohort cluster status``."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from kohort.control.tables import show, table
from kohort.control.terminal import host_port

OFFSETS_TOPIC = "__consumer_offsets"
NO_NODE = -1


def show_cluster(status: dict[str, Any]) -> None:
    """Prints the response of ``GET /v1/cluster``."""
    numbers = ("partition", "leader", "epoch", "start", "end")
    parts: list[RenderableType] = [
        f"cluster {status['cluster_id']}\n",
        table(
            ("node", "address", "state", "leads", "groups"),
            [
                (
                    node["id"],
                    host_port(node["host"], node["port"]),
                    "running" if node["running"] else "stopped",
                    node["partitions_led"],
                    node["groups"],
                )
                for node in status["nodes"]
            ],
            ("node", "leads", "groups"),
        ),
    ]
    partitions = [
        (
            topic["name"],
            partition["partition"],
            _node(partition["leader"]),
            ",".join(map(str, partition["replicas"])),
            partition["leader_epoch"],
            partition["log_start_offset"],
            partition["log_end_offset"],
        )
        for topic in status["topics"]
        # These are in the table of coordinators.
        if topic["name"] != OFFSETS_TOPIC
        for partition in topic["partitions"]
    ]
    if partitions:
        columns = ("topic", *numbers[:2], "replicas", *numbers[2:])
        parts += ["", table(columns, partitions, numbers)]
    busy = [
        (
            f"{OFFSETS_TOPIC}-{shard['partition']}",
            _node(shard["node"]),
            shard["state"],
            shard["groups"],
        )
        for shard in status["coordinators"]
        if shard["groups"] or shard["state"] != "active"
    ]
    if busy:
        heads = ("coordinator", "node", "state", "groups")
        parts += ["", table(heads, busy, ("node", "groups"))]
    show(*parts)


def _node(node_id: int) -> str:
    return "none" if node_id == NO_NODE else str(node_id)
