"""A member and its group, scene by scene; see `World`."""

from __future__ import annotations

import pytest
from tests.client.group.member_world import COOPERATIVE, EAGER, Client, World

from kohort.client.group.classic.state import LEAVING, PREPARING_REBALANCE, UNJOINED
from kohort.client.group.effects import CallKind
from kohort.client.group.events import (
    Failed,
    RebalanceEnforced,
    Subscribed,
    Unsubscribed,
)
from kohort.protocol.consumer import decode_subscription

ASSIGNED, REVOKED, LOST = CallKind.ASSIGNED, CallKind.REVOKED, CallKind.LOST


def kinds(client: Client) -> list[CallKind]:
    """The calls of a listener, in order."""
    return [kind for kind, _ in client.calls]


def partitions(*numbers: int) -> list[tuple[str, int]]:
    """Partitions of t."""
    return [("t", number) for number in numbers]


# -- joining


def test_first_join_comes_with_no_id_and_the_second_with_the_one_given() -> None:
    """KIP-394: the same join again, with the id of the response."""
    (a,) = World().group("a")
    first, second = a.of_kind("JoinGroup")
    assert (first.member_id, second.member_id) == ("", "a-1")
    assert second.reason == first.reason == "the consumer subscribes"
    assert (second.session_timeout_ms, second.rebalance_timeout_ms) == (10_000, 30_000)


def test_eager_members_give_up_everything_before_they_join() -> None:
    """No member owns a partition while its JoinGroup is pending."""
    world = World()
    a, _ = world.group("a", "b", protocols=[EAGER])
    owned = [row for _, row in a.calls][-1]
    world.joined("c", EAGER, ms=3_000)
    assert a.calls[-2:] == [(REVOKED, owned), (ASSIGNED, partitions(0, 1))]
    rejoin = decode_subscription(a.of_kind("JoinGroup")[-1].protocols[0].metadata)
    assert rejoin.owned_partitions == []
    world.check_settled()


def test_cooperative_members_give_up_what_moves_and_join_again() -> None:
    """KIP-429: revoke, sync, rejoin; the new owner waits for the second rebalance."""
    world = World()
    (a,) = world.group("a")
    b = world.joined("b", ms=3_000)
    assert a.calls == [
        (ASSIGNED, partitions(0, 1, 2, 3, 4, 5)),
        (REVOKED, partitions(3, 4, 5)),
        (ASSIGNED, []),
        (ASSIGNED, []),
    ]
    assert b.calls == [(ASSIGNED, []), (ASSIGNED, partitions(3, 4, 5))]
    reasons = [request.reason for request in a.of_kind("JoinGroup")]
    assert reasons[-2:] == ["the group rebalances", "it has given up partitions"]
    claims = decode_subscription(a.of_kind("JoinGroup")[-2].protocols[0].metadata)
    assert claims.owned_partitions[0].partitions == [0, 1, 2, 3, 4, 5]
    assert claims.generation_id == 1


def test_one_eager_protocol_makes_a_member_eager() -> None:
    """A member that offers both revokes everything, whichever is chosen."""
    world = World()
    a, b = world.group("a", "b", protocols=[COOPERATIVE, EAGER])
    assert a.member.protocol_name == COOPERATIVE
    a.submit(RebalanceEnforced("an upgrade"))
    world.run(3_000)
    assert kinds(a)[-2:] == [REVOKED, ASSIGNED]
    assert kinds(b)[-2:] == [REVOKED, ASSIGNED]


def test_from_eager_to_cooperative_in_two_steps() -> None:
    """First all members offer both, then only the new one (KIP-429).

    When a third member joins after the first step, members still revoke everything;
    after the second step, only the partitions that move.
    """
    world = World()
    both, new = (COOPERATIVE, EAGER), (COOPERATIVE,)
    for offered, moved in [((EAGER,), 3), (both, 3), (new, 1)]:
        for name in "ab":
            old = [c for c in world.clients if c.name[0] == name and not c.has_ended]
            for client in old:
                client.close()
            world.joined(f"{name}-{len(offered)}-{offered[0]}", *offered, ms=5_000)
            world.check_settled()
        members = [c for c in world.clients if not c.has_ended]
        assert {c.member.protocol_name for c in members} == {offered[0]}
        for member in members:
            member.calls.clear()
        third = world.joined("c", *offered, ms=5_000)
        revoked = [
            len(row) for c in members for kind, row in c.calls if kind is REVOKED
        ]
        assert revoked == [moved, moved]
        third.close()
        world.run(5_000)


