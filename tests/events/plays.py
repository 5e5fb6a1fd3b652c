"""A scene for every kind of event about groups, and for every cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.context import Context
from tests.coordinator.member import Member, dealt, subscribed

from kohort.broker.coordinator.events import TopicsDeleted

Facts = dict[str, Any]
Play = Callable[[Context], Facts]
"""Plays a scene; returns the fields that the last event of its kind must have."""

S = 1_000_000_000
PLAYS: dict[tuple[str, str | None], Play] = {}


def play(kind: str, cause: str | None = None) -> Callable[[Play], Play]:
    """The scene of a kind and a cause."""

    def keep(scene: Play) -> Play:
        assert (kind, cause) not in PLAYS
        PLAYS[kind, cause] = scene
        return scene

    return keep


def owning(context: Context, *names: str, **options: Any) -> list[Member]:
    """A stable group whose members own partition 0, 1, ... of t."""
    members = [*context.stable_group(*names, sync=False, **options)]
    for member in members[1:]:
        member.sync()
    members[0].sync([(m.member_id, dealt(i)) for i, m in enumerate(members)])
    return members


def part(*partitions: int) -> list[Facts]:
    """Some partitions of t."""
    return [{"topic": "t", "partitions": [*partitions]}]


# -- members


@play("member_id_given")
def _(c: Context) -> Facts:
    a = c.member("A")
    a.join()
    return {"member_id": a.member_id, "client_id": "A", "host": "/127.0.0.1"}


@play("pending_member_expired")
def _(c: Context) -> Facts:
    a = c.member("A", session_ms=6_000)
    a.join()
    c.sleep(6_000)
    return {"member_id": a.member_id, "client_id": "A", "generation": 0}


@play("member_joined", "new")
def _(c: Context) -> Facts:
    c.member("A", protocols=subscribed("t", "u"), session_ms=7_000).enter()
    return {
        "is_first": True,
        "client_id": "A",
        "host": "/127.0.0.1",
        "connection": 1,
        "protocols": ["range"],
        "topics": ["t", "u"],
        "session_timeout_ms": 7_000,
        "rebalance_timeout_ms": 30_000,
    }


@play("member_joined", "rejoin")
def _(c: Context) -> Facts:
    a, _ = c.stable_group("A", "B")
    c.member("C", requires_id=False).join()
    a.join(reason="told to")
    return {"member_id": a.member_id, "is_first": False, "reason": "told to"}


@play("member_joined", "metadata_changed")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    b.join(protocols=subscribed("new"))
    return {"member_id": b.member_id, "topics": ["new"]}


@play("member_joined", "leader")
def _(c: Context) -> Facts:
    a, _ = c.stable_group("A", "B")
    a.join()
    return {"member_id": a.member_id}


@play("member_joined", "repeated")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    b.join()
    return {"member_id": b.member_id}


@play("member_refused", "full")
def _(c: Context) -> Facts:
    c.configure(max_size=1)
    c.stable_group("A")
    c.member("B").join(reason="more hands")
    return {
        "member_id": None,
        "client_id": "B",
        "connection": 2,
        "error": "GROUP_MAX_SIZE_REACHED",
        "reason": "more hands",
    }


@play("member_refused", "fenced")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A", static=True)
    c.member("A", instance="i-A").join()
    a.join()
    return {
        "member_id": a.member_id,
        "instance_id": "i-A",
        "error": "FENCED_INSTANCE_ID",
    }


@play("member_refused", "inconsistent")
def _(c: Context) -> Facts:
    c.stable_group("A")
    c.member("B", protocol_type="connect").join()
    return {"client_id": "B", "error": "INCONSISTENT_GROUP_PROTOCOL"}


@play("member_refused", "unknown")
def _(c: Context) -> Facts:
    c.member("B").join(member_id="B-7")
    return {"member_id": "B-7", "generation": None, "error": "UNKNOWN_MEMBER_ID"}


@play("member_refused", "invalid")
def _(c: Context) -> Facts:
    c.member("B", session_ms=1 << 30).join()
    return {"error": "INVALID_SESSION_TIMEOUT"}


@play("member_left", "left")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    b.leave()
    return {"member_id": b.member_id, "was_pending": False, "reason": None}


@play("member_left", "removed")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B", static=True)
    c.leave(("", "i-B"))
    return {"member_id": b.member_id, "instance_id": "i-B", "client_id": "B"}


@play("member_expired", "commanded")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B", session_ms=10_000)
    c.mute(b.member_id)
    c.sleep(10_000)
    return {"member_id": b.member_id, "silent_ns": 10 * S}


@play("member_expired", "silent")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A", session_ms=6_000)
    c.sleep(2_000)
    a.heartbeat()
    c.sleep(6_000)
    return {"member_id": a.member_id, "silent_ns": 6 * S}


@play("member_kicked", "full")
def _(c: Context) -> Facts:
    c.configure(max_size=2)
    a, b = c.stable_group("A", "B")
    a.join()
    c.configure(max_size=1)
    b.join()
    return {"member_id": b.member_id, "was_pending": False, "silent_ns": 0}


@play("member_kicked", "did_not_join_in_time")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B", rebalance_ms=5_000)
    a.join()
    c.sleep(2_000)
    b.heartbeat()
    c.sleep(3_000)
    return {"member_id": b.member_id, "silent_ns": 3 * S}


@play("member_kicked", "did_not_sync_in_time")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B", sync=False, rebalance_ms=5_000)
    a.sync()
    c.sleep(5_000)
    return {"member_id": b.member_id, "silent_ns": 5 * S}


@play("member_kicked", "group_over_max_size")
def _(c: Context) -> Facts:
    a, b, other = c.stable_group("A", "B", "C", rebalance_ms=5_000)
    a.join()
    b.join()
    c.configure(max_size=1, is_helpful=True)
    c.sleep(5_000)
    assert other.member_id not in c.event("join_completed")["members"]
    return {"member_id": b.member_id, "silent_ns": 0}


@play("member_kicked", "commanded")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    c.sleep(2_000)
    c.kick(b.member_id, "for a test")
    return {
        "member_id": b.member_id,
        "was_pending": False,
        "silent_ns": 2 * S,
        "reason": None,
    }


@play("member_replaced")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A", static=True)
    c.sleep(2_000)
    again = c.member("A", instance="i-A", session_ms=9_000)
    again.join(reason="restarted")
    return {
        "member_id": again.member_id,
        "replaced_member_id": a.member_id,
        "connection": again.client.connection,
        "silent_ns": 2 * S,
        "instance_id": "i-A",
        "reason": "restarted",
        "session_timeout_ms": 9_000,
    }


# -- commands


@play("commanded", "kick")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    c.kick(b.member_id, "for a test")
    return {
        "member_id": b.member_id,
        "client_id": "B",
        "reason": "for a test",
        "generation": 2,
        "held_in": None,
        "max_size": None,
    }


@play("commanded", "expire")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    c.expire(b.member_id)
    return {"member_id": b.member_id, "reason": None}


@play("commanded", "mute")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    c.mute(b.member_id)
    return {"member_id": b.member_id}


@play("commanded", "unmute")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    c.mute(b.member_id)
    c.unmute(b.member_id)
    return {"member_id": b.member_id}


@play("commanded", "rebalance")
def _(c: Context) -> Facts:
    c.stable_group("A", "B")
    c.trigger("to see what happens")
    return {"member_id": None, "reason": "to see what happens", "generation": 2}


@play("commanded", "hold")
def _(c: Context) -> Facts:
    """The group need not exist."""
    c.hold("CompletingRebalance")
    return {"held_in": "CompletingRebalance", "group": "g", "generation": None}


@play("commanded", "release")
def _(c: Context) -> Facts:
    c.stable_group("A")
    c.hold()
    c.release()
    return {"held_in": "PreparingRebalance", "generation": 1}


@play("commanded", "limit")
def _(c: Context) -> Facts:
    c.stable_group("A", "B")
    c.limit(1)
    return {"max_size": 1, "member_id": None}


# -- leaders


@play("leader_chosen", "first")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A")
    return {"member_id": a.member_id, "previous_leader": None}


@play("leader_chosen", "gone")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B")
    a.leave()
    return {"member_id": b.member_id, "previous_leader": a.member_id}


@play("leader_chosen", "late")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B", static=True, rebalance_ms=5_000)
    newcomer = c.member("C", rebalance_ms=5_000)
    newcomer.enter()
    b.join()
    c.sleep(5_000)
    return {"member_id": newcomer.member_id, "previous_leader": a.member_id}


@play("leader_chosen", "replaced")
def _(c: Context) -> Facts:
    a, _ = c.stable_group("A", "B", static=True)
    again = c.member("A", instance="i-A")
    again.join()
    return {"member_id": again.member_id, "previous_leader": a.member_id}


@play("leader_chosen", "loaded")
def _(c: Context) -> Facts:
    a, _ = c.stable_group("A", "B")
    c.restart()
    return {"member_id": a.member_id, "previous_leader": None}


# -- rebalances


@play("group_state")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A")
    a.leave()
    return {"state": "Empty", "previous_state": "PreparingRebalance", "generation": 2}


@play("rebalance_started", "member_joined")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A")
    b = c.member("B")
    b.join()
    b.join(reason="scaling up")
    return {
        "member_id": b.member_id,
        "client_id": "B",
        "reason": "scaling up",
        "culprits": [b.member_id],
        "members": [a.member_id, b.member_id],
        "previous_state": "Stable",
        "generation": 1,
    }


@play("rebalance_started", "member_left")
def _(c: Context) -> Facts:
    a, b, other = c.stable_group("A", "B", "C")
    c.leave((b.member_id, None), (other.member_id, None))
    gone = [b.member_id, other.member_id]
    return {"member_id": gone[0], "culprits": gone, "members": [a.member_id]}


@play("rebalance_started", "session_expired")
def _(c: Context) -> Facts:
    a = c.member("A")
    b = c.member("B", session_ms=6_000)
    c.form([a, b])
    c.sleep(6_000)
    return {"member_id": b.member_id, "client_id": "B", "members": [a.member_id]}


@play("rebalance_started", "metadata_changed")
def _(c: Context) -> Facts:
    _, b = c.stable_group("A", "B")
    b.join(protocols=subscribed("new"))
    return {"member_id": b.member_id}


@play("rebalance_started", "leader_rejoined")
def _(c: Context) -> Facts:
    a, _ = c.stable_group("A", "B")
    a.join(reason="partitions were added")
    return {"member_id": a.member_id, "reason": "partitions were added"}


@play("rebalance_started", "static_member_replaced")
def _(c: Context) -> Facts:
    c.stable_group("A", "B", static=True, sync=False)
    again = c.member("B", instance="i-B")
    again.join()
    group = c.coordinator.groups["g"]
    return {
        "member_id": group.static_members["i-B"],
        "previous_state": "CompletingRebalance",
    }


@play("rebalance_started", "sync_timeout")
def _(c: Context) -> Facts:
    a, b, other = c.stable_group("A", "B", "C", sync=False, rebalance_ms=5_000)
    a.sync()
    c.sleep(5_000)
    late = sorted([b.member_id, other.member_id])
    return {"member_id": late[0], "culprits": late, "members": [a.member_id]}


@play("rebalance_started", "group_over_max_size")
def _(c: Context) -> Facts:
    c.stable_group("A", "B")
    c.restart(max_size=1)
    return {
        "member_id": None,
        "culprits": [],
        "reason": None,
        "previous_state": "Stable",
        "generation": 2,
    }


@play("rebalance_started", "member_kicked")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B")
    c.kick(b.member_id, "for a test")
    return {
        "member_id": b.member_id,
        "reason": "for a test",
        "culprits": [b.member_id],
        "members": [a.member_id],
    }


@play("rebalance_started", "requested")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B")
    c.trigger("to see what happens")
    return {
        "member_id": None,
        "culprits": [],
        "reason": "to see what happens",
        "members": [a.member_id, b.member_id],
    }


@play("window_opened", "first")
def _(c: Context) -> Facts:
    c.configure(initial_rebalance_delay_ms=3_000)
    c.member("A", rebalance_ms=5_000).enter()
    return {"delay_ms": 3_000, "remaining_ms": 2_000}


@play("window_opened", "extended")
def _(c: Context) -> Facts:
    c.configure(initial_rebalance_delay_ms=3_000)
    for name in "AB":
        c.member(name, rebalance_ms=5_000).enter()
    c.sleep(3_000)
    return {"delay_ms": 2_000, "remaining_ms": 0}


@play("join_completed", "all_joined")
def _(c: Context) -> Facts:
    """The wait for the last member is the duration; a waiting member is no wait."""
    a, b = c.stable_group("A", "B")
    c.sleep(7_000)
    new = c.member("C")
    new.enter()
    c.sleep(1_000)
    b.join()
    c.sleep(500)
    a.join()
    return {
        "generation": 3,
        "gained": [new.member_id],
        "waits": [
            {"member_id": a.member_id, "waited_ns": 3 * S // 2, "came": True},
            {"member_id": b.member_id, "waited_ns": S, "came": True},
        ],
        "duration_ns": 3 * S // 2,
        "leader": a.member_id,
        "protocol": "range",
    }


@play("join_completed", "rebalance_timeout")
def _(c: Context) -> Facts:
    """A member that never joins counts to the end; one that leaves, until then."""
    a, b, other = c.stable_group("A", "B", "C", rebalance_ms=5_000)
    a.join()
    c.sleep(2_000)
    other.leave()
    given = c.member("D", session_ms=6_000)
    given.join()
    c.sleep(3_000)
    return {
        "members": [a.member_id],
        "lost": [b.member_id, other.member_id],
        "waits": [
            {"member_id": b.member_id, "waited_ns": 5 * S, "came": False},
            {"member_id": other.member_id, "waited_ns": 2 * S, "came": False},
            {"member_id": given.member_id, "waited_ns": 5 * S, "came": False},
        ],
        "duration_ns": 5 * S,
    }


@play("join_completed", "initial_delay")
def _(c: Context) -> Facts:
    c.configure(initial_rebalance_delay_ms=3_000)
    c.member("A").enter()
    c.sleep(3_000)
    return {"waits": [], "duration_ns": 3 * S, "generation": 1}


@play("join_completed", "nobody_left")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A")
    a.leave()
    return {"members": [], "lost": [a.member_id], "leader": None, "protocol": None}


@play("assignment_made")
def _(c: Context) -> Facts:
    members = c.stable_group("A", "B", sync=False)
    c.sleep(250)
    c.sync_all(members)
    return {
        "leader": members[0].member_id,
        "bytes": len("assigned-Aassigned-B"),
        "metadata_bytes": len("meta-Ameta-B"),
        "duration_ns": S // 4,
    }


@play("member_synced")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B", sync=False)
    a.sync()
    c.sleep(2_000)
    b.sync()
    return {"member_id": b.member_id, "waited_ns": 2 * S}


@play("partitions_changed", "assigned")
def _(c: Context) -> Facts:
    """Earlier ownership counts, even if rebalances in between did not complete."""
    a, b = owning(c, "A", "B")
    a.join()
    b.join()
    a.join(protocols=subscribed("t"))  # before anything was assigned
    b.join()
    a.sync([(a.member_id, dealt(0, 1)), (b.member_id, dealt())])
    return {
        "member_id": b.member_id,
        "owned": [],
        "partitions_gained": [],
        "partitions_lost": part(1),
    }


@play("partitions_changed", "gone")
def _(c: Context) -> Facts:
    _, b = owning(c, "A", "B")
    b.leave()
    return {"member_id": b.member_id, "owned": [], "partitions_lost": part(1)}


@play("partitions_changed", "replaced")
def _(c: Context) -> Facts:
    owning(c, "A", "B", static=True)
    again = c.member("B", instance="i-B")
    again.join()
    lost = c.events()[-2]
    assert (lost["cause"], lost["partitions_lost"]) == ("replaced", part(1))
    return {
        "member_id": again.member_id,
        "owned": part(1),
        "partitions_gained": part(1),
    }


@play("partitions_changed", "loaded")
def _(c: Context) -> Facts:
    _, b = owning(c, "A", "B")
    c.restart()
    return {
        "member_id": b.member_id,
        "owned": part(1),
        "partitions_gained": [],
        "partitions_lost": [],
    }


# -- offsets


@play("offsets_committed")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A")
    a.commit("t", 7, end_offset=9)
    offsets = [{"topic": "t", "partition": 0, "offset": 7, "end_offset": 9}]
    return {"member_id": a.member_id, "client_id": "A", "offsets": offsets}


@play("commit_refused")
def _(c: Context) -> Facts:
    """A commit with one oversized offset is refused in part, with two events."""
    c.configure(offset_metadata_max_bytes=3)
    c.commit([("t", 0, 1, -1, "long"), ("t", 1, 2, -1, "")])
    stored = c.event("offsets_committed")
    kept = {"topic": "t", "partition": 1, "offset": 2, "end_offset": None}
    assert stored["offsets"] == [kept]
    return {
        "member_id": None,
        "client_id": "simple",
        "host": "/127.0.0.1",
        "error": "OFFSET_METADATA_TOO_LARGE",
        "offsets": [{"topic": "t", "partition": 0, "offset": 1, "end_offset": None}],
        "generation": 0,
    }


_TOO_LARGE = {
    "error": "MESSAGE_TOO_LARGE",
    "size_bytes": 1_048_589,
    "max_bytes": 1_048_588,
}


@play("append_failed", "offsets")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A")
    c.is_holding = True
    a.start_commit("t", 7)
    c.refuse()
    return _TOO_LARGE


@play("append_failed", "group")
def _(c: Context) -> Facts:
    assign_too_much(c, *c.stable_group("A", sync=False))
    return _TOO_LARGE


def assign_too_much(c: Context, *members: Member) -> None:
    """The log refuses the assignment of the first, which leads."""
    c.is_holding = True
    for member in members[1:]:
        member.sync()
    members[0].sync()
    c.refuse()
    c.is_holding = False


@play("rebalance_started", "assignment_not_stored")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A", sync=False)
    assign_too_much(c, a)
    return {"member_id": a.member_id, "previous_state": "CompletingRebalance"}


@play("offsets_expired")
def _(c: Context) -> Facts:
    c.configure(offsets_retention_ms=60_000)
    c.commit([("t", 0, 1, -1, "")])
    c.sleep(c.settings.offsets_retention_check_interval_ms + 60_000)
    return {"expired": part(0)}


@play("offsets_deleted", "admin")
def _(c: Context) -> Facts:
    c.commit([("t", p, 1, -1, "") for p in range(3)])
    c.delete_offsets(("t", [2, 0, 9]))
    return {"deleted": part(0, 2)}


@play("offsets_deleted", "topic_deleted")
def _(c: Context) -> Facts:
    c.commit([("t", 0, 1, -1, ""), ("u", 0, 1, -1, "")])
    c.submit(TopicsDeleted(["t"]))
    return {"deleted": part(0)}


@play("group_loaded")
def _(c: Context) -> Facts:
    a, b = c.stable_group("A", "B")
    c.restart()
    return {
        "state": "Stable",
        "generation": 2,
        "members": [a.member_id, b.member_id],
        "leader": a.member_id,
        "protocol": "range",
    }
