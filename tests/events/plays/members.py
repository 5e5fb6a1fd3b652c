"""Scenes of events about members and leaders."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.coordinator.member import subscribed
from tests.events.plays.scene import Facts, Plays, S

PLAYS = Plays()
play = PLAYS.play


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


@play("member_fenced")
def _(c: Context) -> Facts:
    (a,) = c.stable_group("A", static=True)
    c.member("A", instance="i-A").join()
    a.heartbeat()
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
