"""Interventions of tests in a group: the clock that they moved, commands, faults.

Findings blame no client and no setting for any of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kohort.broker.events.account import Account
from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone
from kohort.broker.events.findings.facts import Advance, Facts
from kohort.broker.events.findings.faults import led_to, meanwhile, struck
from kohort.broker.events.findings.transaction_history import ObservedTransaction
from kohort.broker.events.findings.words import HELD, duration, many

MS: Final = 1_000_000
_COMMANDED: Final = frozenset({"member_kicked", "requested"})
"""Causes of rebalances that a command of a test started."""


def moved_ns(facts: Facts, since_ns: int, until_ns: int) -> int:
    """The part of a time that passed only because a test moved the clock."""
    found = advances_in(facts, since_ns, until_ns)
    return sum(
        min(each.until_ns, until_ns) - max(each.at_ns, since_ns) for each in found
    )


def advances_in(facts: Facts, since_ns: int, until_ns: int) -> Sequence[Advance]:
    """The advances of the clock that have a part of a time."""
    if not facts.advances:
        return ()
    first = bisect_right(facts.advances, since_ns, key=lambda each: each.until_ns)
    last = bisect_left(facts.advances, until_ns, key=lambda each: each.at_ns)
    return facts.advances[first:last]


def clock_phrases(advances: Iterable[Advance]) -> list[str]:
    """As in "a test moved the clock ahead by 46.0 s", once for all of them."""
    moved = [each.duration_ns for each in advances]
    if not moved:
        return []
    times = f" in {many(len(moved), 'step')}" if len(moved) > 1 else ""
    return [f"a test moved the clock ahead by {duration(sum(moved))}{times}"]


def moved_before(rebalance: Account, facts: Facts) -> list[Advance]:
    """The advances of the clock that ended a session, which began the rebalance."""
    return [
        advance
        for life in lives_of(rebalance, facts)
        for advance in moved_out(life, facts)
    ]


def moved_meanwhile(rebalance: Account, facts: Facts) -> list[Advance]:
    """The advances of the clock while the group rebalanced."""
    since_ns, until_ns = rebalance.started_ns, rebalance.ended_ns
    return [
        each
        for each in advances_in(facts, since_ns, until_ns)
        if each.at_ns >= since_ns and each.sequence > rebalance.started_sequence
    ]


def moved_out(life: Life, facts: Facts) -> list[Advance]:
    """The advances without which a member's session would not have expired.

    Members that have closed their connection have gone of themselves. Of connected
    ones, an advance that credits heartbeats ends only the sessions of new members,
    whose first JoinGroup waits.
    """
    if (
        life.how is not Gone.EXPIRED
        or life.until_ns is None
        or life.is_connected is False
    ):
        return []
    session_ms = facts.members[life.member_id].session_timeout_ms
    silent_ns = life.silent_ns or (session_ms or 0) * MS
    since_ns = life.until_ns - silent_ns
    found = [
        each
        for each in advances_in(facts, since_ns, life.until_ns)
        if life.is_connected or not each.credits_heartbeats
    ]
    moved = sum(
        min(each.until_ns, life.until_ns) - max(each.at_ns, since_ns) for each in found
    )
    is_due = session_ms is not None and silent_ns - moved >= session_ms * MS
    return [] if is_due else found


def moved_past(transaction: ObservedTransaction, facts: Facts) -> list[Advance]:
    """The advances without which a transaction's timeout would not have ended it."""
    since_ns, until_ns = transaction.started_ns, transaction.decided_ns
    if transaction.ended_by != "timeout" or until_ns is None:
        return []
    open_ns = until_ns - since_ns - moved_ns(facts, since_ns, until_ns)
    if open_ns >= transaction.timeout_ms * MS:
        return []
    return [*advances_in(facts, since_ns, until_ns)]


def with_tests(facts: Facts) -> Facts:
    """The facts, with `ended_by_test` and `of_test`."""
    ended = {life.member_id for life in facts.lives if _is_ended_by_test(life, facts)}
    facts = replace(facts, ended_by_test=frozenset(ended))
    keys = {each.key for each in facts.rebalances if _is_of_test(each, facts)}
    return replace(facts, of_test=frozenset(keys))


def _is_ended_by_test(life: Life, facts: Facts) -> bool:
    """True if a member is gone because of a command, a fault or the moved clock."""
    if life.how is Gone.COMMANDED or moved_out(life, facts):
        return True
    if life.until_ns is None or life.how not in {Gone.EXPIRED, Gone.KICKED}:
        return False
    if struck(life, facts):
        return True
    return life.how is Gone.KICKED and (
        is_limited(facts, life.until_ns)
        or any(
            _waits_for_test(each, facts)
            for each in facts.rebalances
            if each.started_ns <= life.until_ns <= each.ended_ns
        )
    )


def _is_of_test(rebalance: Account, facts: Facts) -> bool:
    """True if a test caused a rebalance, or its duration."""
    return (
        rebalance.cause in _COMMANDED
        or any(m in facts.ended_by_test for m in rebalance.culprits)
        or bool(led_to(rebalance, facts))
        or _waits_for_test(rebalance, facts)
    )


def _waits_for_test(rebalance: Account, facts: Facts) -> bool:
    """True if a rebalance took long because of a test: held, struck, or moved on."""
    return (
        any(piece.what == HELD for piece in rebalance.pieces)
        or bool(moved_meanwhile(rebalance, facts))
        or bool(meanwhile(rebalance, facts))
    )


def is_limited(facts: Facts, at_ns: int) -> bool:
    """True if a command limited the group's size then."""
    is_limited = False
    for each in facts.commands:
        if each.at_ns > at_ns:
            break
        if each.cause == "limit":
            is_limited = each.max_size is not None
    return is_limited


def lives_of(rebalance: Account, facts: Facts) -> list[Life]:
    """The lives of members whose expired sessions began the rebalance."""
    if rebalance.cause != "session_expired":
        return []
    culprits = {*rebalance.culprits, *(each.member_id for each in rebalance.departures)}
    return [
        life
        for life in facts.lives
        if life.member_id in culprits and life.until_ns == rebalance.started_ns
    ]
