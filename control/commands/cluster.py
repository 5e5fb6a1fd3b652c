"""The command ``kohort cluster``: shows and changes nodes and leaders, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.control.cluster_verbs import ClusterVerbs, NodeVerbs, PartitionVerbs
from kohort.control.commands.of_verbs import add_verbs
from kohort.control.commands.over_http import command_of
from kohort.control.group_verbs import GroupVerbs
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
        from kohort.control.tables import show_json

        show_json(found)
    else:
        from kohort.control.commands.cluster_printing import show_cluster

        show_cluster(found)


add_verbs(cluster, ClusterVerbs)
add_verbs(cluster, NodeVerbs, NODE="2")
add_verbs(cluster, PartitionVerbs, TOPIC="orders", PARTITION="0")
add_verbs(cluster, GroupVerbs, ("move", "move-group"), GROUP="billing")
