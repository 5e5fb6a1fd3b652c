"""Topics by their ids in Metadata (KIP-516)."""

from __future__ import annotations

import pytest
from tests.wire.client import served

from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.errors import ErrorCode

SOME_ID = bytes(range(16))


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "asked",
    [
        MetadataRequestTopic(SOME_ID, "known"),
        MetadataRequestTopic(SOME_ID, None),
        MetadataRequestTopic(bytes(16), None),
    ],
    ids=["id and name", "id", "null name"],
)
async def test_versions_that_take_no_ids_refuse_all_topics(
    version: int, asked: MetadataRequestTopic
) -> None:
    """They have fields for ids, but no null name: as in Kafka, all are refused."""
    async with served() as client:
        request = MetadataRequest([MetadataRequestTopic(name="t"), asked])
        answer = await client.call("Metadata", version, request)
        found = [(each.error_code, each.name, each.topic_id) for each in answer.topics]
        refused = ErrorCode.INVALID_REQUEST
        assert found == [
            (refused, "t", bytes(16)),
            (refused, asked.name or "", asked.topic_id),
        ]
        assert answer.brokers == []
        known = await client.call("Metadata", version, MetadataRequest([]))
        assert known.topics == []


async def test_an_unknown_id_has_no_name() -> None:
    """From v12 on, an unknown id has a null name."""
    async with served() as client:
        request = MetadataRequest([MetadataRequestTopic(SOME_ID, None)])
        (found,) = (await client.call("Metadata", 12, request)).topics
        error = ErrorCode.UNKNOWN_TOPIC_ID
        assert (found.error_code, found.name, found.topic_id) == (error, None, SOME_ID)
