"""What a consumer says of its membership."""

from __future__ import annotations

import pytest
from tests.client.consuming import consumer, fill, poll_until, until_members

from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.errors import ClosedError, ConfigError


async def test_a_consumer_tells_its_membership() -> None:
    """Group, generation and ids are those that the broker has; none before and after."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        await fill(broker, counts=[1, 1])
        reader = consumer(broker, "t", group_id="g", group_instance_id="one")
        with pytest.raises(ClosedError):
            reader.group_metadata()
        async with reader:
            assert reader.group_metadata() == ("g", -1, "", "one")
            await poll_until(lambda: bool(reader.assignment()), reader)
            await until_members(broker, 1)
            said = reader.group_metadata()
            assert said.generation_id == 1
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                described = (await admin.describe_consumer_groups(["g"]))["g"]
            assert [m.member_id for m in described.members] == [said.member_id]
        with pytest.raises(ClosedError):
            reader.group_metadata()


async def test_without_a_group_there_is_no_membership() -> None:
    """As for subscribing, the setting that is missing is named."""
    async with Broker() as broker, consumer(broker) as reader:
        with pytest.raises(ConfigError, match="group_id"):
            reader.group_metadata()
