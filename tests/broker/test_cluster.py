"""Several nodes: leaders, redirected clients, and moves while groups are live."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.broker.test_records_over_the_wire import batch
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected
from tests.wire.requests import (
    BROKER,
    commit_offsets,
    create_partitions,
    create_topics,
    describe_configs,
    epoch_ends,
    fetch,
    fetch_offsets,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    produce,
    sync_group,
)

from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.server import Broker
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k08_offset_commit import OffsetCommitRequest
from kohort.protocol.apis.k09_offset_fetch import OffsetFetchRequest
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k16_list_groups import ListGroupsRequest
from kohort.protocol.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.apis.k60_describe_cluster import DescribeClusterRequest
from kohort.protocol.errors import ErrorCode

NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


@contextlib.asynccontextmanager
async def cluster(nodes: int = 3, **config: object) -> AsyncIterator[Broker]:
    """A cluster; configuration keys have ``_`` in place of dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    async with Broker(NO_DELAY | settings, nodes=nodes) as broker:
        yield broker


def elsewhere(broker: Broker, node_id: int) -> int:
    """Another running node."""
    return next(id_ for id_ in broker.cluster.running if id_ != node_id)


async def join(
    client: WireClient,
    group: str = "g",
    member_id: str = "",
    rebalance_ms: int = 10_000,
) -> Any:
    """JoinGroup with one protocol; uses the member id if one is required."""
    # No test waits for the end of its session, and on a slow machine none may see it.
    request = join_group(
        group, member_id, session_ms=300_000, rebalance_ms=rebalance_ms
    )
    answer = await client.call("JoinGroup", 9, request)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await join(client, group, answer.member_id, rebalance_ms)
    return answer


async def stable(
    client: WireClient, group: str = "g", rebalance_ms: int = 10_000
) -> str:
    """A group of one member, Stable in generation 1; returns the member's id."""
    member_id: str = (await join(client, group, rebalance_ms=rebalance_ms)).member_id
    request = sync_group(member_id, group=group, assignments={member_id: b"mine"})
    assert (await client.call("SyncGroup", 5, request)).error_code == 0
    return member_id


async def heartbeat(
    client: WireClient, member_id: str, group: str = "g", *, generation_id: int = 1
) -> int:
    """Sends a heartbeat; returns the error code."""
    request = HeartbeatRequest(group, generation_id, member_id)
    answer = await client.call("Heartbeat", 4, request)
    return int(answer.error_code)


def offsets(offset: int, topic: str = "t", group: str = "g") -> OffsetCommitRequest:
    """A simple consumer's commit of one offset."""
    return commit_offsets(topic, (0, offset), group=group)


async def coordinator(client: WireClient, *groups: str) -> list[Any]:
    """FindCoordinator, batched."""
    request = FindCoordinatorRequest("", 0, groups)
    return list((await client.call("FindCoordinator", 4, request)).coordinators)


# -- nodes


async def test_nodes_are_told_everywhere() -> None:
    """Metadata and DescribeCluster of any node list all nodes and their ports."""
    async with cluster() as broker:
        expected = {
            (node.id, node.host, node.port) for node in broker.cluster.nodes.values()
        }
        assert len({port for _, _, port in expected}) == 3
        for node_id in (1, 2, 3):
            async with connected(broker, node_id) as client:
                answer = await client.call("Metadata", 12, MetadataRequest([]))
                assert {(b.node_id, b.host, b.port) for b in answer.brokers} == expected
                assert answer.controller_id == 1
                answer = await client.call(
                    "DescribeCluster", 1, DescribeClusterRequest()
                )
                found = {(b.broker_id, b.host, b.port) for b in answer.brokers}
                assert found == expected
        ports = [port for _, _, port in sorted(expected)]
        assert broker.bootstrap_servers == ",".join(f"127.0.0.1:{p}" for p in ports)


async def test_each_node_describes_itself() -> None:
    """DescribeConfigs of a broker has its own node.id, and only it answers."""
    async with cluster() as broker:
        for node_id in (1, 2, 3):
            async with connected(broker, node_id) as client:
                ids = str(node_id), str(elsewhere(broker, node_id))
                request = describe_configs(BROKER, *ids, keys=["node.id"])
                answer = await client.call("DescribeConfigs", 4, request)
                own, other = answer.results
                assert [each.value for each in own.configs] == [str(node_id)]
                assert other.error_code == ErrorCode.INVALID_REQUEST


