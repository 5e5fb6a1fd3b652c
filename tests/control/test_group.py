"""A group's handle: members by name, commands, moves, and the errors of all that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from tests.broker.test_cluster import cluster, heartbeat, join, stable, until
from tests.wire.client import WireClient, connected
from tests.wire.requests import delete_topics, join_group, sync_group

from kohort.broker.server import Broker
from kohort.control.group import (
    Group,
    MemberRow,
    PowerError,
    UnknownGroupError,
    UnknownMemberError,
)
from kohort.protocol.consumer import Assignment, TopicPartitions, encode
from kohort.protocol.errors import ErrorCode


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """Two nodes, so that a coordinator can move."""
    async with cluster(2) as broker:
        broker.cluster.shards.index_of("g")
        yield broker


@pytest.fixture
def group(broker: Broker) -> Group:
    """The handle of a group that does not exist yet."""
    return Group(broker, "g")


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[WireClient]:
    """A connection to the group's coordinator."""
    async with connected(broker, broker.coordinator_of("g")) as client:
        yield client


def test_before_it_exists(group: Group) -> None:
    """It is described as Dead; it can be held and limited, but nothing else."""
    group.hold()
    group.limit(3)
    described = group.describe()
    assert json.loads(json.dumps(described)) == described
    assert (described["state"], described["generation"]) == ("Dead", -1)
    assert (described["held"], described["max_size"]) == ("PreparingRebalance", 3)
    group.limit(None)
    group.release()
    assert (group.held, group.max_size) == (None, None)
    for command in (lambda: group.kick("ana"), group.rebalance):
        with pytest.raises(UnknownGroupError, match="there are no groups yet"):
            command()


async def test_described(group: Group, client: WireClient) -> None:
    """A member of a Stable group, with its partitions."""
    member_id = (await join(client)).member_id
    parts = encode(Assignment([TopicPartitions("t", [1, 0])]), 0)
    await client.call(
        "SyncGroup", 5, sync_group(member_id, assignments={member_id: parts})
    )
    described = group.describe()
    assert json.loads(json.dumps(described)) == described
    assert described == {
        "group": "g",
        "state": "Stable",
        "type": "classic",
        "generation": 1,
        "assignment_epoch": None,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": member_id,
        "coordinator": group.coordinator,
        "held": None,
        "max_size": None,
        "rebalances": 1,
        "members": [
            {
                "member_id": member_id,
                "instance_id": None,
                "client_id": group.members[0].client_id,
                "host": "/127.0.0.1",
                "is_muted": False,
                "is_pending": False,
                "waits_for": None,
                "epoch": None,
                "step": None,
                "assignment": {"t": [0, 1]},
                "target": {},
            }
        ],
        "pending_members": [],
    }


async def test_held(group: Group, client: WireClient) -> None:
    """A member's join waits for the release."""
    group.hold()
    joining = asyncio.create_task(join(client))
    await until(lambda: bool(group.members))
    assert (group.state, group.members[0].waits_for) == ("PreparingRebalance", "join")
    group.release()
    assert (await joining).error_code == 0
    with pytest.raises(PowerError, match="group 'g': the group is not held"):
        group.release()


async def test_by_any_name(group: Group, client: WireClient) -> None:
    """A member id, an instance id, a client id, a row of `members`, or a function."""
    request = join_group("g", instance="i-1", session_ms=300_000)
    member_id = (await client.call("JoinGroup", 9, request)).member_id
    (row,) = group.members
    names: list[str | MemberRow | Callable[[MemberRow], object]] = [
        member_id,
        "i-1",
        row.client_id,
        row,
        lambda each: each.instance_id == "i-1",
    ]
    for name in names:
        assert group.mute(name) == row
        assert group.members[0].is_muted
        group.unmute(name)
    assert group.mute(instance_id="i-1") == row
    assert group.mute(client_id=row.client_id).is_muted
    with pytest.raises(UnknownMemberError, match="member_id 'i-1'; its members"):
        group.mute(member_id="i-1")
    for wrong in ({}, {"member_id": "a", "client_id": "b"}):
        with pytest.raises(TypeError, match="give a member, or one of"):
            group.mute(**wrong)


async def test_name_of_none(group: Group, client: WireClient) -> None:
    """The error lists the members, with all their names; pending ones, too."""
    member_id = await stable(client)
    request = join_group("g", session_ms=300_000)
    pending_id = (await client.call("JoinGroup", 9, request)).member_id
    client_id = group.members[0].client_id
    with pytest.raises(UnknownMemberError) as caught:
        group.expire("ana")
    assert str(caught.value) == (
        f"group 'g' has no member 'ana'; its members are: {member_id} (client id "
        f"{client_id!r}), {pending_id} (client id {client_id!r}, pending)"
    )
    with pytest.raises(UnknownMemberError, match="no member that matches the function"):
        group.expire(lambda row: row.is_muted)
    assert group.kick(client_id).member_id == member_id, "members before pending ones"
    assert group.kick(client_id).is_pending
    with pytest.raises(UnknownMemberError, match="no member 'ana'; it has no members"):
        group.expire("ana")