def test_an_assignment_is_not_taken_before_what_is_lost_by_it_is_given_up() -> None:
    """While the revoked callback runs, nothing new is owned and no one rejoins."""
    world = World()
    a, _ = world.group("a", "b")
    a.listener_ms = 3_000
    world.joined("c", ms=1_000)
    assert a.calls[-1][0] is REVOKED
    moving = a.calls[-1][1][0]
    joins = len(a.of_kind("JoinGroup"))
    assert moving in a.member.owned
    world.run(1_000)
    assert moving in a.member.owned, "the callback still runs"
    assert len(a.of_kind("JoinGroup")) == joins
    heartbeats = len(a.of_kind("Heartbeat"))
    a.listener_ms = 0
    world.run(10_000)
    assert len(a.of_kind("Heartbeat")) > heartbeats
    world.check_settled()


# -- the leader


def test_the_leader_assigns_again_when_partitions_are_added() -> None:
    """Followers leave that to it."""
    world = World()
    a, b = world.group("a", "b")
    world.set_partitions(t=8)
    world.run(5_000)
    world.check_settled()
    leader, follower = (a, b) if a.member.is_leader else (b, a)
    reason = "the partitions of t have changed"
    assert reason in [r.reason for r in leader.of_kind("JoinGroup")]
    assert reason not in [r.reason for r in follower.of_kind("JoinGroup")]


def test_the_leader_watches_topics_of_others() -> None:
    """It notices new partitions of topics that it does not subscribe to."""
    world = World()
    (a,) = world.group("a")
    b = world.client("b")
    b.subscribe("u")
    world.run(3_000)
    assert a.member.is_leader
    assert a.member.topics == {"t", "u"}
    assert b.member.topics == {"u"}
    world.set_partitions(u=2)
    world.run(3_000)
    assert b.member.owned == {("u", 0), ("u", 1)}


def test_a_partition_that_comes_while_the_leader_assigns_is_not_missed() -> None:
    """Metadata that comes during the assignment is compared after it."""
    world = World()
    a = world.client("a")
    a.assigning_ms = 1_000
    a.subscribe("t")
    world.run(500)
    late = world.partitions
    world.set_partitions(t=8)
    world.partitions = late | {"t": 6}  # the assignment uses older metadata
    world.run(700)
    world.partitions = late | {"t": 8}
    world.run(5_000)
    world.check_settled()


def test_an_assignor_that_fails_ends_the_member_that_leads() -> None:
    """It leaves, so that the group does not wait for it."""
    world = World()
    a, b = world.group("a", "b")
    mistake = ValueError("no")
    a.assigning_ms = 1_000_000
    a.submit(RebalanceEnforced("again"))
    world.run(2_000)
    (token,) = (t for t, r in a.member.pending.items() if r == "MakeAssignment")
    assert a.member.is_leader
    a.submit(Failed(token, mistake, is_retriable=False))
    world.run(3_000)
    assert a.failure is not None
    assert a.failure.error is mistake
    assert a.has_ended
    assert b.member.owned == set(partitions(0, 1, 2, 3, 4, 5))


def test_a_static_leader_that_returns_need_not_assign() -> None:
    """KIP-814: it syncs without assignments, and watches the group's topics."""
    world = World()
    a = world.client("a", instance="i-a")
    b = world.client("b", instance="i-b")
    for client in (a, b):
        client.subscribe("t")
        world.run(2_000)
    assert a.member.is_leader
    generation_id = a.member.generation_id
    owned = a.member.owned
    a.crash()
    again = world.joined("a2", instance="i-a")
    assert again.member.generation_id == generation_id
    assert again.member.owned == owned
    assert again.member.is_leader
    assert again.of_kind("SyncGroup")[-1].assignments == []
    (join,) = again.of_kind("JoinGroup")
    assert join.member_id == "", "MEMBER_ID_REQUIRED is for the others"
    assert REVOKED not in kinds(b)[1:]
    world.set_partitions(t=7)
    world.run(3_000)
    assert sum(len(c.member.owned) for c in (again, b)) == 7


