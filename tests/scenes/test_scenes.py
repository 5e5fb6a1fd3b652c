"""A group's life, played by real clients: the scenes in KIPs and articles.

No scene waits for a timer: `expire` ends sessions, the clock's `advance` ends windows.
"""

from __future__ import annotations

import pytest
from tests.scenes.conftest import Cast


def test_a_member_joins(cast: Cast) -> None:
    """It gets half of the partitions; no record is read twice."""
    orders = cast.kohort.topic("orders", partitions=4, records=20)
    ana = cast.start("ana")
    ana.has_read(20)
    ben = cast.start("ben")
    cast.group.stable(members=2).until_assigned()
    assert "member_joined" in cast.causes
    orders.produce([f"new-{n}" for n in range(8)])
    ben.has_read(4)
    ana.has_read(24)
    assert cast.group.redelivered == 0


def test_a_member_leaves(cast: Cast) -> None:
    """The others get its partitions at once, and continue from its commits."""
    orders = cast.kohort.topic("orders", partitions=4)
    ana, ben = cast.start("ana"), cast.start("ben")
    cast.group.stable(members=2).until_assigned()
    orders.produce(8)
    for player in (ana, ben):
        player.has_read(4)
    cast.close("ben")
    cast.group.stable(members=1).until_assigned("ana", partitions=4)
    assert "member_left" in cast.causes
    orders.produce(8)
    ana.has_read(12)
    assert cast.group.redelivered == 0


def test_a_member_crashes(cast: Cast) -> None:
    """Its partitions wait for its session, which the test ends before 45 s."""
    orders = cast.kohort.topic("orders", partitions=4)
    with cast.killed_later("ben"):
        ana = cast.start("ana")
        cast.group.stable(members=2).until_assigned()
        orders.produce(8)
        ana.has_read(4)
    cast.group.member("ben").expire()
    cast.group.stable(members=1).until_assigned("ana", partitions=4)
    assert "session_expired" in cast.causes


def test_a_commit_in_a_rebalance(cast: Cast) -> None:
    """Offsets committed before partitions are revoked are not read again (KIP-429)."""
    orders = cast.kohort.topic("orders", partitions=4, records=20)
    ana = cast.start("ana", commits_polls=False)
    ana.has_read(20)
    assert not cast.group.committed()
    cast.group.hold("PreparingRebalance")
    ben = cast.start("ben")
    cast.group.until_lag(0)
    assert cast.group.state == "PreparingRebalance"
    cast.group.release()
    cast.group.stable(members=2).until_assigned()
    orders.produce(8)
    ana.has_read(24)
    ben.has_read(4)
    assert all(move.committed_before_release for move in cast.group.moves)
    assert cast.group.redelivered == 0


@pytest.mark.parametrize(
    "_numbering",
    [
        pytest.param(
            each, marks=pytest.mark.kohort(config={"wire.error.numbering": each})
        )
        for each in ("apache", "kip-389")
    ],
)
def test_a_full_group(cast: Cast, _numbering: str) -> None:
    """A newcomer is refused, with 81 or 77; the member notices nothing (KIP-389)."""
    orders = cast.kohort.topic("orders", partitions=4, records=4)
    ana = cast.start("ana")
    ana.has_read(4)
    cast.group.limit(1)
    generation = cast.group.generation
    cast.start("ben")
    cast.failed("ben")
    refusals = [e for e in cast.kohort.events() if e["kind"] == "member_refused"]
    # librdkafka retries until it is closed.
    assert len(refusals) == 1 or cast.library == "confluent-kafka"
    orders.produce(8)
    ana.has_read(12)
    assert cast.group.generation == generation


def test_a_static_member_restarts(cast: Cast) -> None:
    """It gets its partitions back, and no other member notices (KIP-345)."""
    orders = cast.kohort.topic("orders", partitions=4)
    players = [cast.start(name, instance=f"i-{name}") for name in ("ana", "ben")]
    cast.group.stable(members=2).until_assigned()
    orders.produce(8)
    for player in players:
        player.has_read(4)
    generation, assignment = cast.group.generation, cast.group.assignment()
    cast.close("ben")
    orders.produce(8)
    again = cast.start("ben", instance="i-ben")
    again.has_read(4)
    assert cast.group.generation == generation
    assert cast.group.assignment() == assignment


@pytest.mark.kohort(nodes=3)
def test_the_coordinator_moves(cast: Cast) -> None:
    """The members find the new one, and continue in their generation."""
    orders = cast.kohort.topic("orders", partitions=4)
    players = [cast.start(name) for name in ("ana", "ben")]
    cast.group.stable(members=2).until_assigned()
    orders.produce(8)
    for player in players:
        player.has_read(4)
    generation = cast.group.generation
    cast.group.move()
    orders.produce(8)
    for player in players:
        player.has_read(8)
    cast.group.caught_up()
    assert cast.group.generation == generation


@pytest.mark.kohort(clock="manual", config={"group.initial.rebalance.delay.ms": 3_000})
def test_the_initial_delay(cast: Cast) -> None:
    """A window of 3 s, one more as a member arrived in it: one rebalance (KIP-134)."""
    orders = cast.kohort.topic("orders", partitions=4)
    group, clock = cast.group, cast.kohort.clock
    ana = cast.start("ana")
    group.until(state="PreparingRebalance", members=1)
    clock.advance(seconds=1)
    ben = cast.start("ben")
    group.until(members=2)
    clock.advance(seconds=2)
    clock.advance(seconds=2.999)
    assert (group.state, group.generation) == ("PreparingRebalance", 0)
    clock.advance(seconds=0.001)
    group.stable(members=2).until_assigned()
    orders.produce(8)
    for player in (ana, ben):
        player.has_read(4)
    assert len(group.history().rebalances[0].members) == 2


@pytest.mark.kohort(nodes=3)
def test_a_group_with_too_many_members(cast: Cast) -> None:
    """Loaded over the limit it rebalances, and keeps the allowed number (KIP-389)."""
    orders = cast.kohort.topic("orders", partitions=4)
    players = {name: cast.start(name) for name in ("ana", "ben")}
    cast.group.stable(members=2).until_assigned()
    cast.group.limit(1)
    cast.group.move()
    del players[cast.failed(*players)]
    cast.kohort.clock.advance(minutes=5)  # the group waits for the refused member
    cast.group.stable(members=1).until_assigned()
    assert "group_over_max_size" in cast.causes
    orders.produce(8)
    (player,) = players.values()
    player.has_read(8)
