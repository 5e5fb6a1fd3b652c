"""Scenes of events about consumer groups (KIP-848) that other groups do not have."""

from __future__ import annotations

from tests.coordinator.consumer.member import Consumer
from tests.coordinator.context import Context
from tests.coordinator.member import Member, dealt, subscribed
from tests.events.plays.scene import Facts, Plays, S, part

from kohort.broker.coordinator.events import (
    Fence,
    HoldMember,
    ReleaseMember,
    TopicsChanged,
)

PLAYS = Plays()
play = PLAYS.play


def _waiting(c: Context) -> tuple[Consumer, Consumer]:
    """A has to give up partition 1 of t, for which B waits."""
    c.configure(consumer_assignment_interval_ms=0)
    c.topics.create("t", 2)
    a = Consumer(c, "A", "t", rebalance_ms=10_000)
    b = Consumer(c, "B", "t")
    a.join()
    a.settle()
    b.join()
    return a, b


@play("member_reconciled", "unreleased_partitions")
def _(c: Context) -> Facts:
    a, b = _waiting(c)
    return {
        "member_id": b.member_id,
        "member_epoch": 3,
        "target_epoch": 3,
        "revoking": [],
        "awaited": part(1),
        "holders": [a.member_id],
    }


@play("member_reconciled", "unrevoked_partitions")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    a.beat()
    return {
        "member_id": a.member_id,
        "member_epoch": 2,
        "target_epoch": 3,
        "revoking": part(1),
        "awaited": [],
        "holders": [],
    }


@play("member_reconciled", "stable")
def _(c: Context) -> Facts:
    a, b = _waiting(c)
    a.beat()
    a.settle()
    b.beat()
    return {"member_id": b.member_id, "awaited": [], "holders": []}


@play("commanded", "fence")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    c.command(Fence, a.member_id)
    return {"member_id": a.member_id, "generation": 3, "reason": None}


@play("commanded", "hold_member")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    c.command(HoldMember, a.member_id)
    return {"member_id": a.member_id, "held_in": None}


@play("commanded", "release_member")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    c.command(HoldMember, a.member_id)
    c.command(ReleaseMember, a.member_id)
    return {"member_id": a.member_id, "held_in": None}


@play("member_kicked", "did_not_revoke_in_time")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    a.beat()
    c.sleep(10_000)
    return {"member_id": a.member_id, "silent_ns": 10 * S}


@play("rebalance_started", "revocation_timeout")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    a.beat()
    c.sleep(10_000)
    return {"culprits": [a.member_id], "generation": 3, "members": []}


@play("rebalance_started", "topics_changed")
def _(c: Context) -> Facts:
    a, _ = _waiting(c)
    c.topics.grow("t", 3)
    c.submit(TopicsChanged(["t"]))
    a.beat()
    return {"member_id": None, "culprits": [], "generation": 3}


@play("join_completed", "target_due")
def _(c: Context) -> Facts:
    a, b = _waiting(c)
    return {
        "members": [a.member_id, b.member_id],
        "gained": [b.member_id],
        "lost": [],
        "protocol": "uniform",
        "leader": None,
        "generation": 3,
    }


def _upgraded(c: Context) -> tuple[Member, Consumer]:
    """A classic member and a consumer, which has upgraded their group."""
    c.topics.create("t", 2)
    a = c.member("A", protocols=subscribed("t"))
    c.form([a], sync=False)
    a.sync([(a.member_id, dealt(0, 1))])
    b = Consumer(c, "B", "t")
    b.join()
    return a, b


@play("group_converted", "upgraded")
def _(c: Context) -> Facts:
    _, b = _upgraded(c)
    return {"member_id": b.member_id, "group_type": "consumer", "generation": 1}


@play("group_converted", "downgraded")
def _(c: Context) -> Facts:
    _, b = _upgraded(c)
    b.leave()
    return {"member_id": b.member_id, "group_type": "classic", "generation": 2}


@play("group_converted", "replaced")
def _(c: Context) -> Facts:
    a, b = _upgraded(c)
    a.leave()
    b.leave()
    c.member("C", instance="i").enter()
    return {"member_id": None, "instance_id": "i", "group_type": "classic"}


@play("member_refused", "too_large")
def _(c: Context) -> Facts:
    c.configure(consumer_assignment_interval_ms=0)
    c.topics.create("t", 1_000)
    a = Consumer(c, "A", "t")
    c.largest = 1_000
    a.join()
    b = Consumer(c, "B")
    b.join()
    b.beat(topics=["t"])
    b.beat(topics=["t"])
    return {"member_id": b.member_id, "error": "UNKNOWN_SERVER_ERROR", "reason": None}
