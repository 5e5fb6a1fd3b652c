"""Group settings are read-only at run time, as in Apache Kafka."""

from __future__ import annotations

import pytest
from tests.broker.test_admin_configs import BROKER, SET, change, replace, show
from tests.wire.client import served

from kohort.broker.config import Config
from kohort.protocol.errors import ErrorCode

KEYS = {
    "group.initial.rebalance.delay.ms": "5",
    "group.max.session.timeout.ms": "60000",
    "group.max.size": "5",
    "group.min.session.timeout.ms": "10",
    "offset.metadata.max.bytes": "10",
    "offsets.retention.check.interval.ms": "1000",
    "offsets.retention.minutes": "1",
}
"""The keys of group settings, with values other than the defaults."""

EVERY_BROKER = ""


def test_the_values_are_other_than_the_defaults() -> None:
    """So a refusal below is not due to a change without effect."""
    defaults = Config({})
    assert all(str(defaults[key]) != value for key, value in KEYS.items())


@pytest.mark.parametrize("broker", ["1", EVERY_BROKER])
@pytest.mark.parametrize("key", KEYS)
async def test_a_group_setting_cannot_be_changed(key: str, broker: str) -> None:
    """Both APIs answer INVALID_REQUEST, and the setting stays."""
    value = KEYS[key]
    async with served() as client:
        before = await show(client, key, "1", BROKER)
        assert before.read_only
        assert await change(client, (BROKER, broker, {key: (SET, value)})) == [
            ErrorCode.INVALID_REQUEST
        ]
        assert await replace(client, (BROKER, broker, {key: value})) == [
            ErrorCode.INVALID_REQUEST
        ]
        assert await show(client, key, "1", BROKER) == before