async def test_leaders_are_spread() -> None:
    """Each node leads a third; there are as many replicas as requested."""
    async with cluster() as broker, connected(broker) as client:
        request = create_topics("t", partitions=6, replicas=2)
        (created,) = (await client.call("CreateTopics", 7, request)).topics
        assert (created.error_code, created.replication_factor) == (0, 2)
        answer = await client.call("Metadata", 12, metadata("t"))
        partitions = answer.topics[0].partitions
        assert sorted(p.leader_id for p in partitions) == [1, 1, 2, 2, 3, 3]
        for p in partitions:
            assert p.replica_nodes[0] == p.leader_id
            assert len(set(p.replica_nodes)) == 2
            assert p.isr_nodes == p.replica_nodes
        await client.call("CreatePartitions", 3, create_partitions("t", 9))
        topic = broker.cluster.topics.by_name["t"]
        assert sorted(topic.leaders) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        assert {len(replicas) for replicas in topic.replicas} == {2}


async def test_replicas_chosen_by_hand_are_kept() -> None:
    """In CreateTopics with assignments, the first replica leads."""
    async with cluster() as broker, connected(broker) as client:
        placed = [
            CreatableReplicaAssignment(0, [3, 1]),
            CreatableReplicaAssignment(1, [2, 3]),
        ]
        request = CreateTopicsRequest([CreatableTopic("t", -1, -1, placed)], 1000)
        (created,) = (await client.call("CreateTopics", 7, request)).topics
        assert created.error_code == 0
        topic = broker.cluster.topics.by_name["t"]
        assert topic.leaders == [3, 2]
        assert topic.replicas == [[3, 1], [2, 3]]


async def test_groups_are_spread_over_the_nodes() -> None:
    """FindCoordinator, single and batched, names one node for each group."""
    async with cluster() as broker, connected(broker, 2) as client:
        groups = [f"group-{i}" for i in range(60)]
        found = await coordinator(client, *groups)
        assert {each.node_id for each in found} == {1, 2, 3}
        for each in found:
            assert each.error_code == 0
            assert each.node_id == broker.coordinator_of(each.key)
            assert each.port == broker.cluster.nodes[each.node_id].port
        request = FindCoordinatorRequest(groups[0])
        single = await client.call("FindCoordinator", 3, request)
        assert (single.node_id, single.port) == (found[0].node_id, found[0].port)


async def test_the_offsets_topic_comes_with_the_first_group() -> None:
    """As in Kafka it does not exist before; it is internal, and not writable."""
    async with (
        cluster(offsets_topic_num_partitions=7) as broker,
        connected(broker, 1) as client,
    ):
        answer = await client.call("Metadata", 12, MetadataRequest(None))
        assert not answer.topics
        await coordinator(client, "g")
        answer = await client.call("Metadata", 12, MetadataRequest(None))
        (topic,) = answer.topics
        assert (topic.name, topic.is_internal) == ("__consumer_offsets", True)
        assert len(topic.partitions) == 7
        assert all(len(p.replica_nodes) == 3 for p in topic.partitions)
        leader = next(p for p in topic.partitions if p.leader_id == 1)
        row = (leader.partition_index, batch(b"x"))
        answer = await client.call("Produce", 9, produce(row, topic=topic.name))
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# -- the wrong node


async def test_a_wrong_node_does_not_coordinate() -> None:
    """Group APIs are answered NOT_COORDINATOR; ListGroups lists its own groups."""
    async with cluster() as broker:
        right = broker.coordinator_of("g")
        async with connected(broker, right) as client:
            member_id = await stable(client)
            listed = await client.call("ListGroups", 4, ListGroupsRequest())
            assert [each.group_id for each in listed.groups] == ["g"]
        wrong = ErrorCode.NOT_COORDINATOR
        async with connected(broker, elsewhere(broker, right)) as client:
            assert (await join(client)).error_code == wrong
            assert await heartbeat(client, member_id) == wrong
            request: Any = sync_group(member_id)
            assert (await client.call("SyncGroup", 5, request)).error_code == wrong
            request = leave_group("g", member_id)
            assert (await client.call("LeaveGroup", 5, request)).error_code == wrong
            broker.cluster.create_topic("t", 1)
            answer = await client.call("OffsetCommit", 8, offsets(5))
            assert answer.topics[0].partitions[0].error_code == wrong
            answer = await client.call("OffsetFetch", 8, fetch_offsets("g"))
            assert answer.groups[0].error_code == wrong
            answer = await client.call("OffsetFetch", 7, OffsetFetchRequest("g"))
            assert answer.error_code == wrong
            request = DescribeGroupsRequest(["g"], True)
            answer = await client.call("DescribeGroups", 5, request)
            (group,) = answer.groups
            assert (group.error_code, group.group_state) == (wrong, "")
            assert group.authorized_operations == -(2**31)
            request = DeleteGroupsRequest(["g"])
            answer = await client.call("DeleteGroups", 2, request)
            assert answer.results[0].error_code == wrong
            listed = await client.call("ListGroups", 4, ListGroupsRequest())
            assert not listed.groups
            # Errors that need no coordinator come first.
            empty = await join(client, "")
            assert empty.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [9, 12])
