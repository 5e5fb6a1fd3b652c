"""Requests for committed offsets, for consumers and admin clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.errors import KohortError, error_of
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch with topic names."""
_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch with several groups (KIP-709)."""

Offsets = dict[TopicPartition, OffsetAndMetadata]


def commit_rows(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[OffsetCommitRequestTopic]:
    """The rows of an OffsetCommit request."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), row in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition, row.offset, row.leader_epoch, row.metadata
            )
        )
    return [OffsetCommitRequestTopic(t, partitions=rows) for t, rows in topics.items()]


async def fetch_offsets(
    cluster: Cluster,
    node_id: int,
    wanted: Mapping[str, Mapping[str, Sequence[int]] | None],
    *,
    require_stable: bool,
    lowest: int = 2,
    lane: str = "",
    identity: tuple[str, int] | None = None,
) -> dict[str, Offsets | KohortError]:
    """Fetches committed offsets of groups from their coordinator.

    Args:
        cluster: the cluster with the groups.
        node_id: the coordinator.
        wanted: by group, the partitions by topic; None for all of a group.
        require_stable: whether to wait for transactions to end (KIP-447).
        lowest: the lowest version to use. Versions before 2 cannot fetch all
            partitions, and have no error for a group.
        lane: see `Cluster.call`.
        identity: the member's id and epoch, checked by the coordinator (KIP-848).

    Returns:
        By group, the offsets of partitions that have one, or an error.
    """
    api = "OffsetFetch"
    connection = await cluster.connection(node_id, lane)
    version = connection.version(api, (lowest, BY_NAME))

    async def send(request: OffsetFetchRequest) -> Any:
        return await cluster.call(
            node_id, api, request, versions=(version, version), lane=lane
        )

    answers: list[tuple[str, Any]] = []
    if version >= _SEVERAL_GROUPS:
        member_id, member_epoch = identity or (None, -1)
        groups = [
            OffsetFetchRequestGroup(
                group,
                member_id,
                member_epoch,
                None
                if topics is None
                else [
                    OffsetFetchRequestTopics(topic, partition_indexes=numbers)
                    for topic, numbers in topics.items()
                ],
            )
            for group, topics in wanted.items()
        ]
        request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
        response = await send(request)
        answers += [(row.group_id, row) for row in response.groups]
    else:
        for group, topics in wanted.items():
            named = None
            if topics is not None:
                named = [OffsetFetchRequestTopic(*each) for each in topics.items()]
            request = OffsetFetchRequest(group, named, (), require_stable)
            answers.append((group, await send(request)))
    broker = cluster.name_of(node_id)
    return {group: _read(answer, broker, group) for group, answer in answers}


def _read(answer: Any, broker: str, group: str) -> Offsets | KohortError:
    api = "OffsetFetch"
    if answer.error_code:
        return error_of(answer.error_code, api=api, broker=broker, group=group)
    found: Offsets = {}
    for topic in answer.topics:
        for row in topic.partitions:
            place = TopicPartition(topic.name, row.partition_index)
            if row.error_code:
                error = error_of(row.error_code, api=api, broker=broker, group=group)
                error.topic, error.partition = place
                return error
            if row.committed_offset >= 0:
                found[place] = OffsetAndMetadata(
                    row.committed_offset, row.metadata or "", row.committed_leader_epoch
                )
    return found
