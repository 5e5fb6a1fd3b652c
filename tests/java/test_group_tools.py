"""Apache Kafka's own tools list, describe, configure and delete consumer groups."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.broker.test_consumer_groups import AT_ONCE, beat, described
from tests.java.conftest import TOOLS, Tool
from tests.wire.client import WireClient, connected

from kohort.broker.server import Broker

pytestmark = pytest.mark.interop
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker with a topic."""
    async with Broker(AT_ONCE) as broker:
        broker.cluster.create_topic("t", 2)
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[WireClient]:
    """A connection to it."""
    async with connected(broker) as client:
        yield client


async def test_consumer_groups(broker: Broker, client: WireClient, tool: Tool) -> None:
    """The tool shows type, state, epochs and members; it deletes an empty group."""
    epoch = (await beat(client)).member_epoch
    printed = await tool(GROUPS, "--list", "--type", "--state")
    assert printed.splitlines()[-1].split() == ["g", "Consumer", "Stable"]
    printed = await tool(GROUPS, "--describe", "--group", "g", "--state", "--verbose")
    row = printed.splitlines()[-1].split()
    assert row[0] == "g"
    assert row[-5:] == ["uniform", "Stable", str(epoch), str(epoch), "1"]
    printed = await tool(GROUPS, "--describe", "--group", "g", "--members", "--verbose")
    assert "t:0,1" in printed
    await beat(client, epoch=-1)
    printed = await tool(GROUPS, "--delete", "--group", "g")
    assert "successful" in printed
    assert (await described(client)).error_code


async def test_configuration(broker: Broker, client: WireClient, tool: Tool) -> None:
    """A group's heartbeat interval is set, shown, in force, and deleted."""
    group = ["--entity-type", "groups", "--entity-name", "g"]
    key = "consumer.heartbeat.interval.ms"
    await tool(CONFIGS, "--alter", *group, "--add-config", f"{key}=7000")
    assert (await beat(client)).heartbeat_interval_ms == 7_000
    assert f"{key}=7000" in await tool(CONFIGS, "--describe", *group)
    printed = await tool(CONFIGS, "--describe", "--entity-type", "groups")
    assert "Dynamic configs for group g are:" in printed
    await tool(CONFIGS, "--alter", *group, "--delete-config", key)
    assert f"{key}=7000" not in await tool(CONFIGS, "--describe", *group)
