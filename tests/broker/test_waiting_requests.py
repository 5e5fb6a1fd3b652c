"""Joins and syncs that only wait for others need no event, and keep their own data.

Those that are equal but for the member id share one `Join`: see `k11_join_group`.
"""

from __future__ import annotations

import pytest
from tests.faults.scene import Peer, Scene
from tests.wire.requests import join_group, sync_group

from kohort.broker.coordinator.effects import Effect
from kohort.broker.coordinator.events import Event, Join, Sync
from kohort.protocol.slotted import replace

Members = dict[str, Peer]
"""The connections of a group's members by member id; the leader's comes first."""


@pytest.fixture
async def scene() -> Scene:
    """One node, without an initial delay."""
    return Scene()


def join(peer: Peer, member_id: str, reason: str | None = None) -> None:
    """Sends a JoinGroup with a reason."""
    peer.send("JoinGroup", 9, replace(join_group("g", member_id), reason=reason))


async def sync(scene: Scene, members: Members) -> None:
    """Syncs all members, the leader last; each gets its id as its assignment."""
    for member_id, peer in reversed(members.items()):
        joined = peer.answers[-1]
        made = {}
        if member_id == joined.leader:
            made = {each: each.encode() for each in members}
        request = sync_group(member_id, joined.generation_id, assignments=made)
        peer.send("SyncGroup", 5, request)
    await scene.settled()
    for member_id, peer in members.items():
        assert peer.answers[-1].assignment == member_id.encode()


async def group_of(scene: Scene, size: int) -> Members:
    """A stable group."""
    members: Members = {}
    for number in range(size):
        peer = scene.peer()
        member_id = (await peer.call("JoinGroup", 9, join_group())).member_id
        members[member_id] = peer
        join(peer, member_id)
        if not number:
            await scene.settled()
            await sync(scene, members)
    first, *_ = members
    join(members[first], first)
    await scene.settled()
    await sync(scene, members)
    return members


async def test_a_rebalance_of_members_that_join_alike(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first join, the last, and the leader's sync have effects."""
    members = await group_of(scene, 6)
    driver, handled = scene.cluster.shards.for_id("g").driver, list[str]()
    assert driver is not None
    handle = driver.coordinator.handle

    def counted(event: Event, now: float) -> list[Effect]:
        if isinstance(event, Join | Sync):
            handled.append(type(event).__name__)
        return handle(event, now)

    monkeypatch.setattr(driver.coordinator, "handle", counted)
    for member_id, peer in members.items():
        join(peer, member_id)
    await scene.settled()
    assert {peer.answers[-1].generation_id for peer in members.values()} == {3}
    await sync(scene, members)
    assert handled == ["Join", "Join", "Sync"]


async def test_members_that_join_in_turns(scene: Scene) -> None:
    """Each event has its member's own reason, also beside that of the one before."""
    members = await group_of(scene, 6)
    reasons = dict(zip(members, ["a", "a", "b", "b", "a", None], strict=True))
    before = len(scene.events.recent("g"))
    for member_id, peer in members.items():
        join(peer, member_id, reasons[member_id])
    await scene.settled()
    told = {
        event["member_id"]: event["reason"]
        for event in scene.events.recent("g")[before:]
        if event["kind"] == "member_joined"
    }
    assert told == reasons
    await sync(scene, members)
