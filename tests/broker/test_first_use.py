"""The first requests that a new Kafka refuses: ``coordinator.first.use``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.test_cluster import (
    NO_DELAY,
    coordinator,
    heartbeat,
    join,
    offsets,
    stable,
)
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected
from tests.wire.requests import fetch_offsets, join_group

from kohort.broker.server import Broker
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.client.consumer import Consumer
from kohort.client.producer import Producer
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k16_list_groups import ListGroupsRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.errors import ErrorCode

AS_KAFKA = NO_DELAY | {"coordinator.first.use": "kafka"}
LOADING, UNAVAILABLE, ELSEWHERE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


async def found(client: WireClient, *groups: str) -> list[int]:
    """FindCoordinator; returns the error code of each group."""
    return [row.error_code for row in await coordinator(client, *groups)]


async def listed(client: WireClient) -> tuple[int, int]:
    """ListGroups; returns the error code, and the number of groups."""
    answer = await client.call("ListGroups", 4, ListGroupsRequest())
    return answer.error_code, len(answer.groups)


async def codes(client: WireClient, group: str = "g") -> dict[str, int]:
    """The error codes of group requests that need no member."""
    commit = await client.call("OffsetCommit", 8, offsets(5, group=group))
    fetched = await client.call("OffsetFetch", 8, fetch_offsets(group))
    described = await client.call("DescribeGroups", 5, DescribeGroupsRequest([group]))
    deleted = await client.call("DeleteGroups", 2, DeleteGroupsRequest([group]))
    left = await client.call("LeaveGroup", 2, LeaveGroupRequest(group, "nobody"))
    return {
        "OffsetCommit": commit.topics[0].partitions[0].error_code,
        "OffsetFetch": fetched.groups[0].error_code,
        "DescribeGroups": described.groups[0].error_code,
        "DeleteGroups": deleted.results[0].error_code,
        "LeaveGroup": left.error_code,
        "JoinGroup": (await join(client, group)).error_code,
        "Heartbeat": await heartbeat(client, "nobody", group),
    }


async def stable_after_a_refusal(client: WireClient) -> str:
    """A Stable group whose first join was refused; returns the member's id."""
    assert (await join(client)).error_code == ELSEWHERE
    return await stable(client)


async def first_producer_ids(client: WireClient, count: int) -> list[int]:
    """The error codes of several InitProducerIds."""
    request = InitProducerIdRequest(None, 60_000)
    answers = [await client.call("InitProducerId", 4, request) for _ in range(count)]
    return [answer.error_code for answer in answers]


async def test_without_the_topic_requests_about_groups_are_refused() -> None:
    """They always get 16, and ListGroups lists no groups."""
    async with Broker(AS_KAFKA) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        for _ in range(2):
            assert set((await codes(client)).values()) == {ELSEWHERE}
            assert await listed(client) == (0, 0)
        assert len(broker.cluster.shards) == 0


async def test_the_first_look_up_creates_the_topic() -> None:
    """The first look-up gets 15 for each of its keys; the next one succeeds."""
    async with Broker(AS_KAFKA) as broker, connected(broker) as client:
        nothing = FindCoordinatorRequest("", 0, [])
        await client.call("FindCoordinator", 4, nothing)
        assert await found(client, "a", "b") == [UNAVAILABLE, UNAVAILABLE]
        assert len(broker.cluster.shards) == 50
        assert await found(client, "a", "b") == [0, 0]


async def test_each_api_is_refused_once_more() -> None:
    """While the topic is new, each API gets 16, ListGroups 14; then it is served."""
    async with Broker(AS_KAFKA) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await found(client, "g")
        assert set((await codes(client)).values()) == {ELSEWHERE}
        assert await listed(client) == (LOADING, 0)
        assert await listed(client) == (0, 0)
        assert (await codes(client))["OffsetCommit"] == 0


async def test_nothing_is_refused_after_a_request_was_served() -> None:
    """A member that has joined can sync; other groups are served, too."""
    async with Broker(AS_KAFKA) as broker, connected(broker) as client:
        await found(client, "g")
        member_id = await stable_after_a_refusal(client)
        assert await heartbeat(client, member_id) == 0
        assert await listed(client) == (0, 1)
        assert (await join(client, "other")).error_code == 0


@pytest.mark.parametrize(
    ("group", "session_ms", "code"),
    [
        ("", 10_000, ErrorCode.INVALID_GROUP_ID),
        ("g", 1, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
async def test_an_invalid_join_is_invalid_without_a_coordinator(
    group: str, session_ms: int, code: int
) -> None:
    """As in Kafka, the request is validated before its coordinator is looked up."""
    request = join_group(group, "some-member", session_ms=session_ms)
    async with Broker(AS_KAFKA) as broker, connected(broker) as client:
        answer = await client.call("JoinGroup", 9, request)
        assert (answer.error_code, answer.member_id) == (code, "some-member")


async def test_each_start_of_a_node_gets_its_producer_ids() -> None:
    """The first InitProducerId of each node gets 14, also after a restart."""
    async with Broker(AS_KAFKA, nodes=2) as broker:
        for node_id in (1, 2):
            async with connected(broker, node_id) as client:
                assert await first_producer_ids(client, 3) == [LOADING, 0, 0]
        await broker.stop_node(2)
        await broker.start_node(2)
        async with connected(broker, 2) as client:
            assert await first_producer_ids(client, 2) == [LOADING, 0]


async def test_a_topic_of_a_data_directory_is_in_use(tmp_path: Path) -> None:
    """As in Kafka, coordinators serve at once after a restart."""
    async with (
        Broker(AS_KAFKA, data_dir=tmp_path) as broker,
        connected(broker) as client,
    ):
        await found(client, "g")
    async with Broker(AS_KAFKA, data_dir=tmp_path) as broker:
        await broker.wait_until_loaded()
        async with connected(broker) as client:
            assert await listed(client) == (0, 0)
            assert (await join(client)).error_code == 0


async def test_a_deleted_topic_is_missing_again() -> None:
    """A look-up creates it again; group requests do not."""
    async with Broker(AS_KAFKA) as broker, connected(broker) as client:
        await found(client, "g")
        assert await listed(client) == (LOADING, 0)
        await stable_after_a_refusal(client)
        delete_topic(broker, OFFSETS_TOPIC)
        assert (await join(client)).error_code == ELSEWHERE
        assert await found(client, "g") == [UNAVAILABLE]
        await stable_after_a_refusal(client)


async def test_by_default_nothing_is_refused() -> None:
    """``ready``: the first request that needs the topic creates it."""
    async with Broker(NO_DELAY) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        assert await first_producer_ids(client, 1) == [0]
        assert (await codes(client))["OffsetCommit"] == 0


async def test_a_consumer_gets_through() -> None:
    """A consumer of kohort's client retries until it is served."""
    async with Broker(AS_KAFKA) as broker:
        address = broker.bootstrap_servers
        async with Producer(bootstrap_servers=address) as producer:
            await producer.send_and_wait("orders", b"one")
        async with Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="g",
            auto_offset_reset="earliest",
        ) as consumer:
            assert (await consumer.getone()).value == b"one"
