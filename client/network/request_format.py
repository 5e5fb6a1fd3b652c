"""Encoding of requests and decoding of responses, for each API and version.

A format also tells whether the client waits after a throttled response (KIP-219). A
throttling broker responds immediately and reads nothing for `throttle_time_ms`, so a
request sent in that time may be late. Brokers before Kafka 2.0 wait before they
respond: then the throttle time has already passed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kohort.client.network.equal_responses import Decode, EqualResponses
from kohort.protocol.registry import BY_NAME, Api

_CLIENT_WAITS_SINCE: Mapping[str, int] = {
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
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "DeleteGroups": 1,
    "ElectLeaders": 0,
    "IncrementalAlterConfigs": 0,
    "AlterPartitionReassignments": 0,
    "ListPartitionReassignments": 0,
    "OffsetDelete": 0,
    "DescribeUserScramCredentials": 0,
    "AlterUserScramCredentials": 0,
    "DescribeTopicPartitions": 0,
    "StreamsGroupHeartbeat": 0,
}
"""By API, the first version in which the client waits, as in `shouldClientThrottle` of
kafka-clients 4.3."""

_EQUAL = {"ApiVersions", "Heartbeat", "Metadata"}
"""APIs whose responses are mostly equal to earlier ones."""


def holds_back(api_name: str, version: int) -> bool:
    """Returns whether the client waits after a throttled response of this version."""
    since = _CLIENT_WAITS_SINCE.get(api_name)
    return since is not None and version >= since


class RequestFormat:
    """One version of an API.

    Attributes:
        is_repeated: whether clients often send the same request again.
    """

    __slots__ = (
        "api",
        "decode",
        "encode_into",
        "holds_back",
        "is_flexible",
        "is_repeated",
        "is_tagged",
        "version",
    )

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        self.encode_into = api.request(version).encode_into
        self.decode: Decode = api.response(version).decode
        if api.name in _EQUAL:
            self.decode = EqualResponses(self.decode).decode
        self.is_repeated = api.name == "Heartbeat"
        self.is_flexible = api.is_flexible(version)
        self.is_tagged = api.response_header_version(version) >= 1
        self.holds_back = holds_back(api.name, version)


@functools.cache
def request_format(name: str, version: int) -> RequestFormat:
    """The format of a version, by Kafka's name of the API."""
    return RequestFormat(BY_NAME[name], version)
