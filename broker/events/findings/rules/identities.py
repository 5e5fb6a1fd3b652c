"""Findings about the names of members: other ones at each start, and foreign ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone, Outcome
from kohort.broker.events.findings import savings
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import (
    MINUTE,
    Cost,
    Evidence,
    Finding,
    cost,
    gone,
)
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.words import duration, many

RENAMED = 2
"""Members that were replaced by others, one after the other: one may be a coincidence.
"""
SUCCESSOR_NS = 5 * MINUTE
"""The longest time between a member's end and its successor's start, before or after:
the same as between the steps of a rolling restart."""
SHORT_VISIT_NS = 10 * MINUTE
"""The longest visit of a consumer that joins to look at something."""
ALIKE = 3
"""Characters that the names of an application's members begin with: "app"."""
TOOLS: Final = ("console-consumer", "kcat", "kafkacat", "kafka-ui", "akhq")
"""Client ids of tools, which may have a suffix."""


@dataclass(frozen=True, slots=True)
class _Swap:
    """A member that went, and another one, new to the group, in its place."""

    old: Life
    new: Life


def renamed(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members whose names change at each start, as pods of a Deployment do."""
    swaps = [*_swaps(facts)]
    if len(swaps) < RENAMED:
        return
    is_static = any(facts.members[s.old.member_id].instance_id for s in swaps)
    what = "group.instance.id" if is_static else "client.id"
    yield Finding(
        "renamed-members",
        f"Members perhaps got another {what} at each start: "
        f"{many(len(swaps), 'member')} went, and others came in their place",
        (
            "A static member is known by its group.instance.id. With another one it "
            "is a new member, and the old one keeps its partitions until its session "
            "expires. Use a name that survives the restart: that of a StatefulSet's "
            "pod, not of a Deployment's."
            if is_static
            else "Nothing tells a restarted process from a new one, so its restart "
            "causes two rebalances, and static membership (KIP-345) needs a name that "
            "survives it. Use the name of a StatefulSet's pod, or of a slot, as "
            "group.instance.id and client.id."
        ),
        tuple(
            gone(
                swap.old,
                f"{names.of(swap.old.member_id)} went, and "
                f"{names.of(swap.new.member_id)} came {_apart(swap)}",
                names,
            )
            for swap in swaps
        ),
        is_sure=False,
    )


def _apart(swap: _Swap) -> str:
    apart_ns = (swap.new.since_ns or 0) - (swap.old.until_ns or 0)
    side = "later" if apart_ns >= 0 else "before that"
    return f"{duration(abs(apart_ns))} {side}"


def swapped(facts: Facts) -> set[str]:
    """Members in whose place others came, if that is `renamed`."""
    swaps = [swap.old.member_id for swap in _swaps(facts)]
    return {*swaps} if len(swaps) >= RENAMED else set()


def _swaps(facts: Facts) -> Iterator[_Swap]:
    """Steps of a restart, one by one, in which each process has another name.

    Each member that goes for good is matched with the next one that is new to the
    group and has a similar name. Not around a stop of the whole group.
    """
    # Not by host: a pod comes back on another one.
    names = Counter(_name(facts, each) for each in facts.lives)
    once = [each for each in facts.lives if names[_name(facts, each)] == 1]
    came = sorted(
        (life for life in once if life.since_ns is not None),
        key=lambda life: life.since_ns or 0,
    )
    went = sorted(
        (life for life in once if _is_gone(life, facts)),
        key=lambda life: life.until_ns or 0,
    )
    last_ns = 0
    for old in went:
        first_ns = max(last_ns, old.since_ns or 0, (old.until_ns or 0) - SUCCESSOR_NS)
        first = bisect_right(came, first_ns, key=lambda life: life.since_ns or 0)
        for new in came[first:]:
            if (new.since_ns or 0) > (old.until_ns or 0) + SUCCESSOR_NS:
                break
            if _application(facts, old) == _application(facts, new) and not (
                _is_stopped_between(old, new, facts)
            ):
                last_ns = new.since_ns or 0
                yield _Swap(old, new)
                break


def _is_gone(life: Life, facts: Facts) -> bool:
    """True if a member went of itself, and does not hang."""
    return (
        life.how in {Gone.LEFT, Gone.EXPIRED}
        and life.member_id not in facts.ended_by_test
        and not life.is_connected
    )


def _is_stopped_between(old: Life, new: Life, facts: Facts) -> bool:
    since_ns, until_ns = sorted((old.until_ns or 0, new.since_ns or 0))
    return any(
        each.outcome is Outcome.EMPTIED and since_ns <= each.ended_ns <= until_ns
        for each in facts.rebalances
    )


def visitor(facts: Facts, names: Names) -> Iterator[Finding]:
    """A member that joined for a short time, and has a name unlike all others."""
    over = savings.at_the_end(facts)
    applications = Counter(_application(facts, life) for life in facts.lives)
    for life in facts.lives:
        if life.since_ns is None or life.until_ns is None or life.how is not Gone.LEFT:
            continue
        is_short = life.until_ns - life.since_ns <= SHORT_VISIT_NS
        if not is_short or life.member_id in over:
            continue
        if applications[_application(facts, life)] > 1 or not _is_foreign(life, facts):
            continue
        caused = [r for r in facts.rebalances if life.member_id in r.culprits]
        member = facts.members[life.member_id]
        yield Finding(
            "visitor",
            f"{names.of(life.member_id)} joined for "
            f"{duration(life.until_ns - life.since_ns)} and left, perhaps to look at "
            f"the topic: {many(len(caused), 'rebalance')}; {cost(caused)}",
            "A consumer with the group's id is a member: it gets partitions, and the "
            "records that it reads and commits are not processed by the service. Look "
            "at a topic with another group.id, or without one (kcat -C, "
            "kohort consume, a console consumer with --partition).",
            (
                Evidence(
                    life.since_ns,
                    f"{names.of(life.member_id)} (client "
                    f"{cut(member.client_id) or 'without a name'}, host "
                    f"{member.host or 'unknown'}) joined",
                    members=(names.of(life.member_id),),
                    until_ns=life.until_ns,
                ),
            ),
            is_sure=False,
            subject=life.member_id,
            cost=Cost.of(caused),
        )


def _is_foreign(life: Life, facts: Facts) -> bool:
    """True if the others stayed, and all have names unlike this one."""
    others = [
        other
        for other in facts.lives
        if (other.since_ns or 0) < (life.since_ns or 0)
        and (other.until_ns is None or other.until_ns > (life.until_ns or 0))
    ]
    applications = {_application(facts, other) for other in others}
    if _name(facts, life).startswith(TOOLS):
        return bool(others)
    return len(others) > 1 and len(applications) == 1


def _application(facts: Facts, life: Life) -> str:
    """The beginning of a member's name, which those of one application share."""
    return _name(facts, life)[:ALIKE]


def _name(facts: Facts, life: Life) -> str:
    member = facts.members[life.member_id]
    return member.instance_id or member.client_id
