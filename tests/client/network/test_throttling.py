"""Throttling brokers: nothing is sent to them meanwhile (KIP-219)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.fake_broker import Asked, FakeBroker, knows

from kohort.client.config import CommonConfig
from kohort.client.errors import ClosedError
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import Connection
from kohort.client.network.request_format import holds_back
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.registry import APIS

HEARTBEAT = HeartbeatRequest("g", 1, "m")
AN_HOUR = 3_600_000

# (oldest version, a letter for each version from there on): T if `shouldClientThrottle`
# of the response is true in kafka-clients 4.3.
JAVA = {
    "Produce": (3, "---TTTTTTTT"),
    "Fetch": (4, "----TTTTTTTTTTT"),
    "ListOffsets": (1, "--TTTTTTTTT"),
    "Metadata": (0, "------TTTTTTTT"),
    "OffsetCommit": (2, "--TTTTTTT"),
    "OffsetFetch": (1, "---TTTTTTT"),
    "FindCoordinator": (0, "--TTTTT"),
    "JoinGroup": (0, "---TTTTTTT"),
    "Heartbeat": (0, "--TTT"),
    "LeaveGroup": (0, "--TTTT"),
    "SyncGroup": (0, "--TTTT"),
    "DescribeGroups": (0, "--TTTTT"),
    "ListGroups": (0, "--TTTT"),
    "SaslHandshake": (0, "--"),
    "ApiVersions": (0, "--TTT"),
    "CreateTopics": (2, "-TTTTT"),
    "DeleteTopics": (1, "-TTTTT"),
    "DeleteRecords": (0, "-TT"),
    "InitProducerId": (0, "-TTTTTT"),
    "OffsetForLeaderEpoch": (2, "---"),
    "DescribeAcls": (1, "TTT"),
    "CreateAcls": (1, "TTT"),
    "DeleteAcls": (1, "TTT"),
    "CreateDelegationToken": (1, "TTT"),
    "RenewDelegationToken": (1, "TT"),
    "ExpireDelegationToken": (1, "TT"),
    "DescribeDelegationToken": (1, "TTT"),
    "DescribeConfigs": (1, "-TTT"),
    "AlterConfigs": (0, "-TT"),
    "SaslAuthenticate": (0, "---"),
    "CreatePartitions": (0, "-TTT"),
    "DeleteGroups": (0, "-TT"),
    "AddPartitionsToTxn": (0, "-TTTTT"),
    "AddOffsetsToTxn": (0, "-TTTT"),
    "EndTxn": (0, "-TTTTT"),
    "WriteTxnMarkers": (1, "--"),
    "TxnOffsetCommit": (0, "-TTTTT"),
    "IncrementalAlterConfigs": (0, "TT"),
    "ListPartitionReassignments": (0, "T"),
    "OffsetDelete": (0, "T"),
    "AlterReplicaLogDirs": (1, "TT"),
    "DescribeLogDirs": (1, "TTTTT"),
    "ElectLeaders": (0, "TTT"),
    "AlterPartitionReassignments": (0, "TT"),
    "DescribeClientQuotas": (0, "--"),
    "AlterClientQuotas": (0, "--"),
    "DescribeUserScramCredentials": (0, "T"),
    "AlterUserScramCredentials": (0, "T"),
    "DescribeQuorum": (0, "---"),
    "UpdateFeatures": (0, "---"),
    "DescribeProducers": (0, "-"),
    "DescribeTransactions": (0, "-"),
    "ListTransactions": (0, "---"),
    "ListConfigResources": (0, "--"),
    "DescribeCluster": (0, "---"),
    "DescribeTopicPartitions": (0, "T"),
    "ConsumerGroupHeartbeat": (0, "--"),
    "ConsumerGroupDescribe": (0, "--"),
    "ShareGroupHeartbeat": (1, "-"),
    "StreamsGroupHeartbeat": (0, "T"),
}


@pytest.mark.parametrize("api", APIS, ids=lambda api: str(api.name))
def test_the_client_holds_back_where_kafkas_own_does(api: Any) -> None:
    """For each version of each API, with the throttle time in the response."""
    oldest, letters = JAVA[api.name]
    for version in range(api.oldest, api.newest + 1):
        index = version - oldest
        is_java = 0 <= index < len(letters) and letters[index] == "T"
        if index < len(letters):
            assert holds_back(api.name, version) == is_java, version
        if holds_back(api.name, version):
            assert api.response_class().throttle_time_ms == 0


def throttling(ms: int) -> FakeBroker:
    """A broker that answers Heartbeat with this throttle time."""
    return FakeBroker({"Heartbeat": lambda asked: asked.reply(HeartbeatResponse(ms))})


async def opened(fake: FakeBroker) -> Connection:
    """A connection."""
    return await Connection.open(CommonConfig(), "127.0.0.1", fake.port)


async def test_nothing_is_sent_before_the_time_is_over() -> None:
    """The next two requests wait, and are sent immediately afterwards."""
    clock = asyncio.get_running_loop().time
    times: list[float] = []

    def answer(asked: Asked) -> None:
        times.append(clock())
        asked.reply(HeartbeatResponse(40 if len(times) == 1 else 0))

    async with FakeBroker({"Heartbeat": answer}) as fake:
        connection = await opened(fake)
        await connection.send("Heartbeat", 4, HEARTBEAT)
        left = connection.quiet_seconds
        # It began after the broker's response, however late this runs.
        assert times[0] + 0.04 - clock() <= left <= 0.04
        both = [connection.send("Heartbeat", 4, HEARTBEAT) for _ in range(2)]
        await asyncio.gather(*both)
        assert times[1] - times[0] >= 0.039
        assert not connection.quiet_seconds
        connection.abort()


async def test_an_older_broker_has_waited_itself() -> None:
    """The time in its response has passed: the next request is sent at once."""
    async with throttling(AN_HOUR) as fake:
        connection = await opened(fake)
        for _ in range(2):
            answer = await connection.send("Heartbeat", 1, HEARTBEAT)
            assert answer.throttle_time_ms == AN_HOUR
        connection.abort()


async def test_who_is_held_back_hears_of_the_end() -> None:
    """Closing the connection fails waiting requests; nothing was sent."""
    async with throttling(AN_HOUR) as fake:
        connection = await opened(fake)
        await connection.send("Heartbeat", 4, HEARTBEAT)
        waiting = asyncio.create_task(connection.send("Heartbeat", 4, HEARTBEAT))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(ClosedError):
            await waiting
        assert len(fake.asked) == 1
        await connection.wait_closed()


async def test_an_answer_that_nobody_waits_for_any_more_counts_too() -> None:
    """Its caller was cancelled; the other requests of the connection wait."""
    asked: list[Asked] = []
    async with FakeBroker({"Heartbeat": asked.append}) as fake:
        connection = await opened(fake)
        first = connection.post("Heartbeat", 4, HEARTBEAT)
        second = connection.post("Heartbeat", 4, HEARTBEAT)
        await fake.has_been_asked(2)
        first.cancel()
        asked[0].reply(HeartbeatResponse(AN_HOUR))
        asked[1].reply(HeartbeatResponse(1))
        await second
        assert connection.quiet_seconds > 1, "the longer time counts"
        connection.abort()


async def test_what_anybody_can_answer_is_asked_of_others() -> None:
    """One of two brokers throttles for an hour: the other one gets all requests."""
    async with throttling(AN_HOUR) as one, FakeBroker() as other:
        one.answers["Metadata"] = other.answers["Metadata"] = knows(
            (0, one), (1, other)
        )
        config = CommonConfig(bootstrap_servers=(one.address, other.address))
        async with Cluster(config) as cluster:
            await cluster.call(0, "Heartbeat", HEARTBEAT)
            before = len(one.asked)
            for _ in range(10):
                assert (await cluster.connection(None)).port == other.port
                await cluster.refresh()
            assert len(one.asked) == before
