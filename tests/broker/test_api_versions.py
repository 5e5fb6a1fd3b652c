"""The APIs and features of older brokers: ``api.versions``."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.client import served
from tests.wire.requests import fetch

from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.apis.k57_update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.kafka_versions import apis_of
from kohort.protocol.registry import APIS, BY_KEY, BY_NAME

SOFTWARE = ApiVersionsRequest("tests", "1.0")


def newest(answer: Any) -> dict[str, int]:
    """The newest version of each API of a response."""
    return {BY_KEY[row.api_key].name: row.max_version for row in answer.api_keys}


@pytest.mark.parametrize(
    ("kafka", "fetch_v", "commit_v", "features"),
    [
        ("2.8", 12, 8, {}),
        ("3.9", 17, 9, {"metadata.version": 21}),
        (
            "4.0",
            17,
            9,
            {"group.version": 1, "metadata.version": 25, "transaction.version": 2},
        ),
    ],
)
async def test_an_older_broker(
    kafka: str, fetch_v: int, commit_v: int, features: dict[str, int]
) -> None:
    """Its ranges, and the features that it has finalized."""
    async with served(api_versions=kafka) as client:
        answer = await client.call("ApiVersions", 3, SOFTWARE)
    found = newest(answer)
    assert (found["Fetch"], found["OffsetCommit"]) == (fetch_v, commit_v)
    assert "StreamsGroupHeartbeat" not in found
    levels = {row.name: row.max_version_level for row in answer.finalized_features}
    assert levels == features


async def test_the_latest() -> None:
    """Without the key, everything that kohort has."""
    async with served() as client:
        found = newest(await client.call("ApiVersions", 3, SOFTWARE))
    assert found == {api.name: api.newest for api in APIS}


async def test_api_versions_itself_is_refused() -> None:
    """UNSUPPORTED_VERSION in v0, with the versions that the broker has (KIP-511)."""
    async with served(api_versions="2.8") as client:
        await client.send("ApiVersions", 4, SOFTWARE)
        refusal = await client.response("ApiVersions", 0)
        assert refusal.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.max_version) for row in refusal.api_keys] == [(18, 3)]
        await client.is_served()


@pytest.mark.parametrize(
    ("api", "version", "message"),
    [
        ("Fetch", 13, fetch(0)),
        ("DescribeQuorum", 0, BY_NAME["DescribeQuorum"].request_class()),
    ],
    ids=["a newer version", "an API that it lacks"],
)
async def test_others_close_the_connection(
    api: str, version: int, message: object
) -> None:
    """As Kafka does; the same request is answered in a version that the broker has."""
    async with served(api_versions="2.8") as client:
        await client.call("Fetch", 12, fetch(0))
        await client.send(api, version, message)
        await client.is_closed()


async def test_a_feature_that_it_lacks() -> None:
    """Cannot be finalized."""
    update = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey("transaction.version", 2)]
    )
    async with served(api_versions="3.9") as client:
        refused = await client.call("UpdateFeatures", 1, update)
    codes = [row.error_code for row in refused.results] or [refused.error_code]
    assert codes == [ErrorCode.INVALID_UPDATE_VERSION]


def test_each_one_has_no_more_than_the_next() -> None:
    """A misspelt range would be above that of a newer broker."""
    for older, newer in (("2.8", "3.9"), ("3.9", "4.0"), ("4.0", "4.3")):
        for key, api in apis_of(older).items():
            assert api.newest <= apis_of(newer)[key].newest
            assert api.oldest <= api.newest