# -- lost memberships


def test_a_member_that_hears_nothing_loses_its_partitions_with_its_session() -> None:
    """Counted from its last answered heartbeat, so never too late."""
    world = World()
    a, _ = world.group("a", "b")
    world.is_down = True
    world.run(9_000)
    assert LOST not in kinds(a)
    world.run(2_000)
    assert a.calls[-1] == (LOST, partitions(0, 2, 4))
    assert a.member.member_id, "the coordinator may still know it"
    world.is_down = False
    world.run(15_000)
    world.check_settled()


def test_a_removed_member_joins_as_a_new_one() -> None:
    """UNKNOWN_MEMBER_ID: its partitions are lost, and so is its id."""
    world = World()
    a, _ = world.group("a", "b")
    world.is_strict = False
    before = a.member.member_id
    world.context.leave((before, None))
    world.run(10_000)
    assert LOST in kinds(a)
    assert REVOKED not in kinds(a)[1:2]
    assert a.member.member_id not in {"", before}
    world.check_settled()


def test_partitions_that_are_being_revoked_are_not_lost_as_well() -> None:
    """A removed member loses the others, and ignores its earlier assignment."""
    world = World()
    a, _ = world.group("a", "b")
    world.is_strict = False
    a.listener_ms = 3_000
    world.joined("c", ms=1_000)
    kind, moving = a.calls[-1]
    assert kind is REVOKED
    kept = sorted(a.member.owned - set(moving))
    world.context.leave((a.member.member_id, None))
    world.run(1_000)
    assert not a.member.owned
    a.listener_ms = 0
    while a.calls[-1][0] is REVOKED:
        world.run(10)
    assert a.calls[-1] == (LOST, kept)
    assert a.member.state is PREPARING_REBALANCE
    world.run(5_000)
    world.check_settled()


@pytest.mark.parametrize("how", ["move", "restart"])
def test_the_coordinator_goes_and_the_membership_stays(how: str) -> None:
    """NOT_COORDINATOR and broken connections: look up, keep id and partitions."""
    world = World()
    a, b = world.group("a", "b")
    ids = [c.member.member_id for c in (a, b)]
    world.is_down = True
    world.run(3_000)
    getattr(world.context, how)()
    world.is_down = False
    world.run(3_000)
    assert a.forgotten > 0
    assert [c.member.member_id for c in (a, b)] == ids
    assert LOST not in kinds(a)
    world.check_settled()


def test_a_join_that_waits_is_sent_again_to_the_next_coordinator() -> None:
    """The move answers it with NOT_COORDINATOR; id and partitions stay."""
    world = World()
    a, b = world.group("a", "b")
    b.listener_ms = 5_000
    b.submit(Subscribed(["u"]))  # its revoked callback keeps the others waiting
    a.submit(RebalanceEnforced("now"))
    world.run(1_000)
    assert a.member.state is PREPARING_REBALANCE
    owned, member_id = a.member.owned, a.member.member_id
    world.context.move()
    world.run(1_000)
    assert a.member.member_id == member_id
    assert a.member.owned == owned
    b.listener_ms = 0
    world.run(10_000)
    assert LOST not in kinds(a)


# -- the application


def test_who_does_not_poll_leaves_and_says_so() -> None:
    """KIP-62: the group gets the reason; the next poll joins again."""
    world = World()
    a, b = world.group("a", "b")
    a.stall()
    world.run(29_000)
    assert a.is_stable
    world.run(3_000)
    (leave,) = a.of_kind("LeaveGroup")
    assert leave.members[0].reason == "no poll within max.poll.interval.ms (30000 ms)"
    assert a.calls[-1] == (LOST, partitions(0, 2, 4))
    joins = len(a.of_kind("JoinGroup"))
    world.run(60_000)
    assert len(a.of_kind("JoinGroup")) == joins, "it waits for the application"
    assert len(b.member.owned) == 6
    a.poll()
    world.run(5_000)
    assert a.of_kind("JoinGroup")[joins].member_id == "", "it gave up its id"
    world.check_settled()


