"""Findings about max.poll.interval.ms: applications that did not poll in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kohort.broker.events.account import reasons
from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone, Unread, Wait
from kohort.broker.events.findings import savings
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import (
    SECOND,
    Evidence,
    Finding,
    gone,
)
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules.refusals import commits_of_members
from kohort.broker.events.findings.rules.sessions import (
    cost_of,
    unread_of,
    without_reader,
)
from kohort.broker.events.findings.words import (
    duration,
    many,
    partition_count,
    said,
)

STARTING_NS = 10 * SECOND
"""The longest start of a client: connections, metadata, and the coordinator."""


def max_poll_interval(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that left because their applications did not poll in time.

    kafka-clients and kohort send that reason. Other clients send none, but their
    process goes on: it commits or rejoins on the same connection (librdkafka), or
    commits without a member id right after it left (aiokafka). In a rebalance, it kept
    the group waiting before it left.
    """
    at_work = at_work_after_leaving(facts)
    told: dict[str, Evidence] = {}
    guessed: dict[str, Evidence] = {}
    unread = unread_of(facts, Gone.LEFT)
    for life in facts.lives:
        if life.how is not Gone.LEFT or life.until_ns is None:
            continue
        text = f"{names.of(life.member_id)} left{said(life.reason)}"
        is_sure = reasons.is_poll_interval(life.reason)
        if not is_sure and not _may_have_missed_a_poll(life, facts):
            continue
        if not is_sure:
            if life.member_id not in at_work:
                continue
            what, is_sure = at_work[life.member_id]
            text += f", no reason given, and {what}"
        text += _not_polled(facts, life, unread[life.member_id])
        (told if is_sure else guessed)[life.member_id] = gone(life, text, names)
    for found, is_sure in ((told, True), (guessed, False)):
        if found:
            why = "because" if is_sure else "perhaps because"
            yield Finding(
                "max-poll-interval",
                f"Members left {why} their applications did not poll within "
                f"max.poll.interval.ms: {many(len(found), 'time')}"
                f"{without_reader(unread, found)}",
                "An application that works longer than max.poll.interval.ms between "
                "two polls loses its membership and all work since the last commit, "
                "and causes two rebalances. Take fewer records at a time "
                "(max.poll.records), raise max.poll.interval.ms above the longest "
                "batch, or pause the partitions and process in another thread while "
                "you keep polling.",
                tuple(found.values()),
                is_sure,
                "" if is_sure else "perhaps",
                cost_of(unread, found),
                savings.poll_interval(facts, found),
            )


def _not_polled(facts: Facts, life: Life, unread: Sequence[Unread]) -> str:
    """The time before a slow poller left, which is not in the account."""
    limit_ns = _poll_limit_ns(facts, life)
    if not (unread and limit_ns) or _lived_ns(life, limit_ns) < limit_ns:
        return ""
    partitions = many(partition_count(unread), "partition")
    waited = duration(limit_ns)
    return f"; it did not process its {partitions} for {waited} before it left"


def _poll_limit_ns(facts: Facts, life: Life) -> int:
    """The max.poll.interval.ms of a member, ns; 0 if unknown."""
    return (facts.members[life.member_id].rebalance_timeout_ms or 0) * 1_000_000


def _lived_ns(life: Life, unknown_ns: int) -> int:
    """How long a member was in the group; `unknown_ns` for one from before."""
    if life.since_ns is None or life.until_ns is None:
        return unknown_ns
    return life.until_ns - life.since_ns


def _may_have_missed_a_poll(life: Life, facts: Facts) -> bool:
    """False if a member cannot have left because it did not poll.

    Its client has no such limit, or it was a member for a shorter time. Some clients
    count from their start, which is before the first JoinGroup.
    """
    protocols = facts.members[life.member_id].protocols or ()
    if reasons.WITHOUT_LIMIT & {*protocols, life.software}:
        return False
    limit_ns = _poll_limit_ns(facts, life)
    return _lived_ns(life, limit_ns) + STARTING_NS >= limit_ns


def at_work_after_leaving(facts: Facts) -> dict[str, tuple[str, bool]]:
    """Members that left without a reason while their process went on.

    By member id: its later activity in words, and True if that is certain.
    """
    left = {
        life.member_id: life.until_ns
        for life in facts.lives
        if life.how is Gone.LEFT and life.until_ns is not None and not life.reason
    }
    found: dict[str, tuple[str, bool]] = {}
    for refusal, member_id in commits_of_members(facts):
        if refusal.at_ns >= left.get(member_id, refusal.at_ns + 1):
            after = duration(refusal.at_ns - left[member_id])
            is_sure = refusal.sender == member_id
            where = " on the same connection" if is_sure else ""
            text = f"its commit {after} later{where} was refused"
            found.setdefault(member_id, (text, is_sure))
    for again in facts.lives:
        before = facts.members[again.member_id].previous_id
        if before in left and again.since_ns is not None:
            after = duration(max(again.since_ns - left[before], 0))
            text = f"it rejoined {after} later on the same connection"
            found.setdefault(before, (text, False))
    return found | {
        wait.member_id: (
            f"the group had waited {duration(wait.waited_ns)} for it to rejoin",
            False,
        )
        for rebalance in facts.rebalances
        if rebalance.key not in facts.of_test
        for wait in rebalance.waits
        if not wait.came
        and wait.member_id in left.keys() - found.keys()
        and _is_long_wait(wait, facts)
    }


def _is_long_wait(wait: Wait, facts: Facts) -> bool:
    """True if a member that was asked to rejoin was busy, rather than being closed."""
    limit_ms = facts.members[wait.member_id].rebalance_timeout_ms
    return limit_ms is not None and 4 * wait.waited_ns >= limit_ms * 1_000_000
