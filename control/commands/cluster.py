"""The command ``kohort cluster``: shows and changes nodes and leaders, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.control.commands.over_http import NODE, command_of
from kohort.control.terminal import examples, json_option

if TYPE_CHECKING:
    from kohort.control.remote import Remote


@click.group()
@examples("kohort cluster status", "kohort cluster restart 2")
def cluster() -> None:
    """Shows and changes nodes, leaders and coordinators.

    Needs a broker with an HTTP port: kohort serve --nodes 3 --http 9080.
    """


@command_of(cluster)
@json_option
@examples("kohort cluster status")
def status(remote: Remote, *, as_json: bool) -> None:
    """Lists nodes, partitions and coordinators."""
    found = remote.get("v1", "cluster")
    if as_json:
        import json

        click.echo(json.dumps(found, indent=2))
    else:
        from kohort.control.commands.cluster_printing import show_cluster

        show_cluster(found)


@command_of(cluster)
@click.argument("node", type=NODE)
@examples("kohort cluster stop 2")
def stop(remote: Remote, *, node: int) -> None:
    """Stops a node; other nodes take over its partitions.

    Its connections are closed.
    """
    remote.post("v1", "nodes", str(node), "stop")
    click.echo(f"node {node} has stopped")


@command_of(cluster)
@click.argument("node", type=NODE)
@examples("kohort cluster start 2")
def start(remote: Remote, *, node: int) -> None:
    """Starts a stopped node, on the same port as before."""
    remote.post("v1", "nodes", str(node), "start")
    click.echo(f"node {node} is running")


@command_of(cluster)
@click.argument("node", type=NODE)
@examples("kohort cluster restart 2")
def restart(remote: Remote, *, node: int) -> None:
    """Stops and starts a node; its coordinators move away."""
    remote.post("v1", "nodes", str(node), "restart")
    click.echo(f"node {node} has restarted")


@command_of(cluster)
@examples("kohort cluster replace")
def replace(remote: Remote) -> None:
    """Puts another, empty cluster in the place of this one.

    It has the same ports and nodes, another cluster id, and no topics and groups.
    """
    found = remote.post("v1", "cluster", "replace")
    click.echo(f"the cluster is now {found['cluster_id']}, and empty")


@command_of(cluster)
@click.argument("topic")
@click.argument("partition", type=NODE)
@click.argument("node", type=NODE)
@examples("kohort cluster move orders 0 2")
def move(remote: Remote, *, topic: str, partition: int, node: int) -> None:
    """Makes a node the leader of a partition."""
    remote.post("v1", "partitions", topic, str(partition), "move", node=node)
    click.echo(f"node {node} leads {topic}-{partition}")


@command_of(cluster)
@click.argument("group")
@click.argument("node", type=NODE)
@examples("kohort cluster move-group billing 2")
def move_group(remote: Remote, *, group: str, node: int) -> None:
    """Makes a node the coordinator of a group.

    All groups in the same partition of __consumer_offsets move with it.
    """
    remote.post("v1", "groups", group, "move", node=node)
    click.echo(f"node {node} coordinates group {group}")
