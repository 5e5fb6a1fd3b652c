"""Faults in plain words: the rules of the fault plan that struck members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from kohort.broker.events.account import Account
from kohort.broker.events.account.membership import Life
from kohort.broker.events.findings.facts import Facts, Strike
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.words import many

LED_TO_NS: Final = 60_000_000_000
"""How long before a rebalance a fault may have struck the member that caused it: the
longest pause of Kafka's clients between two tries is far below a minute. Faults before
the last rebalance led to that one. If the member's session expired, the time since the
broker last heard of it counts instead."""

BEFORE_SILENCE_NS: Final = 10_000_000_000
"""How long before a silence a fault may have caused it: a JoinGroup with a delayed
answer is a sign of life until the join phase ends."""

_PHRASES: Final = {
    "error": "answered {of} with {error}",
    "answer": "answered {of} in place of the broker",
    "change": "changed the answers to {of}",
    "delay": "delayed the answers to {of}",
    "disconnect_before": "closed the connection before {of} took effect",
    "disconnect_after": "closed the connection in place of answers to {of}",
    "swallow": "swallowed {of}",
    "throttle": "throttled {of}",
    "duplicate": "ran {of} twice",
    "stale": "answered {of} with the answer to an earlier one",
    "corrupt": "corrupted the answers to {of}",
    "truncate": "truncated the answers to {of}",
    "trickle": "trickled the answers to {of}",
    "black_hole": "cut {who} off",
    "jitter": "delayed what {who} sends and receives",
}


def phrases(strikes: Iterable[Strike], names: Names) -> list[tuple[Strike, str]]:
    """Strikes in words, like ones together, each with the first of its strikes.

    As in "fault 'loading' answered 2 OffsetCommit requests of billing-1 with ...".
    """
    alike: dict[tuple[object, ...], list[Strike]] = {}
    for strike in strikes:
        alike.setdefault(strike.sort, []).append(strike)
    return [(rows[0], _phrase(rows, names)) for rows in alike.values()]


def _phrase(rows: Sequence[Strike], names: Names) -> str:
    strike = rows[0]
    who = names.of(strike.member_id) if strike.member_id else cut(strike.client_id)
    who = who or "a client"
    request = f"{strike.api} request" if strike.api else "request"
    phrase = _PHRASES.get(strike.effect, "struck {of}").format(
        of=f"{many(len(rows), request)} of {who}",
        who=who,
        error=strike.error,
    )
    is_named = strike.fault != f"fault {strike.fault_id}"
    fault = f"fault '{cut(strike.fault)}'" if is_named else strike.fault
    return f"{fault} {phrase}"


def led_to(rebalance: Account, facts: Facts) -> list[Strike]:
    """The faults that struck the members that caused a rebalance, before it began.

    Without jitter, which strikes the whole connection and loses nothing.
    """
    if not facts.strikes:
        return []
    start_ns, silent_ns = rebalance.started_ns, rebalance.silent_ns
    if silent_ns is not None:
        since_ns = start_ns - silent_ns
    else:
        ends = (each.ended_ns for each in facts.rebalances if each is not rebalance)
        before = max((end for end in ends if end <= start_ns), default=0)
        since_ns = max(before, start_ns - LED_TO_NS)
    processes = {_process(m, facts) for m in rebalance.culprits}
    return [
        strike
        for strike in _losing(facts, since_ns, start_ns)
        if _is_before(strike, rebalance) and _sender(strike, facts) in processes
    ]


def struck(life: Life, facts: Facts) -> list[Strike]:
    """The faults that struck a member that was removed, in its silence or before."""
    if not facts.strikes or life.until_ns is None:
        return []
    process = _process(life.member_id, facts)
    since_ns = life.until_ns - (life.silent_ns or 0) - BEFORE_SILENCE_NS
    return [
        strike
        for strike in _losing(facts, since_ns, life.until_ns)
        if _sender(strike, facts) == process
    ]


def meanwhile(rebalance: Account, facts: Facts) -> list[Strike]:
    """The faults that struck members while the group rebalanced."""
    found = _losing(facts, rebalance.started_ns, rebalance.ended_ns)
    return [strike for strike in found if not _is_before(strike, rebalance)]


def _losing(facts: Facts, since_ns: int, until_ns: int) -> list[Strike]:
    """The strikes of a time, without jitter."""
    if not facts.strikes:
        return []
    first = bisect_left(facts.strikes, since_ns, key=lambda strike: strike.at_ns)
    last = bisect_right(facts.strikes, until_ns, key=lambda strike: strike.at_ns)
    return [strike for strike in facts.strikes[first:last] if strike.effect != "jitter"]


def _is_before(strike: Strike, rebalance: Account) -> bool:
    """True if it was before the start; sequence numbers decide between equal times."""
    start = rebalance.started_ns, rebalance.started_sequence
    return (strike.at_ns, strike.sequence) < start


def _process(member_id: str, facts: Facts) -> str:
    member = facts.members.get(member_id)
    return member_id if member is None else member.instance_id or member.client_id


def _sender(strike: Strike, facts: Facts) -> str:
    if strike.member_id:
        return _process(strike.member_id, facts)
    return strike.client_id
