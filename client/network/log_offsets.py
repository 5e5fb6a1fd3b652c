"""ListOffsets: offsets by timestamp, for consumers and admin clients."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.client.errors import KohortError, error_of
from kohort.client.network.api_versions import Versions
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import OffsetAndTimestamp, TopicPartition
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_CONSUMER = -1
"""Replica id of a consumer."""

Found = dict[TopicPartition, OffsetAndTimestamp | KohortError]


async def list_offsets(
    cluster: Cluster,
    node_id: int,
    times: Mapping[TopicPartition, int],
    isolation_level: str,
    versions: Versions,
) -> Found:
    """Asks a leader for the first offsets at or after some times.

    Does not retry.

    Args:
        cluster: the cluster with the partitions.
        node_id: the leader.
        times: milliseconds, or the constants of `kohort.client.offsets`.
        isolation_level: as in ``ConsumerConfig``.
        versions: (lowest, highest) of ListOffsets to use.

    Raises:
        KohortError: no response.
    """
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, number), timestamp in times.items():
        epoch = cluster.metadata.leader_epoch(topic, number)
        row = ListOffsetsPartition(number, epoch, timestamp)
        topics.setdefault(topic, []).append(row)
    request = ListOffsetsRequest(
        _CONSUMER,
        int(isolation_level == "read_committed"),
        [ListOffsetsTopic(topic, rows) for topic, rows in topics.items()],
        cluster.config.request_timeout_ms,
    )
    response = await cluster.call(node_id, "ListOffsets", request, versions=versions)
    broker = cluster.name_of(node_id)
    found: Found = {}
    for topic in response.topics:
        for row in topic.partitions:
            place = TopicPartition(topic.name, row.partition_index)
            found[place] = OffsetAndTimestamp(
                row.offset, row.timestamp, row.leader_epoch
            )
            if row.error_code:
                error = error_of(row.error_code, api="ListOffsets", broker=broker)
                error.topic, error.partition = place
                found[place] = error
    return found
