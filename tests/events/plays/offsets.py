"""Scenes of events about offsets and the log."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.events.plays.scene import Facts, Plays, assign_too_much, part

from kohort.broker.coordinator.events import TopicsDeleted

PLAYS = Plays()
play = PLAYS.play


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


@play("offsets_unchecked")
def _(c: Context) -> Facts:
    """A group without members, or a member that is named, makes no event."""
    c.commit_pending(7, ("t", 1))
    (a,) = c.stable_group("A")
    generation = {"member_id": a.member_id, "generation_id": a.generation_id}
    c.commit_pending(7, ("t", 2), **generation)
    assert not [e for e in c.events() if e["kind"] == "offsets_unchecked"]
    c.commit_pending(7, ("t", 3))
    return {"member_id": None, "client_id": "simple", "producer_id": 7}


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