async def test_a_wrong_node_does_not_append(version: int) -> None:
    """Produce is answered NOT_LEADER_OR_FOLLOWER, since v10 with the leader."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 1, 3)
        topic = broker.cluster.topics.by_name["t"]
        (leader,) = topic.leaders
        async with connected(broker, elsewhere(broker, leader)) as client:
            answer = await client.call("Produce", version, produce((0, batch(b"x"))))
            (row,) = answer.responses[0].partition_responses
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            if version >= 10:
                assert row.current_leader.leader_id == leader
                (endpoint,) = answer.node_endpoints
                node = broker.cluster.nodes[leader]
                assert (endpoint.node_id, endpoint.port) == (leader, node.port)
            assert topic.partitions[0].log_end_offset == 0
        async with connected(broker, leader) as client:
            answer = await client.call("Produce", version, produce((0, batch(b"x"))))
            assert answer.responses[0].partition_responses[0].error_code == 0
            if version >= 10:
                assert not answer.node_endpoints


async def test_fetches_from_followers() -> None:
    """Since v11 followers answer (KIP-392); nodes without a replica do not."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 1, replicas=[[1, 2]])
        async with connected(broker, 1) as client:
            await client.call("Produce", 9, produce((0, batch(b"x"))))
        async with connected(broker, 2) as client:
            answer = await client.call("Fetch", 12, fetch(0))
            (row,) = answer.responses[0].partitions
            assert (row.error_code, row.high_watermark) == (0, 1)
            answer = await client.call("Fetch", 10, fetch(0))
            (row,) = answer.responses[0].partitions
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        async with connected(broker, 3) as client:
            answer = await client.call("Fetch", 12, fetch(0))
            (row,) = answer.responses[0].partitions
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_offsets_are_the_leaders_to_tell() -> None:
    """ListOffsets and OffsetForLeaderEpoch are refused by other nodes."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 1, replicas=[[1, 2]])
        lists, ends = list_offsets("t", 0), epoch_ends("t", 0)
        for node_id, expected in ((1, 0), (2, 6), (3, 6)):
            async with connected(broker, node_id) as client:
                answer = await client.call("ListOffsets", 7, lists)
                assert answer.topics[0].partitions[0].error_code == expected
                answer = await client.call("OffsetForLeaderEpoch", 4, ends)
                assert answer.topics[0].partitions[0].error_code == expected


# -- moves


async def test_a_fetch_that_waits_learns_of_a_move() -> None:
    """When the leader moves, a waiting fetch is answered with the new leader."""
    async with cluster() as broker:
        topic = broker.cluster.create_topic("t", 1, replicas=[[1]])
        async with connected(broker, 1) as client:
            await client.send("Fetch", 12, fetch(0, wait_ms=60_000))
            await until(lambda: topic.partitions[0].watchers)
            broker.move_partition("t", 0, 2)
            answer = await client.response("Fetch", 12)
            (row,) = answer.responses[0].partitions
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (topic.leaders, topic.replicas) == ([2], [[2]])
        assert topic.partitions[0].leader_epoch == 1


async def until(condition: Any) -> None:
    """Runs the broker's loop until a condition is true."""
    while not condition():  # noqa: ASYNC110 - each is one turn of the broker's loop
        await asyncio.sleep(0)


