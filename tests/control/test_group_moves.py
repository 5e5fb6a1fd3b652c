"""Partitions that move: committed offsets and redelivered records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.control.members import (
    AT_ONCE,
    TOPIC,
    Member,
    fetch,
    produce,
    rebalanced,
    stable,
    synced,
)
from tests.wire.client import WireClient, connected, connections

from kohort.broker.server import Broker
from kohort.control.group import Group, Move
from kohort.control.why import history

RECORDS = 10


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker whose time stands still, with ten records in each of two partitions."""
    async with (
        Broker(AT_ONCE, clock="manual", watch_fetches=True) as broker,
        connected(broker) as client,
    ):
        broker.cluster.create_topic(TOPIC, 2)
        for partition in (0, 1):
            await produce(client, partition, RECORDS)
        yield broker


class Scene:
    """A member with both partitions, and the connection of a second one."""

    def __init__(self, broker: Broker, clients: list[WireClient]) -> None:
        self.group = Group(broker, "g")
        self.one, self.two = clients
        self.first: Member
        self.second = Member(self.two)

    async def read(self, committed: int) -> None:
        """The first member is sent all records of partition 1, and commits some."""
        self.first = await stable(self.one)
        await fetch(self.one, 1, 0)
        if committed:
            await self.first.commit((1, committed))

    @property
    def move(self) -> Move:
        """The move of partition 1, the only one."""
        (move,) = self.group.moves
        assert (move.topic, move.partition) == (TOPIC, 1)
        return move


@pytest.fixture
async def scene(broker: Broker) -> AsyncIterator[Scene]:
    """See `Scene`."""
    async with connections(broker, 2) as clients:
        yield Scene(broker, clients)


async def test_all_was_committed(scene: Scene) -> None:
    """Nothing is delivered again; the move names both owners."""
    await scene.read(RECORDS)
    await rebalanced(scene.group, scene.first, scene.second)
    await fetch(scene.two, 1, RECORDS)
    move = scene.move
    assert (move.source, move.target) == (scene.first.id, scene.second.id)
    assert (move.generation, move.how) == (2, "revoked")
    assert (move.committed, move.sent, move.uncommitted) == (RECORDS, RECORDS, 0)
    assert move.committed_before_release is True
    assert move.redelivered == scene.group.redelivered == 0


async def test_a_member_that_does_not_commit_before_the_revocation(
    scene: Scene,
) -> None:
    """It has committed 4 of 10 records some time ago: 6 are delivered again."""
    await scene.read(4)
    await rebalanced(scene.group, scene.first, scene.second)
    assert scene.group.redelivered == 6
    await fetch(scene.two, 1, 4)
    assert scene.group.redelivered == 6
    await fetch(scene.two, 1, RECORDS)
    assert scene.move.uncommitted == 6
    assert scene.move.committed_before_release is False
    assert scene.group.redelivered == scene.move.redelivered == 6


async def test_the_last_event_has_what_is_not_committed(
    scene: Scene, broker: Broker
) -> None:
    """Also if all that happened since the one before is a commit."""
    await scene.read(4)
    await fetch(scene.one, 1, RECORDS)
    told = []
    for offset in (4, RECORDS):
        await scene.first.commit((1, offset))
        broker.events.finish_accounts()
        events = broker.events.recent("g")
        told += [e["uncommitted"] for e in events if e["kind"] == "delivery_account"]
    assert told == [6, 6, 0]


async def test_findings_about_records_are_events(scene: Scene, broker: Broker) -> None:
    """They have what `kohort why` finds: also of the last records and commits."""
    await scene.read(4)
    await rebalanced(scene.group, scene.first, scene.second)
    await fetch(scene.two, 1, 4)
    await fetch(scene.two, 1, RECORDS)
    await scene.second.commit((1, 3))
    broker.events.finish_accounts()
    events = broker.events.recent("g")
    told = {e["code"]: e["title"] for e in events if e["kind"] == "finding"}
    assert told.keys() == {"not-committed-on-revocation", "offset-went-back"}
    found = history(events, "g").findings
    assert told == {each.code: each.title for each in found}


async def test_a_commit_in_the_rebalance_counts(scene: Scene, broker: Broker) -> None:
    """Records behind it were fetched ahead: the member gives them back."""
    await scene.read(4)
    joining = asyncio.create_task(scene.second.join())
    await scene.group.until(state="PreparingRebalance", members=2)
    broker.events.finish_accounts()
    await scene.first.commit((1, 7))
    await scene.first.join()
    await joining
    await synced(scene.first, scene.second)
    await fetch(scene.two, 1, 7)
    assert (scene.move.committed, scene.move.uncommitted) == (7, 3)
    assert scene.move.committed_before_release is True
    assert scene.group.redelivered == 0
    await fetch(scene.two, 1, RECORDS)
    broker.events.finish_accounts()
    events = broker.events.recent("g")
    told = [e["received"] for e in events if e["kind"] == "delivery_account"]
    assert sum(told) == RECORDS


