"""Which answers make the client hold back: those of brokers that count on it (KIP-219).

A broker that throttles answers at once and reads nothing for `throttle_time_ms`; a
client that sends all the same waits there, and its requests may be late. Brokers
before Kafka 2.0 wait themselves before they answer, which the version tells: there
the time in the answer is over already.
"""

from __future__ import annotations

from collections.abc import Mapping

_SINCE: Mapping[str, int] = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "InitProducerId": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "CreatePartitions": 1,
    "DeleteGroups": 1,
    "IncrementalAlterConfigs": 0,
    "ListPartitionReassignments": 0,
    "OffsetDelete": 0,
    "DescribeTopicPartitions": 0,
}
"""The first version in which the client is the one who waits, by Kafka's name of the
API; as `shouldClientThrottle` of kafka-clients 4.3 has it."""


def holds_back(api_name: str, version: int) -> bool:
    """Whether the client is to wait after an answer of this version."""
    since = _SINCE.get(api_name)
    return since is not None and version >= since
