"""Metadata responses, which are joined from encoded rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.test_long_requests import Asked
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.errors import ErrorCode

VERSIONS = range(14)
WITH_OPERATIONS = range(8, 14)


def rows_of(topic: Any) -> list[tuple[Any, ...]]:
    """The partitions of a topic in a response."""
    return [
        (
            row.error_code,
            row.partition_index,
            row.leader_id,
            row.leader_epoch,
            list(row.replica_nodes),
            list(row.isr_nodes),
            list(row.offline_replicas),
        )
        for row in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_rows_are_in_their_places_in_every_version(version: int) -> None:
    """The bytes behind arrays of topics and partitions differ between versions.

    No byte may follow the response: `call` checks it.
    """
    async with Broker(nodes=2) as broker, connected(broker) as client:
        broker.cluster.create_topic("two", 2, 2)
        broker.cluster.create_topic("many", 200, 1)
        names = [MetadataRequestTopic(name=name) for name in ("many", "nope", "two")]
        with_operations = version in WITH_OPERATIONS
        request = MetadataRequest(names, False, False, with_operations)
        answer = await client.call("Metadata", version, request)
        many, two, nope = answer.topics
        assert [many.name, two.name, nope.name] == ["many", "two", "nope"]
        assert [many.error_code, two.error_code] == [0, 0]
        assert nope.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [row.partition_index for row in many.partitions] == [*range(200)]
        assert {tuple(row.replica_nodes) for row in many.partitions} == {(1,), (2,)}
        for topic in (many, two):
            for row in topic.partitions:
                assert row.error_code == 0
                assert row.leader_id == row.replica_nodes[0]
                assert list(row.isr_nodes) == list(row.replica_nodes)
        allowed = {each.topic_authorized_operations for each in answer.topics}
        assert len(allowed) == 1
        assert (allowed == {-(2**31)}) is not with_operations


async def test_rows_follow_each_change_of_the_cluster() -> None:
    """Rows are kept between requests, but never out of date."""
    async with Broker(nodes=2) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2, 2)
        request = MetadataRequest([MetadataRequestTopic(name="t")], False)

        async def rows() -> list[tuple[Any, ...]]:
            (topic,) = (await client.call("Metadata", 12, request)).topics
            return rows_of(topic)

        first, second = await rows()
        assert await rows() == [first, second]
        leader, epoch = first[2:4]
        broker.move_partition("t", 0, 3 - leader)
        moved = await rows()
        assert moved[1] == second
        assert moved[0][2:4] == (3 - leader, epoch + 1)
        await broker.stop_node(2)
        for row in await rows():
            assert (row[0], row[2]) == (0, 1)
            assert (row[5], row[6]) == ([1], [2])
        await broker.start_node(2)
        assert [row[5:] for row in await rows()] == [(row[4], []) for row in moved]
        broker.cluster.create_topic("on two", 1, replicas=[[2]])
        await broker.stop_node(2)
        lost = MetadataRequest([MetadataRequestTopic(name="on two")], False)
        (topic,) = (await client.call("Metadata", 12, lost)).topics
        ((error, _, leader, *_),) = rows_of(topic)
        assert (error, leader) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_all_topics_are_as_many_pieces_as_they_have_partitions() -> None:
    """A piece has at most 1,000 partitions, of one topic or of many."""
    async with Broker() as broker:
        asked = Asked(broker)
        for number in range(20):
            broker.cluster.create_topic(f"small-{number}", 100)
        everything = MetadataRequest(None)
        assert 2 <= asked.pieces("Metadata", 12, everything) <= 4
        broker.cluster.create_topic("large", 3000)
        assert 5 <= asked.pieces("Metadata", 12, everything) <= 8
        one = MetadataRequest([MetadataRequestTopic(name="small-1")])
        assert asked.pieces("Metadata", 12, one) == 1