async def test_a_cooperative_member_commits_once_it_knows(scene: Scene) -> None:
    """After the SyncGroup that takes the partition away, before it joins again."""
    scene.first = Member(scene.one, "cooperative-sticky")
    scene.second = Member(scene.two, "cooperative-sticky")
    first, second = scene.first, scene.second
    await first.join()
    await first.sync([0, 1])
    await fetch(scene.one, 1, 0)
    joining = asyncio.create_task(second.join())
    await scene.group.until(state="PreparingRebalance", members=2)
    await first.join(0, 1)
    await joining
    shares = {first.id: [0], second.id: []}
    await first.sync(*(shares[each] for each in first.others))
    await second.sync()
    await first.commit((1, 8))
    joining = asyncio.create_task(first.join(0))
    await scene.group.until(state="PreparingRebalance")
    await second.join()
    await joining
    await synced(first, second)
    await fetch(scene.two, 1, 8)
    assert scene.move.committed_before_release is True
    assert (scene.move.generation, scene.group.redelivered) == (3, 0)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_member_leaves(scene: Scene, commits: bool) -> None:
    """The commit of its `close` comes after the last records that it was sent."""
    scene.first = await stable(scene.one)
    await scene.first.commit((0, RECORDS), (1, 4))
    await fetch(scene.one, 1, 4)
    if commits:
        await scene.first.commit((1, 5))
    await scene.first.leave()
    await scene.second.join()
    await scene.second.sync([0, 1])
    moves = {move.partition: move for move in scene.group.moves}
    assert moves[1].how == "left"
    assert moves[1].uncommitted == (5 if commits else 6)
    assert moves[1].committed_before_release is commits
    # It was sent no record of the other one.
    assert moves[0].sent is None
    assert moves[0].committed_before_release is True


async def test_a_member_crashes(scene: Scene, broker: Broker) -> None:
    """It had no time to commit the last records sent to it."""
    await scene.read(4)
    await broker.clock.advance(10, credit_heartbeats=False)
    await scene.second.join()
    await scene.second.sync([0, 1])
    await fetch(scene.two, 1, 4)
    moves = {move.partition: move for move in scene.group.moves}
    assert (moves[1].how, moves[1].committed_before_release) == ("expired", False)
    assert scene.group.redelivered == 6


async def test_a_partition_comes_back(scene: Scene) -> None:
    """Records that its owner was sent in an earlier life of it do not count again."""
    await scene.read(RECORDS)
    await rebalanced(scene.group, scene.first, scene.second)
    await fetch(scene.two, 1, RECORDS)
    await scene.second.leave()
    await scene.first.join()
    await scene.first.sync([0, 1])
    await fetch(scene.one, 1, RECORDS)
    there, back = scene.group.moves
    assert (there.source, there.target) == (back.target, back.source)
    assert (there.sent, back.sent) == (RECORDS, None)
    assert back.committed_before_release is True
    assert scene.group.redelivered == 0


async def test_a_previous_owner_that_fetches_on_is_no_new_owner(scene: Scene) -> None:
    """The two have one client id: their connections differ."""
    await scene.read(RECORDS)
    await rebalanced(scene.group, scene.first, scene.second)
    await fetch(scene.one, 1, 3)
    await fetch(scene.two, 1, RECORDS)
    assert scene.group.redelivered == 0


async def test_an_answer_on_its_way_does_not_count(scene: Scene) -> None:
    """The partition has another owner: a client drops such records."""
    await scene.read(RECORDS)
    await rebalanced(scene.group, scene.first, scene.second)
    await produce(scene.one, 1, 5)
    await fetch(scene.one, 1, RECORDS)
    await fetch(scene.two, 1, RECORDS)
    assert scene.group.redelivered == 0


async def test_a_commit_whose_event_is_forgotten(tmp_path: Path) -> None:
    """It was before a restart: the group still has the offset."""
    async with Broker(AT_ONCE, data_dir=tmp_path) as broker, connected(broker) as one:
        broker.cluster.create_topic(TOPIC, 2)
        await produce(one, 1, RECORDS)
        first = await stable(one)
        await first.commit((1, RECORDS))
    async with (
        Broker(AT_ONCE, data_dir=tmp_path, watch_fetches=True) as broker,
        connections(broker, 2) as clients,
    ):
        await broker.wait_until_loaded()
        scene = Scene(broker, clients)
        first.client = scene.one
        await fetch(scene.one, 1, 0)
        await rebalanced(scene.group, first, scene.second)
        assert (scene.move.committed, scene.move.sent) == (RECORDS, RECORDS)
        assert scene.move.committed_before_release is True


async def test_fetches_that_are_not_watched() -> None:
    """Then nothing is known of records."""
    async with Broker(AT_ONCE) as broker, connections(broker, 2) as clients:
        broker.cluster.create_topic(TOPIC, 2)
        scene = Scene(broker, clients)
        await produce(scene.one, 1, RECORDS)
        await scene.read(RECORDS)
        await rebalanced(scene.group, scene.first, scene.second)
        move = scene.move
        assert (move.committed, move.sent, move.redelivered) == (None, None, None)
        assert move.committed_before_release is None
        with pytest.raises(RuntimeError, match="watch_fetches=True"):
            _ = scene.group.redelivered


async def test_a_group_that_does_not_exist_has_no_moves(broker: Broker) -> None:
    """Nor are records delivered again."""
    group = Group(broker, "nobody")
    assert group.moves == []
    assert group.redelivered == 0


async def test_another_cluster_has_other_records(scene: Scene, broker: Broker) -> None:
    """A group of the same name begins a new account."""
    await scene.read(4)
    await rebalanced(scene.group, scene.first, scene.second)
    assert scene.group.redelivered == 6
    await broker.replace()
    assert scene.group.redelivered == 0
    assert scene.group.peek_delivery().records == 0
