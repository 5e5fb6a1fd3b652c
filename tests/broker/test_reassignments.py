"""Leaders that are re-elected, and partitions that get other replicas.

The errors are those of Apache Kafka 4.3 with one node; other results follow its
controller's rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import cluster, heartbeat, stable
from tests.broker.test_restart import broker_on
from tests.wire.client import WireClient, connected, served
from tests.wire.requests import create_topics, metadata

from kohort.broker.server import Broker
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.protocol.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.protocol.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kohort.protocol.errors import ErrorCode

PREFERRED, UNCLEAN = 0, 1


def placed(broker: Broker, *replicas: Sequence[int]) -> Topic:
    """The topic "t" with a partition on each of these lists of nodes."""
    return broker.cluster.create_topic("t", 0, replicas=replicas)


# -- elections


async def elect(
    client: WireClient,
    *partitions: tuple[str, int],
    kind: int = PREFERRED,
    timeout_ms: int = 1000,
    version: int = 2,
) -> list[tuple[str, int, int]]:
    """Elects leaders, by default of all partitions: (topic, index, error)."""
    rows = [TopicPartitions(name, [index]) for name, index in partitions]
    request = ElectLeadersRequest(kind, rows or None, timeout_ms)
    response = await client.call("ElectLeaders", version, request)
    return [
        (result.topic, row.partition_id, row.error_code)
        for result in response.replica_election_results
        for row in result.partition_result
    ]


@pytest.mark.parametrize("version", range(3))
async def test_the_preferred_leader_comes_back(version: int) -> None:
    """A restarted node leads its partitions again, with a new epoch."""
    async with cluster() as broker:
        topic = placed(broker, [2, 1], [3, 1])
        await broker.stop_node(2)
        await broker.start_node(2)
        assert topic.leaders == [1, 3]
        before = topic.partitions[0].leader_epoch
        async with connected(broker, 3) as client:
            assert await elect(client, ("t", 0), ("t", 1), version=version) == [
                ("t", 0, 0),
                ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
            ]
        assert topic.leaders == [2, 3]
        assert topic.partitions[0].leader_epoch == before + 1


async def test_elections_of_all_partitions_say_what_changed() -> None:
    """Partitions that have their preferred leader are left out, topics are not."""
    async with cluster() as broker:
        topic = placed(broker, [2, 1], [3, 1])
        await broker.stop_node(2)
        await broker.start_node(2)
        async with connected(broker) as client:
            assert await elect(client) == [("t", 0, 0)]
            response = await client.call(
                "ElectLeaders", 2, ElectLeadersRequest(0, None)
            )
        assert [r.topic for r in response.replica_election_results] == ["t"]
        assert topic.leaders == [2, 3]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
    ],
)
async def test_a_stopped_node_is_not_elected(kind: int, error: int) -> None:
    """The partition keeps its leader."""
    async with cluster() as broker:
        topic = placed(broker, [2, 1])
        await broker.stop_node(2)
        async with connected(broker) as client:
            assert await elect(client, ("t", 0), kind=kind) == [("t", 0, error)]
        assert topic.leaders == [1]


async def test_no_replica_can_be_elected_where_none_runs() -> None:
    """An unclean election has no running replica either."""
    async with cluster() as broker:
        placed(broker, [2])
        await broker.stop_node(2)
        async with connected(broker) as client:
            assert await elect(client, ("t", 0), kind=UNCLEAN) == [
                ("t", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
            ]


async def test_elections_that_cannot_be() -> None:
    """Unknown partitions, an unknown type, and a timeout of 0 are refused."""
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("t"))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await elect(client, ("t", 7), ("none", 0)) == [
            ("t", 7, unknown),
            ("none", 0, unknown),
        ]
        for kind, timeout_ms, error in (
            (2, 1000, ErrorCode.INVALID_REQUEST),
            (0, 0, ErrorCode.REQUEST_TIMED_OUT),
        ):
            rows = await elect(client, ("t", 0), kind=kind, timeout_ms=timeout_ms)
            assert rows == [("t", 0, error)]
            request = ElectLeadersRequest(kind, None, timeout_ms)
            response = await client.call("ElectLeaders", 2, request)
            assert response.error_code == error
            assert response.replica_election_results == []


# -- reassignments


async def reassign(
    client: WireClient,
    index: int,
    replicas: Sequence[int] | None,
    *,
    topic: str = "t",
    changes_factor: bool = True,
    timeout_ms: int = 1000,
    version: int = 1,
) -> int:
    """Reassigns one partition, or cancels that without replicas; returns the error."""
    rows = [ReassignableTopic(topic, [ReassignablePartition(index, replicas)])]
    request = AlterPartitionReassignmentsRequest(timeout_ms, changes_factor, rows)
    response = await client.call("AlterPartitionReassignments", version, request)
    assert response.allow_replication_factor_change == changes_factor
    ((row,),) = (result.partitions for result in response.responses)
    error: int = row.error_code
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert response.error_code == (timed_out if error == timed_out else 0)
    return error


async def progress(
    client: WireClient, *wanted: tuple[str, Sequence[int]]
) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    """(topic, index, replicas, adding, removing), by default of all partitions."""
    topics = [ListPartitionReassignmentsTopics(*row) for row in wanted] or None
    response: Any = await client.call(
        "ListPartitionReassignments", 0, ListPartitionReassignmentsRequest(1000, topics)
    )
    return [
        (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for t in response.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", range(2))
async def test_a_partition_moves_to_running_nodes_at_once(version: int) -> None:
    """If the leader is not among the new replicas, the first of them leads."""
    async with cluster() as broker:
        topic = placed(broker, [1, 2], [1, 2], [1])
        async with connected(broker) as client:
            for index, replicas in enumerate(([3, 2], [2, 1], [2, 3, 1])):
                assert await reassign(client, index, replicas, version=version) == 0
            assert await progress(client) == []
        assert topic.replicas == [[3, 2], [2, 1], [2, 3, 1]]
        assert topic.leaders == [3, 1, 1]
        epochs = [partition.leader_epoch for partition in topic.partitions]
        assert epochs == [1, 0, 0]


async def test_a_leader_that_loses_a_replica_has_a_new_epoch() -> None:
    """As in Kafka, which fences the replica by it."""
    async with cluster() as broker:
        topic = placed(broker, [1, 2, 3])
        async with connected(broker) as client:
            assert await reassign(client, 0, [1, 3]) == 0
        assert (topic.leaders, topic.partitions[0].leader_epoch) == ([1], 1)


async def test_a_node_that_is_down_keeps_a_reassignment_in_progress() -> None:
    """Old and new replicas are listed until the node starts."""
    async with cluster() as broker:
        topic = placed(broker, [1, 2], [1])
        await broker.stop_node(3)
        async with connected(broker) as client:
            assert await reassign(client, 0, [3, 2]) == 0
            row = ("t", 0, [3, 2, 1], [3], [1])
            assert await progress(client) == [row]
            assert await progress(client, ("t", [0, 1, 9]), ("none", [0])) == [row]
            assert await progress(client, ("t", [1])) == []
            answer = await client.call("Metadata", 12, metadata("t"))
            partition = answer.topics[0].partitions[0]
            assert partition.replica_nodes == [3, 2, 1]
            assert partition.isr_nodes == [2, 1]
            assert topic.leaders[0] == 1
            await broker.start_node(3)
            assert await progress(client) == []
        assert (topic.replicas[0], topic.leaders[0]) == ([3, 2], 3)


async def test_a_smaller_partition_waits_for_all_of_its_replicas() -> None:
    """Otherwise fewer replicas would be in sync than before."""
    async with cluster() as broker:
        topic = placed(broker, [1, 2, 3])
        await broker.stop_node(3)
        async with connected(broker) as client:
            assert await reassign(client, 0, [2, 3]) == 0
            assert await progress(client) == [("t", 0, [2, 3, 1], [], [1])]
            await broker.start_node(3)
            assert await progress(client) == []
        assert topic.replicas == [[2, 3]]


async def test_a_reassignment_is_cancelled() -> None:
    """The replicas are the previous ones; then there is nothing to cancel."""
    async with cluster() as broker:
        topic = placed(broker, [1, 2])
        await broker.stop_node(3)
        async with connected(broker) as client:
            assert await reassign(client, 0, [3]) == 0
            assert await progress(client) == [("t", 0, [3, 1, 2], [3], [1, 2])]
            assert await reassign(client, 0, None) == 0
            assert await progress(client) == []
            error = await reassign(client, 0, None)
        assert error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert (topic.replicas, topic.leaders) == ([[1, 2]], [1])


@pytest.mark.parametrize("is_unclean", [False, True])
async def test_a_cancel_needs_a_running_replica(is_unclean: bool) -> None:
    """Going back to stopped nodes only would be an unclean election."""
    async with cluster() as broker:
        topic = placed(broker, [3])
        if is_unclean:
            override = {"unclean.leader.election.enable": "true"}
            broker.cluster.topics.configure(topic, override)
        await broker.stop_node(2)
        async with connected(broker) as client:
            assert await reassign(client, 0, [1, 2]) == 0
            await broker.stop_node(3)
            assert topic.leaders == [1]
            error = await reassign(client, 0, None)
        assert error == (0 if is_unclean else ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        assert topic.leaders == [-1 if is_unclean else 1]


@pytest.mark.parametrize(
    ("name", "index", "replicas", "changes_factor", "error"),
    [
        ("t", 0, [1], True, 0),
        ("t", 0, [1], False, 0),
        ("t", 0, [], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 1], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [4], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [-1], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 2], False, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("t", 0, None, True, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 7, [1], True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, None, True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, [1], True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_reassignments_that_cannot_be(
    name: str,
    index: int,
    replicas: list[int] | None,
    changes_factor: bool,
    error: int,
) -> None:
    """A refused reassignment changes nothing."""
    async with cluster() as broker:
        topic = placed(broker, [1])
        async with connected(broker) as client:
            given = await reassign(
                client, index, replicas, topic=name, changes_factor=changes_factor
            )
        assert given == error
        assert (topic.replicas, topic.leaders) == ([[1]], [1])


async def test_a_reassignment_takes_some_time() -> None:
    """With a timeout of 0 nothing changes; an empty request is answered anyway."""
    async with cluster() as broker:
        topic = placed(broker, [1])
        async with connected(broker) as client:
            error = await reassign(client, 0, [2], timeout_ms=0)
            empty = AlterPartitionReassignmentsRequest(timeout_ms=0)
            answer = await client.call("AlterPartitionReassignments", 1, empty)
        assert error == ErrorCode.REQUEST_TIMED_OUT
        assert topic.replicas == [[1]]
        assert (answer.error_code, answer.error_message) == (0, "")


async def test_a_group_moves_with_its_partition() -> None:
    """The coordinator is on the new replica; the member stays a member."""
    async with cluster() as broker:
        old = broker.coordinator_of("g")
        new = next(node for node in broker.cluster.nodes if node != old)
        index = broker.cluster.shards.index_of("g")
        async with connected(broker, old) as client:
            member_id = await stable(client)
            assert await reassign(client, index, [new], topic="__consumer_offsets") == 0
        async with connected(broker, new) as client:
            assert await heartbeat(client, member_id) == 0


async def test_a_move_by_hand_ends_a_reassignment() -> None:
    """The replicas are those after the move."""
    async with cluster(4) as broker:
        topic = placed(broker, [1])
        await broker.stop_node(3)
        async with connected(broker) as client:
            assert await reassign(client, 0, [3]) == 0
            broker.move_partition("t", 0, 2)
            assert await progress(client) == []
        assert (topic.replicas, topic.leaders) == ([[3, 2]], [2])


async def test_replicas_survive_a_restart(tmp_path: Path) -> None:
    """A reassignment in progress is completed, as all nodes run after a start."""
    async with broker_on(tmp_path, nodes=3) as broker:
        placed(broker, [1, 2], [1])
        await broker.stop_node(3)
        async with connected(broker) as client:
            assert await reassign(client, 0, [3, 2]) == 0
            assert await reassign(client, 1, [2]) == 0
    async with broker_on(tmp_path, nodes=3) as broker, connected(broker) as client:
        topic = broker.cluster.topics.by_name["t"]
        assert topic.replicas == [[3, 2], [2]]
        assert topic.leaders == [3, 2]
        assert await progress(client) == []


async def test_fewer_nodes_keep_the_replicas_that_there_are(tmp_path: Path) -> None:
    """The target node of a partition does not exist any more."""
    async with broker_on(tmp_path, nodes=3) as broker:
        placed(broker, [1, 2])
        await broker.stop_node(3)
        async with connected(broker) as client:
            assert await reassign(client, 0, [3]) == 0
    async with broker_on(tmp_path, nodes=2) as broker:
        assert broker.cluster.topics.by_name["t"].replicas == [[1, 2]]
