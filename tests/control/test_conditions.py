"""Conditions of a group that a test awaits: when they are met, and how they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from collections.abc import Set as AbstractSet

import pytest
from tests.control.members import AT_ONCE, TOPIC, Member, produce, stable
from tests.wire.client import connected, connections

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.server import Broker
from kohort.control import group_views
from kohort.control.conditions import BrokerStoppedError, ConditionTimeout
from kohort.control.group import Group


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker whose time stands still, with a topic of two partitions."""
    async with Broker(AT_ONCE, clock="manual") as broker:
        broker.cluster.create_topic(TOPIC, 2)
        yield broker


async def waits(condition: asyncio.Task[None]) -> bool:
    """True if a condition still waits after some turns of the event loop."""
    for _ in range(20):
        await asyncio.sleep(0)
    return not condition.done()


began = asyncio.create_task
"""A task that awaits a condition."""


# -- states


async def test_a_group_that_does_not_exist_yet_is_awaited(broker: Broker) -> None:
    """From before the first JoinGroup of any group to Stable."""
    group = Group(broker, "g")
    wait = began(group.until(state="Stable", members=1, generation=1))
    async with connected(broker) as client:
        member = Member(client)
        await member.join()
        assert await waits(wait)
        await member.sync([0, 1])
        await wait


async def test_a_state_of_one_turn_is_seen(broker: Broker) -> None:
    """The only member rejoins: the group is Stable again before the test goes on."""
    async with connected(broker) as client:
        member = await stable(client)
        group = Group(broker, "g")
        wait = began(group.until(state="completingrebalance", generation=2))
        assert await waits(wait)
        await member.join()
        await member.sync([0, 1])
        await wait


async def test_a_condition_that_is_met_does_not_wait(broker: Broker) -> None:
    """Not even for a turn of the event loop; so a time-out of 0 asks."""
    group = Group(broker, "g")
    await group.until(state="Dead", timeout=0)
    with pytest.raises(ConditionTimeout, match=r"; the group does not exist"):
        await group.until(members=0, timeout=0)


def test_an_unknown_state_is_refused_at_once() -> None:
    """A wait for it would last until its time-out."""
    with pytest.raises(ValueError, match=r"'Sable'; the states are: .* Stable, Dead"):
        _ = Group(Broker(), "g").until(state="Sable")


async def test_a_number_of_rebalances(broker: Broker) -> None:
    """Met when the last one is over, not when it begins."""
    async with connections(broker, 2) as (one, two):
        first = await stable(one)
        group = Group(broker, "g")
        await group.until_rebalances(1, timeout=0)
        wait = began(group.until_rebalances(2))
        second = Member(two)
        joining = asyncio.create_task(second.join())
        await group.until(state="PreparingRebalance", members=2)
        await first.join()
        await joining
        assert await waits(wait)
        syncing = asyncio.create_task(second.sync())
        await first.sync([0], [1])
        await syncing
        await wait


# -- assignments


async def test_each_member_is_assigned(broker: Broker) -> None:
    """A follower that has not fetched its assignment yet has no partitions."""
    async with connections(broker, 2) as (one, two):
        first = await stable(one)
        group = Group(broker, "g")
        await group.until_assigned(timeout=0)
        second = Member(two)
        joining = asyncio.create_task(second.join())
        await group.until(state="PreparingRebalance", members=2)
        await first.join()
        await joining
        every = began(group.until_assigned())
        of_two = began(group.until_assigned(second.id, 1))
        total = began(group.until_assigned(partitions=2))
        await first.sync([0], [1])
        await group.until(state="Stable")
        assert await waits(every)
        assert await waits(of_two)
        assert await waits(total)
        await second.sync()
        await asyncio.gather(every, of_two, total)
        await group.until_assigned(lambda row: row.member_id == second.id, 1, timeout=0)
        with pytest.raises(ConditionTimeout, match="has assigned 2 partitions to "):
            await group.until_assigned(second.id, 2, timeout=0)