async def test_name_of_several(
    broker: Broker, group: Group, client: WireClient
) -> None:
    """One is needed: the error lists them."""
    await stable(client)
    async with connected(broker, broker.coordinator_of("g")) as other:
        joining = asyncio.create_task(join(other))
        await until(lambda: len(group.members) == 2)
        client_id = group.members[0].client_id
        with pytest.raises(UnknownMemberError) as caught:
            group.kick(client_id)
        assert f"'{client_id}' matches 2 members of group 'g': " in str(caught.value)
        with pytest.raises(UnknownMemberError, match="the function matches 2 mem"):
            group.kick(lambda _: True)
        joining.cancel()


async def test_kicked(group: Group, client: WireClient) -> None:
    """The member is unknown; the history says why."""
    member_id = await stable(client)
    group.kick(member_id, "for a test")
    assert await heartbeat(client, member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state == "Empty"
    history = group.history()
    assert "a test kicked" in history.explain(history.rebalances[-1])
    assert history.last.reason == "for a test"
    with pytest.raises(PowerError, match="a group without members cannot rebalance"):
        group.rebalance()


async def test_expired(group: Group, client: WireClient) -> None:
    """The session ends at once, though its timeout is five minutes."""
    group.expire(await stable(client))
    assert group.members == []
    assert group.history().last.cause == "session_expired"


async def test_moved(broker: Broker, group: Group, client: WireClient) -> None:
    """The next running node coordinates it; its powers go with it."""
    member_id = await stable(client)
    group.mute(member_id)
    before = group.coordinator
    assert group.move() == group.coordinator != before
    await broker.wait_until_loaded()
    assert group.members[0].is_muted
    assert group.move(before) == group.coordinator == before
    with pytest.raises(PowerError, match="there is no node 7; the nodes are 1, 2"):
        group.move(7)
    await broker.stop_node(before)
    with pytest.raises(PowerError, match=r"no other node is running$"):
        group.move()


async def test_a_single_node_has_nowhere_to_move_a_group() -> None:
    """The error says how a cluster gets more nodes."""
    async with Broker() as broker:
        with pytest.raises(PowerError, match="--nodes 2"):
            Group(broker, "billing").move()


async def test_all_groups_deleted(
    broker: Broker, group: Group, client: WireClient
) -> None:
    """With ``__consumer_offsets``: mutes and counts go, a hold applies to its name."""
    group.mute(await stable(client))
    group.hold()
    request = delete_topics("__consumer_offsets")
    deleted = await client.call("DeleteTopics", 6, request)
    assert [each.error_code for each in deleted.responses] == [0]
    broker.cluster.shards.index_of("g")
    assert (group.state, group.rebalances) == ("Dead", 0)
    assert group.held == "PreparingRebalance"
    assert not broker.cluster.shards.lasting.muted


COMMANDS: list[Callable[[Group], object]] = [
    Group.hold,
    Group.release,
    Group.rebalance,
    lambda group: group.limit(3),
    lambda group: group.kick("ana"),
    lambda group: group.unmute(member_id="ana"),
]


@pytest.mark.parametrize("command", COMMANDS)
async def test_loading(command: Callable[[Group], object]) -> None:
    """A coordinator that loads its groups takes no command: they may yet be there."""
    async with Broker({"coordinator.load.delay.ms": 1}, clock="manual") as broker:
        broker.cluster.shards.index_of("g")
        with pytest.raises(PowerError, match="no coordinator now: its shard is load"):
            command(Group(broker, "g"))


@pytest.mark.parametrize("command", COMMANDS)
async def test_without_a_coordinator(
    broker: Broker, group: Group, command: Callable[[Group], object]
) -> None:
    """A group that no node coordinates takes no command."""
    for node in [*broker.cluster.running]:
        await broker.stop_node(node)
    with pytest.raises(PowerError, match="no coordinator now: its shard is unloaded"):
        command(group)


def test_state_that_cannot_be_held(group: Group) -> None:
    """The error lists the states."""
    with pytest.raises(PowerError, match="'Joining'; the states are: Empty, "):
        group.hold("Joining")
    with pytest.raises(PowerError, match="not in Stable"):
        group.hold("stable")
    group.hold("completingrebalance")
    assert group.held == "CompletingRebalance"


async def test_restarted_node(broker: Broker) -> None:
    """It has its port again, and leads nothing that has another leader."""
    node = broker.coordinator_of("g")
    port = broker.cluster.node(node).port
    await broker.restart_node(node)
    assert broker.cluster.node(node).port == port
    assert node in broker.cluster.running
    assert broker.coordinator_of("g") != node
