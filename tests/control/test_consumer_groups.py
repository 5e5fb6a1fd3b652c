"""Handles, conditions and commands of consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.broker.test_consumer_groups import AT_ONCE, beat
from tests.wire.client import WireClient, connected

from kohort.broker.server import Broker
from kohort.control.conditions import ConditionTimeout
from kohort.control.group import Group
from kohort.control.power import PowerError
from kohort.protocol.errors import ErrorCode


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker with a topic of three partitions."""
    async with Broker(AT_ONCE) as broker:
        broker.cluster.create_topic("t", 3)
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[WireClient]:
    """A connection to it."""
    async with connected(broker) as client:
        yield client


async def test_a_handle_shows_members_and_partitions(
    broker: Broker, client: WireClient
) -> None:
    """The epoch stands for the generation; there is no leader, and none is pending."""
    group = Group(broker, "g")
    assert group.state == "Dead"
    epoch = (await beat(client)).member_epoch
    shown = group.show()
    assert (shown.state, shown.generation, shown.protocol) == (
        "Stable",
        epoch,
        "uniform",
    )
    assert (shown.leader, shown.pending_members) == (None, [])
    (row,) = shown.members
    assert (row.member_id, row.client_id) == ("a", "wire-client")
    assert row.assignment == {"t": [0, 1, 2]}
    assert group.assignment() == {"wire-client": {"t": [0, 1, 2]}}
    assert sum(group.lag().values()) == 0


async def test_conditions_wait_for_its_members(
    broker: Broker, client: WireClient
) -> None:
    """They see epochs and partitions, and say what is missing."""
    group = Group(broker, "g")
    epoch = (await beat(client)).member_epoch
    await group.until(state="Stable", members=1, generation=epoch)
    await group.until_assigned("a", 3)
    await beat(client, "b")
    with pytest.raises(ConditionTimeout, match=r"Reconciling.*b 0, a 3"):
        await group.until_assigned("b", timeout=0)


async def test_members_are_named_kicked_and_expired(
    broker: Broker, client: WireClient
) -> None:
    """They learn of it by their next heartbeat."""
    group = Group(broker, "g")
    for member_id, remove in (("a", group.kick), ("b", group.expire)):
        epoch = (await beat(client, member_id)).member_epoch
        remove(member_id=member_id)
        assert group.members == []
        answer = await beat(client, member_id, epoch)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_group_is_held_while_it_assigns(
    broker: Broker, client: WireClient
) -> None:
    """No member gets partitions until it is released."""
    group = Group(broker, "g")
    await beat(client)
    with pytest.raises(PowerError, match="Assigning or Reconciling"):
        group.hold("PreparingRebalance")
    group.hold("Assigning")
    epoch = (await beat(client, "b")).member_epoch
    assert (group.held, group.state) == ("Assigning", "Assigning")
    group.release()
    await beat(client, "b", epoch)
    assert group.state == "Reconciling"