async def test_a_predicate_that_fails_ends_the_wait_alone(broker: Broker) -> None:
    """The broker, in whose turn it was called, goes on."""
    group = Group(broker, "g")
    wait = began(group.until_assigned(lambda row: 1 / len(row.client_id[:0])))
    async with connected(broker) as client:
        await stable(client)
        with pytest.raises(ZeroDivisionError):
            await wait
        await group.until(state="Stable", timeout=0)


async def test_a_member_without_partitions_is_not_assigned(broker: Broker) -> None:
    """The error counts the partitions of each."""
    async with connected(broker) as client:
        member = Member(client)
        await member.join()
        await member.sync([])
        with pytest.raises(ConditionTimeout, match=r"to each member; .*: \S+ 0"):
            await Group(broker, "g").until_assigned(timeout=0)


# -- offsets


async def test_a_committed_offset(broker: Broker) -> None:
    """A later one meets it, too."""
    async with connected(broker) as client:
        member = await stable(client)
        group = Group(broker, "g")
        wait = began(group.until_committed(TOPIC, 1, 5))
        await member.commit((0, 9), (1, 4))
        assert await waits(wait)
        await member.commit((1, 6))
        await wait
        assert group.committed() == {(TOPIC, 0): 9, (TOPIC, 1): 6}


async def test_lag_counts_partitions_without_a_commit(broker: Broker) -> None:
    """From their first record: a group that has just begun has not caught up."""
    async with connected(broker) as client:
        await produce(client, 0, 3)
        await produce(client, 1, 2)
        group = Group(broker, "g")
        assert group.lag() == {}
        wait = began(group.until_lag())
        member = await stable(client)
        assert group.lag() == {(TOPIC, 0): 3, (TOPIC, 1): 2}
        await member.commit((0, 3))
        assert await waits(wait)
        await member.commit((1, 1))
        assert await waits(wait)
        assert group.lag() == {(TOPIC, 0): 0, (TOPIC, 1): 1}
        with pytest.raises(
            ConditionTimeout, match=r"its lag is 1: orders-1 1 \(committed 1\);"
        ):
            await group.until_lag(timeout=0)
        await group.until_lag(1, timeout=0)
        await member.commit((1, 2))
        await wait


