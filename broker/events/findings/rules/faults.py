"""Findings about what a test did: faults that struck members, the moved clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.broker.events.findings.facts import Advance, Facts
from kohort.broker.events.findings.faults import phrases
from kohort.broker.events.findings.finding import Evidence, Finding, gone
from kohort.broker.events.findings.interventions import moved_out, moved_past
from kohort.broker.events.findings.names import Names, cut
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
    """Sessions and transactions that ended only because a test moved the clock."""
    lives = [(life, moved_out(life, facts)) for life in facts.lives]
    lives = [(life, advances) for life, advances in lives if advances]
    opened = [(each, moved_past(each, facts)) for each in facts.transactions]
    opened = [(each, advances) for each, advances in opened if advances]
    if not lives and not opened:
        return
    moves = [advance for _, by in (*lives, *opened) for advance in by]
    moved_ns = sum({each.sequence: each.duration_ns for each in moves}.values())
    ended = [
        f"{many(len(lives), 'session')} of connected members expired" if lives else "",
        f"{many(len(opened), 'transaction')} timed out" if opened else "",
    ]
    yield Finding(
        "clock-advanced",
        f"A test moved the clock ahead by {duration(moved_ns)}: "
        f"{' and '.join(filter(None, ended))}",
        "No client and no setting is to blame: clients had no time to send anything. "
        "With credit_heartbeats=True, the default of clock.advance(), connected "
        "members stay; to end the session of one member only, stop its process or "
        "mute it before the advance.",
        (
            *(
                gone(
                    life,
                    f"{names.of(life.member_id)}'s session expired in an advance of "
                    f"{_moved(advances)}",
                    names,
                )
                for life, advances in lives
            ),
            *(
                Evidence(
                    each.started_ns,
                    f"a transaction of {cut(each.transactional_id)} timed out in an "
                    f"advance of {_moved(advances)}",
                    each.sequence,
                )
                for each, advances in opened
            ),
        ),
    )


def _moved(advances: Iterable[Advance]) -> str:
    return duration(sum(each.duration_ns for each in advances))
