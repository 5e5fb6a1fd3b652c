"""Scenes of events about rebalances and states of a group."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.coordinator.member import dealt, subscribed
from tests.events.plays.scene import Facts, Plays, S, assign_too_much, owning, part

PLAYS = Plays()
play = PLAYS.play


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
    group = c.groups["g"]
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


def waited(
    member_id: str, waited_ns: int, *, came: bool = True, told_ns: int | None = None
) -> Facts:
    """A wait for a member."""
    wait = {"member_id": member_id, "waited_ns": waited_ns, "came": came}
    return {**wait, "told_ns": told_ns}


@play("join_completed", "all_joined")
def _(c: Context) -> Facts:
    """The wait for the last member is the duration; a waiting member is no wait.

    B learns of the rebalance by its heartbeat; only the first one counts.
    """
    a, b = c.stable_group("A", "B")
    c.sleep(7_000)
    new = c.member("C")
    new.enter()
    for _ in range(2):
        c.sleep(500)
        b.heartbeat()
    b.join()
    c.sleep(500)
    a.join()
    return {
        "generation": 3,
        "gained": [new.member_id],
        "waits": [
            waited(a.member_id, 3 * S // 2),
            waited(b.member_id, S, told_ns=S // 2),
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
            waited(b.member_id, 5 * S, came=False),
            waited(other.member_id, 2 * S, came=False),
            waited(given.member_id, 5 * S, came=False),
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


@play("rebalance_started", "assignment_not_stored")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A", sync=False)
    assign_too_much(c, a)
    return {"member_id": a.member_id, "previous_state": "CompletingRebalance"}


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
