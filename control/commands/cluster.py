"""The command ``kohort cluster``: nodes and leaders, over a broker's HTTP port."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kohort.control.terminal import http_option, json_option, token_option

if TYPE_CHECKING:
    from kohort.control.remote import Remote

NODE = click.IntRange(min=0)
"""The type of node ids, and of a partition's index."""


@click.group()
def cluster() -> None:
    """Shows and changes the cluster of a broker with an HTTP port."""


def _of_cluster(command: Callable[..., None]) -> click.Command:
    """A command of `cluster`, with the broker that its options name."""

    @http_option
    @token_option
    @functools.wraps(command)
    def run(http: str, http_token: str | None, **arguments: Any) -> None:
        # The HTTP client is slow to load.
        from kohort.control.remote import reached

        with reached(http, http_token) as remote:
            command(remote, **arguments)

    return cluster.command(name=command.__name__.replace("_", "-"))(run)


@_of_cluster
@json_option
def status(remote: Remote, *, as_json: bool) -> None:
    """Lists nodes, partitions and coordinators."""
    found = remote.get("v1", "cluster")
    if as_json:
        import json

        click.echo(json.dumps(found, indent=2))
    else:
        from kohort.control.commands.cluster_printing import show_cluster

        show_cluster(found)


@_of_cluster
@click.argument("node", type=NODE)
def stop(remote: Remote, *, node: int) -> None:
    """Stops a node: its connections end, other nodes lead its partitions."""
    remote.post("v1", "nodes", str(node), "stop")
    click.echo(f"node {node} has stopped")


@_of_cluster
@click.argument("node", type=NODE)
def start(remote: Remote, *, node: int) -> None:
    """Starts a node that was stopped, on the port that it had."""
    remote.post("v1", "nodes", str(node), "start")
    click.echo(f"node {node} is running")


@_of_cluster
@click.argument("topic")
@click.argument("partition", type=NODE)
@click.argument("node", type=NODE)
def move(remote: Remote, *, topic: str, partition: int, node: int) -> None:
    """Makes a node the leader of a partition."""
    remote.post("v1", "partitions", topic, str(partition), "move", node=node)
    click.echo(f"node {node} leads {topic}-{partition}")


@_of_cluster
@click.argument("group")
@click.argument("node", type=NODE)
def move_group(remote: Remote, *, group: str, node: int) -> None:
    """Makes a node the coordinator of a group.

    All groups in the same partition of __consumer_offsets go with it.
    """
    remote.post("v1", "groups", group, "move", node=node)
    click.echo(f"node {node} coordinates group {group}")
