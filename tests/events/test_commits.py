"""Events of commits: ends of logs, and commits that no coordinator handles."""

from __future__ import annotations

from tests.broker.test_cluster import offsets, stable
from tests.events.checks import check
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.client import Producer
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.errors import ErrorCode

FAST = {"group.initial.rebalance.delay.ms": 0}


async def test_an_unknown_topic() -> None:
    """A refused commit has an event, with its sender as far as it is known."""
    async with Broker(FAST) as broker, connected(broker) as wire:
        member_id = await stable(wire)
        for group in ("g", "nobody's"):
            topics = offsets(1, topic="unknown").topics
            request = OffsetCommitRequest(group, 1, member_id, topics=topics)
            await wire.call("OffsetCommit", 8, request)
        mine, others = (
            event
            for event in broker.events.recent()
            if event["kind"] == "commit_refused"
        )
        check(mine)
        check(others)
        assert mine["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        assert [row["topic"] for row in mine["offsets"]] == ["unknown"]
        assert (mine["group"], mine["generation"]) == ("g", 1)
        assert (mine["member_id"], mine["client_id"]) == (member_id, "wire-client")
        assert (others["group"], others["generation"]) == ("nobody's", None)
        for fact in ("client_id", "host", "connection"):
            assert others[fact] == mine[fact], "the request's own"
        assert mine["connection"] == 1


async def test_a_part_of_a_commit() -> None:
    """Known partitions are committed, unknown ones are refused; by ids, too."""
    async with Broker(FAST) as broker, connected(broker) as wire:
        topic = broker.cluster.create_topic("t", 1, 1)
        partitions = [OffsetCommitRequestPartition(each, 7) for each in (0, 5)]
        unknown = bytes(range(16))
        topics = [
            OffsetCommitRequestTopic("", topic.id, partitions),
            OffsetCommitRequestTopic("", unknown, partitions[:1]),
        ]
        request = OffsetCommitRequest("g", topics=topics)
        answer = await wire.call("OffsetCommit", 10, request)
        codes = [p.error_code for each in answer.topics for p in each.partitions]
        assert codes == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            0,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        told = {
            (event["kind"], event.get("error"), row["topic"], row["partition"])
            for event in broker.events.recent("g")
            if event["kind"] in {"offsets_committed", "commit_refused"}
            for row in event["offsets"]
        }
        assert told == {
            ("commit_refused", "UNKNOWN_TOPIC_OR_PARTITION", "t", 5),
            ("commit_refused", "UNKNOWN_TOPIC_ID", unknown.hex(), 0),
            ("offsets_committed", None, "t", 0),
        }


async def test_the_ends_of_logs() -> None:
    """An offset's event has the log's end at that time: the difference is the lag."""
    async with (
        Broker(FAST) as broker,
        connected(broker) as wire,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        topic = broker.cluster.create_topic("t", 1, 1)
        rows = [OffsetCommitRequestPartition(0, 1)]
        topics = [OffsetCommitRequestTopic("", topic.id, rows)]
        for group, generation in (("g", -1), ("g", -1), ("nobody's", 1)):
            await wire.call(
                "OffsetCommit",
                10,
                OffsetCommitRequest(group, generation, topics=topics),
            )
            await producer.send_and_wait("t", b"one more")
        told = [
            (event["kind"], row["offset"], row["end_offset"])
            for event in broker.events.recent()
            if event["kind"] in {"offsets_committed", "commit_refused"}
            for row in event["offsets"]
        ]
        assert told == [
            ("offsets_committed", 1, 0),
            ("offsets_committed", 1, 1),
            ("commit_refused", 1, 2),
        ]
