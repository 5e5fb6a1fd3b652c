"""The number of GROUP_MAX_SIZE_REACHED: 77 in KIP-389's text, 81 in Apache Kafka."""

from __future__ import annotations

import pytest
from tests.wire.client import WireClient, connected
from tests.wire.requests import join_group

from kohort.broker.server import Broker
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest

APACHE, KIP_389 = 81, 77


async def code_of_a_second_member(client: WireClient, software: str | None) -> int:
    """The raw error code for a second member when the group of one is full."""
    if software is not None:
        await client.call("ApiVersions", 3, ApiVersionsRequest(software, "1.0"))
    join = join_group()
    response = await client.call("JoinGroup", 3, join)
    if not response.error_code:
        response = await client.call("JoinGroup", 3, join)
    code = response.error_code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("numbering", "software", "code"),
    [
        ("auto", "kohort", KIP_389),
        ("auto", "librdkafka", APACHE),
        ("auto", None, APACHE),
        ("kip-389", "librdkafka", KIP_389),
        ("kip-389", None, KIP_389),
        ("apache", "kohort", APACHE),
        ("apache", None, APACHE),
    ],
)
async def test_the_number_depends_on_the_connection(
    numbering: str, software: str | None, code: int
) -> None:
    """Released clients know only 81; kohort's own also knows the KIP's 77."""
    config = {
        "wire.error.numbering": numbering,
        "group.max.size": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    async with Broker(config) as broker, connected(broker) as client:
        assert await code_of_a_second_member(client, software) == code
