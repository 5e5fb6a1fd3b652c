"""What there is in a cluster, for people: tables in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

OFFSETS_TOPIC = "__consumer_offsets"
NOBODY = -1
PIPE_WIDTH = 1000
"""Columns of what is no terminal: programs read lines, and nobody sees them wrap."""


def terminal() -> Console:
    """Where tables are printed: what is in them is text, and nothing else."""
    return Console(
        width=None if sys.stdout.isatty() else PIPE_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


def show_cluster(status: dict[str, Any]) -> None:
    """Prints what ``GET /v1/cluster`` gives."""
    console = terminal()
    console.print(f"cluster {status['cluster_id']}\n")
    console.print(_nodes(status["nodes"]))
    partitions = [
        (topic["name"], partition)
        for topic in status["topics"]
        # The coordinators say more about these.
        if topic["name"] != OFFSETS_TOPIC
        for partition in topic["partitions"]
    ]
    if partitions:
        console.print()
        console.print(_partitions(partitions))
    busy = [c for c in status["coordinators"] if c["groups"] or c["state"] != "active"]
    if busy:
        console.print()
        console.print(_coordinators(busy))


def table(*columns: str, numbers: Collection[str] = ()) -> Table:
    """An empty table; columns of numbers are aligned on the right."""
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        found.add_column(
            column.upper(),
            justify="right" if column in numbers else "left",
            overflow="fold",
        )
    return found


def _nodes(nodes: Iterable[dict[str, Any]]) -> Table:
    numbers = ("node", "leads", "groups")
    rows = table("node", "address", "state", "leads", "groups", numbers=numbers)
    for node in nodes:
        host = f"[{node['host']}]" if ":" in node["host"] else node["host"]
        rows.add_row(
            str(node["id"]),
            f"{host}:{node['port']}",
            "running" if node["running"] else "stopped",
            str(node["partitions_led"]),
            str(node["groups"]),
        )
    return rows


def _partitions(partitions: Iterable[tuple[str, dict[str, Any]]]) -> Table:
    numbers = ("partition", "leader", "epoch", "start", "end")
    rows = table(
        "topic", "partition", "leader", "replicas", *numbers[2:], numbers=numbers
    )
    for topic, partition in partitions:
        leader = partition["leader"]
        rows.add_row(
            topic,
            str(partition["partition"]),
            "none" if leader == NOBODY else str(leader),
            ",".join(map(str, partition["replicas"])),
            str(partition["leader_epoch"]),
            str(partition["log_start_offset"]),
            str(partition["log_end_offset"]),
        )
    return rows


def _coordinators(coordinators: Iterable[dict[str, Any]]) -> Table:
    numbers = ("node", "groups")
    rows = table("coordinator", "node", "state", "groups", numbers=numbers)
    for shard in coordinators:
        node = shard["node"]
        rows.add_row(
            f"{OFFSETS_TOPIC}-{shard['partition']}",
            "none" if node == NOBODY else str(node),
            shard["state"],
            str(shard["groups"]),
        )
    return rows