async def test_a_group_moves_without_a_rebalance() -> None:
    """Members of a Stable group continue in their generation on the new coordinator."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 1)
        old = broker.coordinator_of("g")
        new = elsewhere(broker, old)
        async with connected(broker, old) as before, connected(broker, new) as after:
            member_id = await stable(before)
            broker.move_coordinator("g", new)
            assert await heartbeat(before, member_id) == ErrorCode.NOT_COORDINATOR
            (found,) = await coordinator(before, "g")
            assert found.node_id == new
            assert await heartbeat(after, member_id) == 0
            request = sync_group(member_id)
            assert (await after.call("SyncGroup", 5, request)).assignment == b"mine"


async def test_loading_is_answered_as_kafka_answers_it() -> None:
    """While a coordinator loads, requests get 14, but heartbeats succeed."""
    async with cluster(coordinator_load_delay_ms=3_600_000) as broker:
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        right = broker.coordinator_of("g")
        assert broker.cluster.shards.for_id("g").state == "loading"
        async with connected(broker, right) as client:
            assert (await join(client, "g")).error_code == loading
            assert await heartbeat(client, "somebody") == 0
            answer = await client.call("ListGroups", 4, ListGroupsRequest())
            assert answer.error_code == loading
            request = DescribeGroupsRequest(["g"])
            answer = await client.call("DescribeGroups", 5, request)
            assert answer.groups[0].error_code == loading


async def test_a_group_is_there_once_it_is_loaded() -> None:
    """The group exists after the load delay, and after moves during the load."""
    async with cluster(coordinator_load_delay_ms=300_000) as broker:
        shard = broker.cluster.shards.for_id("g")
        await broker.clock.advance(300)
        old = broker.coordinator_of("g")
        async with connected(broker, old) as before:
            member_id = await stable(before)
            new = elsewhere(broker, old)
            for node_id in (new, old, new):
                broker.move_coordinator("g", node_id)
                assert shard.state == "loading"
            assert await heartbeat(before, member_id) == ErrorCode.NOT_COORDINATOR
        async with connected(broker, new) as after:
            await broker.clock.advance(300)
            assert await heartbeat(after, member_id) == 0
            request = DescribeGroupsRequest(["g"])
            answer = await after.call("DescribeGroups", 5, request)
            assert answer.groups[0].group_state == "Stable"


async def test_a_topic_deleted_during_a_load_takes_its_offsets_along() -> None:
    """Offsets of the deleted topic are not found after the load."""
    async with cluster(coordinator_load_delay_ms=300_000) as broker:
        broker.cluster.create_topic("t", 1)
        broker.cluster.create_topic("u", 1)
        old = broker.coordinator_of("g")
        await broker.clock.advance(300)
        new = elsewhere(broker, old)
        async with connected(broker, old) as before, connected(broker, new) as after:
            for topic in ("t", "u"):
                await before.call("OffsetCommit", 8, offsets(5, topic))
            broker.move_coordinator("g", new)
            delete_topic(broker, "t")
            await broker.clock.advance(300)
            answer = await after.call("OffsetFetch", 8, fetch_offsets("g"))
            assert [topic.name for topic in answer.groups[0].topics] == ["u"]


async def test_a_topic_deleted_while_nobody_coordinates() -> None:
    """Offsets of a deleted topic do not come back with the coordinator."""
    async with cluster(2, offsets_topic_replication_factor=1) as broker:
        broker.cluster.create_topic("t", 1)
        node_id = broker.coordinator_of("g")
        async with connected(broker, node_id) as client:
            await client.call("OffsetCommit", 8, offsets(5))
        await broker.stop_node(node_id)
        assert broker.coordinator_of("g") == -1
        delete_topic(broker, "t")
        broker.cluster.create_topic("t", 1)
        await broker.start_node(node_id)
        async with connected(broker, node_id) as client:
            answer = await client.call("OffsetFetch", 8, fetch_offsets("g"))
            assert not answer.groups[0].topics


async def test_ids_too_long_for_a_member_id_are_refused() -> None:
    """A client id of 32,760 bytes leaves no room for the rest of a member id."""
    async with cluster(1) as broker, connected(broker) as client:
        request = join_group(instance="i" * 32_760)
        answer = await client.call("JoinGroup", 9, request)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        request = join_group(member_id="known", instance="i" * 32_760)
        answer = await client.call("JoinGroup", 9, request)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await join(client)).error_code == 0


async def test_moves_that_cannot_be_are_refused() -> None:
    """The error lists the existing topics, partitions or nodes in one sentence."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 2)
        await broker.stop_node(3)
        cases: list[tuple[tuple[str, int, int], str]] = [
            (("u", 0, 1), "there is no topic 'u'; there are: t"),
            (("t", 2, 1), "topic t has no partition 2, only 0 to 1"),
            (("t", 0, 4), "there is no node 4; the nodes are 1, 2, 3"),
            (("t", 0, 3), "node 3 is stopped"),
        ]
        for arguments, why in cases:
            with pytest.raises(ClusterError) as error:
                broker.move_partition(*arguments)
            assert str(error.value) == why
