"""Findings about what a test did: faults that struck members, the moved clock."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.faults import phrases
from kohort.broker.events.findings.finding import Evidence, Finding, gone
from kohort.broker.events.findings.interventions import moved_out
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.words import duration, many


def faults_struck(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that faults struck: other findings may be a result."""
    if not facts.strikes:
        return
    rules = {strike.fault_id for strike in facts.strikes}
    yield Finding(
        "faults-struck",
        f"{many(len(rules), 'fault rule')} struck members of this group "
        f"{many(len(facts.strikes), 'time')}",
        "A test or a fault plan did that (broker.faults, POST /v1/faults, --faults). "
        "Other findings may be a consequence.",
        tuple(
            Evidence(first.at_ns, text, first.sequence)
            for first, text in phrases(facts.strikes, names)
        ),
    )


def clock_advanced(facts: Facts, names: Names) -> Iterator[Finding]:
    """Sessions that expired only because a test moved the clock."""
    found = [(life, moved_out(life, facts)) for life in facts.lives]
    found = [(life, advances) for life, advances in found if advances]
    if not found:
        return
    moved_ns = sum({a.sequence: a.duration_ns for _, by in found for a in by}.values())
    yield Finding(
        "clock-advanced",
        f"A test moved the clock ahead by {duration(moved_ns)}, and sessions of "
        f"connected members expired: {many(len(found), 'time')}",
        "No client and no setting is to blame: members had no time to send a "
        "heartbeat. With credit_heartbeats=True, the default of clock.advance(), "
        "connected members stay; to end the session of one member only, stop its "
        "process or mute it before the advance.",
        tuple(
            gone(
                life,
                f"{names.of(life.member_id)}'s session expired in an advance of "
                f"{duration(sum(each.duration_ns for each in advances))}",
                names,
            )
            for life, advances in found
        ),
    )
