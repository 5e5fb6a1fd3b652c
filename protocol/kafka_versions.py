"""The API versions of older brokers of Apache Kafka, as far as kohort has them.

The facts are those of Kafka's message definitions at 2.8.2 (with ZooKeeper), 3.9.1 and
4.0.0. Each table names the APIs that differ from the next one; the last one is
`registry.APIS`, Kafka 4.3. Kafka before 4.0 also serves the oldest versions of many
APIs, which 4.0 has dropped (KIP-896), and kohort does not have.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.protocol.registry import BY_KEY, BY_NAME, Api

LATEST: Final = "4.3"
_DIFFERENCES: Final[tuple[tuple[str, Mapping[str, int | None]], ...]] = (
    (
        "4.0",
        {
            "Produce": 12,
            "Fetch": 17,
            "ListOffsets": 10,
            "OffsetCommit": 9,
            "OffsetFetch": 9,
            "WriteTxnMarkers": 1,
            "DescribeLogDirs": 4,
            "AlterPartitionReassignments": 0,
            "ListTransactions": 1,
            "ListConfigResources": 0,
            "ShareGroupHeartbeat": None,
            "StreamsGroupHeartbeat": None,
        },
    ),
    (
        "3.9",
        {
            "Produce": 11,
            "ListOffsets": 9,
            "Metadata": 12,
            "DescribeGroups": 5,
            "EndTxn": 4,
            "TxnOffsetCommit": 4,
            "UpdateFeatures": 1,
            "DescribeCluster": 1,
            "ConsumerGroupHeartbeat": 0,
            "ConsumerGroupDescribe": 0,
        },
    ),
    (
        "2.8",
        {
            "Produce": 9,
            "Fetch": 12,
            "ListOffsets": 6,
            "Metadata": 11,
            "OffsetCommit": 8,
            "OffsetFetch": 7,
            "FindCoordinator": 3,
            "JoinGroup": 7,
            "LeaveGroup": 4,
            "ListGroups": 4,
            "ApiVersions": 3,
            "InitProducerId": 4,
            "AddPartitionsToTxn": 3,
            "AddOffsetsToTxn": 3,
            "EndTxn": 3,
            "TxnOffsetCommit": 3,
            "DescribeAcls": 2,
            "CreateAcls": 2,
            "DeleteAcls": 2,
            "DescribeLogDirs": 2,
            "CreateDelegationToken": 2,
            "DescribeDelegationToken": 2,
            "DescribeQuorum": None,
            "UpdateFeatures": 0,
            "DescribeCluster": 0,
            "DescribeTransactions": None,
            "ListTransactions": None,
            "ConsumerGroupHeartbeat": None,
            "ConsumerGroupDescribe": None,
            "ListConfigResources": None,
            "DescribeTopicPartitions": None,
        },
    ),
)
"""The newest version of each API, None for an API that is missing; newest first."""
_OLDEST: Final = {("4.0", "JoinGroup"): 2}
"""Oldest versions above kohort's: 4.1 took two of them back."""


@functools.cache
def apis_of(version: str) -> Mapping[int, Api]:
    """The APIs of a broker of this Kafka version, by key.

    Args:
        version: "2.8", "3.9", "4.0", or `LATEST` for all that kohort has.
    """
    if version == LATEST:
        return BY_KEY
    newest: dict[str, int | None] = {}
    for name, differences in _DIFFERENCES:
        newest |= differences
        if name == version:
            break
    found = dict(BY_KEY)
    for name, most in newest.items():
        key = BY_NAME[name].key
        if most is None:
            del found[key]
        else:
            found[key] = copy.copy(BY_NAME[name])
            found[key].newest = most
    for (where, name), least in _OLDEST.items():
        if where == version:
            api = found[BY_NAME[name].key] = copy.copy(BY_NAME[name])
            api.oldest = api.advertised = least
    return MappingProxyType(found)
