"""A commit of the same partitions as before is answered at once, and checked as others.

A member's layout is known from its third commit on; see `kohort.protocol.repeated`.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.test_cluster import stable
from tests.wire.client import WireClient, connected
from tests.wire.requests import commit_offsets, fetch_offsets

from kohort.broker.long_work import Pace
from kohort.broker.server import Broker
from kohort.protocol.errors import ErrorCode

FAST = {"group.initial.rebalance.delay.ms": 0}
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def commit(
    client: WireClient, member_id: str, offset: int, generation: int = 1
) -> list[int]:
    """Commits partitions 1 and 0 of topic "t"; returns their error codes."""
    rows = (1, offset), (0, offset + 1)
    request = commit_offsets("t", *rows, generation=generation, member_id=member_id)
    answer = await client.call("OffsetCommit", 8, request)
    assert [topic.name for topic in answer.topics] == ["t"]
    assert [row.partition_index for row in answer.topics[0].partitions] == [1, 0]
    return [row.error_code for row in answer.topics[0].partitions]


async def committed(client: WireClient) -> dict[int, int]:
    """The committed offsets of the group, by partition."""
    answer = await client.call("OffsetFetch", 8, fetch_offsets("g"))
    (group,) = answer.groups
    return {p.partition_index: p.committed_offset for p in group.topics[0].partitions}


async def delete(broker: Broker) -> None:
    """Deletes topic "t"."""
    topic = broker.cluster.topics.by_name["t"]
    for _ in broker.cluster.delete_topics([topic], Pace()):
        pass


async def test_a_repeated_commit_needs_no_effects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is committed and answered in one step; its event has the lag."""
    async with Broker(FAST) as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", 2)
        member_id = await stable(client)
        for offset in (10, 20, 30):
            assert await commit(client, member_id, offset) == [0, 0]
        topic.partitions[1].log_end_offset = 100
        with monkeypatch.context() as patched:
            driver = broker.cluster.shards.for_id("g").driver
            assert driver is not None
            patched.setattr(driver.coordinator, "handle", None)
            assert await commit(client, member_id, 40) == [0, 0]
        assert await committed(client) == {1: 40, 0: 41}
        event: Any = broker.events.recent("g")[-1]
        assert (event["kind"], event["member_id"]) == ("offsets_committed", member_id)
        rows = [
            (e["partition"], e["offset"], e["end_offset"]) for e in event["offsets"]
        ]
        assert rows == [(1, 40, 100), (0, 41, 0)]


async def test_a_repeated_commit_of_a_topic_that_changes() -> None:
    """Its topic is deleted, and created again with fewer and with more partitions."""
    async with Broker(FAST) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        member_id = await stable(client)
        for offset in (10, 20, 30):
            assert await commit(client, member_id, offset) == [0, 0]
        await delete(broker)
        assert await commit(client, member_id, 40) == [UNKNOWN, UNKNOWN]
        broker.cluster.create_topic("t", 3)
        assert await commit(client, member_id, 50) == [0, 0]
        assert await committed(client) == {1: 50, 0: 51}
        await delete(broker)
        broker.cluster.create_topic("t", 1)
        assert await commit(client, member_id, 60) == [UNKNOWN, 0]


async def test_a_repeated_commit_of_another_generation() -> None:
    """A layout does not cover the generation: each commit's is checked."""
    async with Broker(FAST) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        member_id = await stable(client)
        for offset in (10, 20, 30):
            assert await commit(client, member_id, offset) == [0, 0]
        wrong = [ErrorCode.ILLEGAL_GENERATION] * 2
        assert await commit(client, member_id, 40, generation=2) == wrong
        assert await committed(client) == {1: 30, 0: 31}