def test_a_static_member_that_does_not_poll_falls_silent() -> None:
    """KIP-345: no LeaveGroup; it stays a member until its session ends."""
    world = World()
    a = world.joined("a", instance="i-a")
    a.stall()
    world.run(31_000)
    assert kinds(a)[-1] is LOST
    assert "LeaveGroup" not in [send.api for send in a.sent]
    assert len(world.context.describe().members) == 1
    a.poll()
    world.run(2_000)
    world.check_settled()


def test_cooperative_members_keep_topics_they_still_want() -> None:
    """A new subscription revokes the dropped topics before the join."""
    world = World()
    world.set_partitions(u=2)
    a = world.client("a")
    a.subscribe("t", "u")
    world.run(2_000)
    a.submit(Subscribed(["t"]))
    assert a.calls[-1] == (REVOKED, [("u", 0), ("u", 1)])
    world.run(2_000)
    world.check_settled()


def test_unsubscribing_leaves_and_subscribing_joins_anew() -> None:
    """In between, the member owns nothing and has no id."""
    world = World()
    a, _ = world.group("a", "b")
    before = a.member.member_id
    a.submit(Unsubscribed())
    assert kinds(a)[-1] is REVOKED
    world.run(2_000)
    (leave,) = a.of_kind("LeaveGroup")
    assert leave.members[0].reason == "the consumer has unsubscribed"
    assert (a.member.state, a.member.member_id) == (UNJOINED, "")
    assert a.member.generation_id == -1
    world.check_settled()
    a.submit(Subscribed(["t"]))
    world.run(3_000)
    assert a.member.member_id != before
    world.check_settled()


def test_subscribing_before_the_leave_is_answered_joins_after_it() -> None:
    """The application's calls keep their order."""
    world = World()
    world.latency_ms = 300
    (a,) = world.group("a")
    a.submit(Unsubscribed())
    world.run(1)
    assert a.member.state is LEAVING
    a.submit(Subscribed(["t"]))
    world.run(5_000)
    assert [s.api for s in a.sent if s.api != "Heartbeat"][-4:] == [
        "LeaveGroup",
        "JoinGroup",
        "JoinGroup",
        "SyncGroup",
    ]
    world.check_settled()


# -- the end


@pytest.mark.parametrize(
    ("instance", "leaves", "is_told"),
    [(None, None, True), (None, False, False), ("i", None, False), ("i", True, True)],
)
def test_closing(instance: str | None, leaves: bool | None, is_told: bool) -> None:
    """Dynamic members leave, static ones do not, unless `leaves` says otherwise."""
    world = World()
    a = world.joined("a", instance=instance)
    a.close(leaves=leaves)
    world.run(1_000)
    assert kinds(a) == [ASSIGNED, REVOKED]
    assert a.has_ended
    assert [r.members[0].reason for r in a.of_kind("LeaveGroup")] == (
        ["the consumer is being closed"] if is_told else []
    )
    assert len(world.context.describe().members) == (not is_told)


def test_closing_while_a_join_waits() -> None:
    """The join is cancelled, and the group does not wait for the member."""
    world = World(initial_rebalance_delay_ms=3_000)
    a = world.joined("a", ms=1_000)
    assert a.member.state is PREPARING_REBALANCE
    a.close()
    world.run(1_000)
    assert a.has_ended
    assert not world.context.describe().members


def test_closing_hands_back_an_id_that_is_on_its_way() -> None:
    """KIP-394: otherwise the group's next rebalance would wait for it."""
    world = World()
    world.latency_ms = 200
    a = world.client("a")
    a.subscribe("t")
    a.close()
    world.run(2_000)
    assert a.has_ended
    assert a.of_kind("LeaveGroup")[0].member_id == "a-1"


def test_closing_waits_for_the_callback_that_runs() -> None:
    """Callbacks are never concurrent, and each partition is revoked."""
    world = World()
    a = world.client("a")
    a.listener_ms = 1_000
    a.subscribe("t")
    world.run(500)
    assert kinds(a) == [ASSIGNED]
    a.close()
    world.run(200)
    assert kinds(a) == [ASSIGNED]
    world.run(3_000)
    assert kinds(a) == [ASSIGNED, REVOKED]
    assert a.has_ended


def test_nobody_answers_a_leave_and_the_session_ends_all_the_same() -> None:
    """An unreachable broker does not delay it."""
    world = World()
    (a,) = world.group("a")
    world.is_down = True
    a.close()
    world.run(1_000)
    assert a.has_ended
