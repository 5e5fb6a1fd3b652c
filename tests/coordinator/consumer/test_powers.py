"""Power over consumer groups."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene

from kohort.broker.coordinator.events import (
    Fence,
    HoldMember,
    ReleaseMember,
)
from kohort.protocol.errors import ErrorCode


def test_a_kicked_member_learns_of_it_by_its_heartbeat() -> None:
    """The others get its partitions."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    assert scene.kick(a.member_id, "why not") is None
    assert a.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    b.beat()
    assert b.assigned == {"t": [0, 1]}
    kicked = scene.event("member_kicked")
    assert (kicked["member_id"], kicked["cause"]) == (a.member_id, "commanded")
    started = scene.event("rebalance_started")
    assert (started["cause"], started["reason"]) == ("member_kicked", "why not")
    assert scene.kick("m-X") == "there is no member 'm-X'"


def test_a_session_ends_on_command() -> None:
    """As if the member had been silent."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    assert scene.expire(a.member_id) is None
    assert [*scene.group.members] == [b.member_id]
    assert scene.event("member_expired")["cause"] == "commanded"


def test_a_muted_member_expires_despite_its_heartbeats() -> None:
    """Unless it is unmuted in time; a mute outlives the coordinator."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    scene.mute(a.member_id)
    scene.mute(b.member_id)
    scene.move()
    scene.sleep(40_000)
    assert (a.beat().error_code, b.beat().error_code) == (0, 0)
    scene.unmute(b.member_id)
    scene.sleep(5_000)
    assert [*scene.group.members] == [b.member_id]
    assert scene.lasting.muted == {}


def test_a_rebalance_on_command() -> None:
    """The epoch is bumped; the next heartbeat computes the assignment."""
    scene = Scene()
    scene.topic()
    assert scene.trigger() == "a group without members cannot rebalance"
    a, b = scene.settled("A", "B")
    assert scene.trigger("for a test") is None
    assert scene.group.state == "Assigning"
    scene.settle(a, b)
    assert (a.epoch, b.epoch, scene.group.state) == (4, 4, "Stable")
    started = scene.event("rebalance_started")
    assert (started["cause"], started["reason"]) == ("requested", "for a test")


def test_a_group_held_in_assigning_keeps_its_target() -> None:
    """Newcomers get nothing until it is released."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    assert scene.hold() is None
    b = scene.consumer("B", "t")
    b.join()
    scene.settle(a, b)
    assert (scene.group.state, a.epoch, b.epoch) == ("Assigning", 2, 2)
    assert (a.assigned, b.assigned) == ({"t": [0, 1]}, {})
    assert scene.release() is None
    scene.settle(a, b)
    assert (scene.group.state, a.assigned, b.assigned) == (
        "Stable",
        {"t": [0]},
        {"t": [1]},
    )
    assert scene.release() == "the group is not held"


def test_a_group_held_in_reconciling_moves_no_partition() -> None:
    """A newcomer has an epoch, and waits."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    scene.hold("Reconciling")
    b = scene.consumer("B", "t")
    b.join()
    scene.settle(a, b)
    assert (scene.group.state, a.epoch, b.epoch) == ("Reconciling", 2, 3)
    assert (a.assigned, b.assigned) == ({"t": [0, 1]}, {})
    scene.release()
    scene.settle(a, b)
    assert (scene.group.state, a.assigned, b.assigned) == (
        "Stable",
        {"t": [0]},
        {"t": [1]},
    )


def test_a_consumer_group_is_held_in_its_own_states() -> None:
    """PreparingRebalance is one of the classic protocol."""
    scene = Scene()
    scene.topic()
    scene.settled("A")
    assert scene.hold("PreparingRebalance") == (
        "a consumer group can be held in Assigning or Reconciling, not in"
        " PreparingRebalance"
    )


def test_a_limit_counts_in_place_of_the_setting() -> None:
    """A group over its limit keeps its members."""
    scene = Scene()
    scene.topic()
    a, _ = scene.settled("A", "B")
    assert scene.limit(1) is None
    refused = scene.consumer("C", "t").join()
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (a.beat().error_code, len(scene.group.members)) == (0, 2)
    assert scene.limit(0) == "a limit of 0 members: it must be at least 1"
    scene.limit(None)
    assert scene.consumer("C", "t").join().error_code == 0


def test_a_fenced_member_joins_again_under_its_id() -> None:
    """Its partitions stay its own until it is back."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    assert scene.command(Fence, a.member_id) is None
    assert a.beat().error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert a.beat(epoch=99).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    b.beat()
    assert b.assigned == {"t": [1]}
    assert (a.join().error_code, a.assigned) == (0, {"t": [0]})
    assert a.beat().error_code == 0
    assert scene.event("commanded")["cause"] == "fence"


def test_one_member_is_held_between_its_epoch_and_the_targets() -> None:
    """A newcomer waits for the partitions that it would give up."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    scene.command(HoldMember, a.member_id)
    b = scene.consumer("B", "t")
    b.join()
    scene.settle(a, b)
    assert (a.epoch, a.assigned, b.epoch, b.assigned) == (2, {"t": [0, 1]}, 3, {})
    reconciled = scene.event("member_reconciled")
    assert (reconciled["member_id"], reconciled["holders"]) == (
        b.member_id,
        [a.member_id],
    )
    assert scene.command(ReleaseMember, a.member_id) is None
    scene.settle(a, b)
    assert (a.epoch, a.assigned, b.assigned) == (3, {"t": [0]}, {"t": [1]})
    not_held = "the member is not held"
    assert scene.command(ReleaseMember, a.member_id) == not_held


def test_a_held_member_that_goes_is_held_no_more() -> None:
    """Nothing is left of the hold."""
    scene = Scene()
    scene.topic()
    a, _ = scene.settled("A", "B")
    scene.command(HoldMember, a.member_id)
    a.leave()
    assert scene.lasting.held_members == {}


def test_members_of_classic_groups_have_no_epochs() -> None:
    """They are neither fenced by one, nor reconciled."""
    scene = Scene()
    (a,) = scene.stable_group("A")
    for command in (Fence, HoldMember, ReleaseMember):
        refusal = scene.command(command, a.member_id)
        assert refusal == "it is a classic group; its members have no epochs"


def test_a_group_is_held_before_it_exists() -> None:
    """Its first members get nothing until it is released."""
    scene = Scene()
    scene.topic()
    assert scene.hold("Assigning") is None
    a = scene.consumer("A", "t")
    a.join()
    assert (scene.group.state, a.epoch, a.assigned) == ("Assigning", 1, {})
    scene.release()
    a.beat()
    assert (scene.group.state, a.epoch, a.assigned) == ("Stable", 2, {"t": [0, 1]})
