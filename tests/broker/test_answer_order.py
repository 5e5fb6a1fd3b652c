"""Partitions in responses have Kafka's order, which may differ from the request's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.client import WireClient, served

from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest

NOWHERE = bytes(range(16))
"""An id without a topic."""
ASKED = [("a", [0, 7, 1]), ("nope", [0, 1]), ("b", [0]), ("a", [9, 2])]
"""Topics with (partition, error code) each, in the order of a response."""

Rows = list[tuple[str, list[tuple[int, int]]]]


async def _make_topics(client: WireClient) -> dict[str, bytes]:
    request = CreateTopicsRequest(
        [CreatableTopic("a", 3, 1), CreatableTopic("b", 1, 1)]
    )
    made = await client.call("CreateTopics", 7, request)
    return {topic.name: topic.topic_id for topic in made.topics}


def _rows(topics: Any, name: str, ids: dict[str, bytes]) -> Rows:
    """Topics with (partition, error code) each, in the order of an answer."""
    names = {topic_id: name for name, topic_id in ids.items()} | {NOWHERE: "nope"}
    return [
        (
            getattr(topic, name) or names[topic.topic_id],
            [(p.partition_index, p.error_code) for p in topic.partitions],
        )
        for topic in topics
    ]


async def commit(client: WireClient, version: int, ids: dict[str, bytes]) -> Rows:
    """Commits an offset of each partition in `ASKED`."""
    topics = [
        OffsetCommitRequestTopic(
            topic if version < 10 else "",
            ids.get(topic, NOWHERE) if version >= 10 else bytes(16),
            [OffsetCommitRequestPartition(p, 1) for p in partitions],
        )
        for topic, partitions in ASKED
    ]
    request = OffsetCommitRequest("g", topics=topics)
    answer = await client.call("OffsetCommit", version, request)
    return _rows(answer.topics, "name", ids)


async def fetch(client: WireClient, version: int, ids: dict[str, bytes]) -> Rows:
    """Fetches each partition in `ASKED`."""
    topics = [
        FetchTopic(
            topic if version < 13 else "",
            ids.get(topic, NOWHERE) if version >= 13 else bytes(16),
            [FetchPartition(p, partition_max_bytes=100) for p in partitions],
        )
        for topic, partitions in ASKED
    ]
    answer = await client.call("Fetch", version, FetchRequest(topics=topics))
    return _rows(answer.responses, "topic", ids)


@pytest.mark.parametrize("version", [2, 8, 10])
async def test_offset_commit_names_unknown_partitions_first(version: int) -> None:
    """One entry per topic: first the unknown partitions, then the known ones."""
    async with served(auto_create_topics_enable=False) as client:
        unknown = 3 if version < 10 else 100
        assert await commit(client, version, await _make_topics(client)) == [
            ("a", [(7, 3), (9, 3), (0, 0), (1, 0), (2, 0)]),
            ("nope", [(0, unknown), (1, unknown)]),
            ("b", [(0, 0)]),
        ]


@pytest.mark.parametrize("version", [4, 12])
async def test_fetch_names_unknown_partitions_last(version: int) -> None:
    """A topic has an entry for each run of its partitions."""
    async with served(auto_create_topics_enable=False) as client:
        assert await fetch(client, version, await _make_topics(client)) == [
            ("a", [(0, 0), (1, 0)]),
            ("b", [(0, 0)]),
            ("a", [(2, 0), (7, 3)]),
            ("nope", [(0, 3), (1, 3)]),
            ("a", [(9, 3)]),
        ]


async def test_fetch_names_unknown_topic_ids_before_unknown_partitions() -> None:
    """From v13 on, with topic ids, unknown ids come before unknown partitions."""
    async with served(auto_create_topics_enable=False) as client:
        assert await fetch(client, 13, await _make_topics(client)) == [
            ("a", [(0, 0), (1, 0)]),
            ("b", [(0, 0)]),
            ("a", [(2, 0)]),
            ("nope", [(0, 100), (1, 100)]),
            ("a", [(7, 3), (9, 3)]),
        ]
