"""The driver of a classic member, with the leader's assignor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import Assignment, PartitionRacks
from kohort.client.config import ConsumerConfig
from kohort.client.group.classic.assignment import AssignmentMade, MakeAssignment
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.membership import handle
from kohort.client.group.driver import MemberDriver
from kohort.client.group.effects import Call
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import Metadata

_LARGE = 100
"""With this many members, the assignor runs in a thread, so that heartbeats go on."""


def classic_driver(
    cluster: Cluster,
    config: ConsumerConfig,
    on_call: Callable[[Call], Awaitable[None]],
    on_change: Callable[[], None],
) -> MemberDriver:
    """The driver of a new member; see `MemberDriver`."""
    member = ClassicMember(config)
    assign = partial(_assign, cluster, config)
    return MemberDriver(
        cluster, member, partial(handle, member), assign, on_call, on_change
    )


async def _assign(
    cluster: Cluster, config: ConsumerConfig, task: MakeAssignment
) -> AssignmentMade:
    # After that time the leader leaves: its poll interval is over.
    await cluster.retrying(
        cluster.deadline(config.max_poll_interval_ms),
        lambda: cluster.add_topics(task.topics),
    )
    metadata = cluster.metadata
    partitions = {t: len(metadata.partitions(t)) for t in task.topics}
    made: Assignment = {}
    if not task.is_skipped:
        made = await _run_assignor(task, metadata)
    return AssignmentMade(made, partitions)


async def _run_assignor(task: MakeAssignment, metadata: Metadata) -> Assignment:
    cluster = {
        topic: [
            PartitionRacks(
                info.partition,
                [
                    node.rack if (node := metadata.nodes.get(replica)) else None
                    for replica in info.replicas
                ],
            )
            for info in metadata.partitions(topic)
        ]
        for topic in task.topics
        if metadata.partitions(topic)
    }
    assignor = ASSIGNORS[task.protocol_name]
    if len(task.subscriptions) < _LARGE:
        return assignor.assign(cluster, task.subscriptions)
    return await asyncio.to_thread(assignor.assign, cluster, task.subscriptions)