async def test_many_partitions_cost_a_condition_little(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one of them lags, commits of the others do not look at all of them."""
    looks: list[str] = []
    lags = group_views.lags

    def counted(
        broker: Broker, group_id: str
    ) -> Iterator[tuple[tuple[str, int], int, group_views.Lag]]:
        looks.append(group_id)
        return lags(broker, group_id)

    monkeypatch.setattr(group_views, "lags", counted)
    async with connected(broker) as client:
        await produce(client, 0, 3)
        member = await stable(client)
        wait = began(Group(broker, "g").until_lag())
        for offset in range(10):
            await member.commit((1, offset))
        assert await waits(wait)
        await member.commit((0, 3))
        await wait
    # At first, after the first commit of the topic, and at the end.
    assert len(looks) == 3


async def test_an_empty_topic_has_no_lag(broker: Broker) -> None:
    """But a group of which no partitions are known has not caught up."""
    group = Group(broker, "g")
    wait = began(group.until_lag())
    async with connected(broker) as client:
        member = Member(client)
        assert await waits(wait)
        await member.join()
        await wait


async def test_members_are_named_as_their_clients_are(broker: Broker) -> None:
    """Those of one client id by their member ids."""
    async with connections(broker, 2) as (one, two):
        group = Group(broker, "g")
        assert group.assignment() == {}
        first = await stable(one)
        (name,) = group.assignment()
        assert first.id.startswith(name)
        assert group.assignment() == {name: {TOPIC: [0, 1]}}
        second = Member(two)
        joining = asyncio.create_task(second.join())
        await group.until(members=2)
        assert group.assignment().keys() == {first.id, second.id}
        joining.cancel()


# -- the end of a wait


async def test_a_time_out_tells_the_story(broker: Broker) -> None:
    """The condition, the group as it is, and its history in words."""
    async with connected(broker) as client:
        member = await stable(client)
        with pytest.raises(ConditionTimeout) as caught:
            await Group(broker, "g").until(state="Empty", members=0, timeout=0)
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert error.awaited == "is Empty with 0 members"
    assert error.now.startswith("it is Stable in generation 1, with 1 member: ")
    assert member.id in error.now
    first, *story = str(error).splitlines()
    assert first == (
        f"timed out after 0 s waiting until group 'g' {error.awaited}; {error.now}"
    )
    assert story[0].startswith("group g: 1 rebalance in ")
    assert "was the first to join" in story[1]


async def test_a_time_out_is_in_real_time(broker: Broker) -> None:
    """The broker's clock stands still, or jumps: both are the same to it."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    wait = began(Group(broker, "g").until(state="Stable", timeout=0.02))
    await broker.clock.advance(3600)
    with pytest.raises(ConditionTimeout, match=r"there are no groups yet"):
        await wait
    assert loop.time() - start >= 0.01  # a loop rounds times


@pytest.mark.parametrize("ends", ["cancelled", "timed out", "met"])
async def test_a_wait_leaves_nothing_behind(broker: Broker, ends: str) -> None:
    """No listener of events, and no callback of the broker's stop."""
    before = broker.events.listeners
    group = Group(broker, "g")
    timeout = 0.001 if ends == "timed out" else 10
    wait = began(group.until(state="Stable", timeout=timeout))
    if ends != "timed out":  # which may be at once
        assert await waits(wait)
        assert len(broker.events.listeners) == len(before) + 1
    if ends == "cancelled":
        wait.cancel()
    elif ends == "met":
        async with connected(broker) as client:
            await stable(client)
    await asyncio.wait([wait])
    assert wait.cancelled() == (ends == "cancelled")
    assert (not wait.cancelled() and wait.exception() is None) == (ends == "met")
    assert broker.events.listeners == before
    assert not broker.at_stop


async def test_a_stopping_broker_ends_all_waits() -> None:
    """At once: it will never be. Nor is it awaited of a broker that has stopped."""
    async with Broker() as broker:
        group = Group(broker, "g")
        wait = began(group.until(state="Stable"))
        assert await waits(wait)
    with pytest.raises(BrokerStoppedError, match="until group 'g' is Stable"):
        await wait
    with pytest.raises(BrokerStoppedError):
        await group.until(state="Dead")


async def test_a_stopped_node_ends_no_wait() -> None:
    """The group moves, and its condition is met there."""
    async with Broker(AT_ONCE, nodes=2) as broker:
        node = broker.coordinator_of("g")
        wait = began(Group(broker, "g").until(state="Stable"))
        assert await waits(wait)
        await broker.stop_node(node)
        async with connected(broker, 3 - node) as client:
            await stable(client)
            await wait


async def test_many_members_cost_a_condition_little(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of their syncs looks at one assignment, not at all of them."""
    looked_at: list[str] = []
    partitions_of = ClassicGroup.partitions_of

    def counted(group: ClassicGroup, member_id: str) -> AbstractSet[tuple[str, int]]:
        looked_at.append(member_id)
        return partitions_of(group, member_id)

    monkeypatch.setattr(ClassicGroup, "partitions_of", counted)
    async with connections(broker, 30) as clients:
        members = [Member(client) for client in clients]
        group = Group(broker, "g")
        await members[0].join()
        joining = [asyncio.create_task(each.join()) for each in members[1:]]
        await group.until(state="PreparingRebalance", members=30)
        wait = began(group.until_assigned())
        await asyncio.gather(*joining, members[0].join())
        leader = next(each for each in members if each.others)
        every = [[0] if each == leader.others[0] else [1] for each in leader.others]
        syncing = [each.sync() for each in members if each is not leader]
        await asyncio.gather(leader.sync(*every), *syncing)
        await wait
    assert len(looked_at) < 3 * 30
