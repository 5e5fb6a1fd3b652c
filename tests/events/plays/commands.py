"""Scenes of commands about a group."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.events.plays.scene import Facts, Plays

PLAYS = Plays()
play = PLAYS.play


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
