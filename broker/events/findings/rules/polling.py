"""Findings about max.poll.interval.ms: applications that did not poll in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    rejoined,
    said,
)

STARTING_NS = 10 * SECOND
"""The longest start of a client: connections, metadata, and the coordinator."""


def max_poll_interval(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that left because their applications did not poll in time.

    kafka-clients and kohort send that reason. Other clients send none, but their
    process goes on: it commits or rejoins on the same connection (librdkafka), or
    commits without a member id right after it left (aiokafka). In a rebalance, it kept
    the group waiting before it left. In a consumer group (KIP-848) no client can give a
    reason, and a process that goes on rejoins under its member id: so does one that
    has unsubscribed for a while.
    """
    at_work = at_work_after_leaving(facts)
    told: dict[End, Evidence] = {}
    guessed: dict[End, Evidence] = {}
    unread = unread_of(facts, Gone.LEFT)
    for life in facts.lives:
        if life.how is not Gone.LEFT or life.until_ns is None:
            continue
        text = f"{names.of(life.member_id)} left{said(life.reason)}"
        is_sure = reasons.is_poll_interval(life.reason)
        if not is_sure and not _may_have_missed_a_poll(life, facts):
            continue
        if not is_sure:
            if end_of(life) not in at_work:
                continue
            what, is_sure = at_work[end_of(life)]
            text += f", no reason given, and {what}"
        text += _not_polled(facts, life, unread[life.member_id])
        (told if is_sure else guessed)[end_of(life)] = gone(life, text, names)
    for found, is_sure in ((told, True), (guessed, False)):
        if found:
            members = {member_id for member_id, _ in found}
            why = "because" if is_sure else "perhaps because"
            yield Finding(
                "max-poll-interval",
                f"Members left {why} their applications did not poll within "
                f"max.poll.interval.ms: {many(len(found), 'time')}"
                f"{without_reader(unread, members)}",
                "An application that works longer than max.poll.interval.ms between "
                "two polls loses its membership and all work since the last commit, "
                "and causes two rebalances. Take fewer records at a time "
                "(max.poll.records), raise max.poll.interval.ms above the longest "
                "batch, or pause the partitions and process in another thread while "
                "you keep polling.",
                tuple(found.values()),
                is_sure,
                "" if is_sure else "perhaps",
                cost_of(unread, members),
                savings.poll_interval(
                    facts, [each for each in facts.lives if end_of(each) in found]
                ),
            )


def _not_polled(facts: Facts, life: Life, unread: Sequence[Unread]) -> str:
    """The time before a slow poller left, which is not in the account."""
    limit_ns = _poll_limit_ns(facts, life)
    since_ns, until_ns = life.since_ns or 0, life.until_ns or 0
    unread = [row for row in unread if since_ns <= row.since_ns <= until_ns]
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


End = tuple[str, int]
"""The end of a life: the member id, which a consumer group may have again, and when."""


def end_of(life: Life) -> End:
    """The end of a member's life."""
    return life.member_id, life.until_ns or 0


def at_work_after_leaving(facts: Facts) -> dict[End, tuple[str, bool]]:
    """Members that left without a reason while their process went on.

    By the end of a life: its later activity in words, and True if that is certain.
    """
    left: dict[str, list[int]] = {}
    for life in facts.lives:
        if life.how is Gone.LEFT and life.until_ns is not None and not life.reason:
            left.setdefault(life.member_id, []).append(life.until_ns)
    found: dict[End, tuple[str, bool]] = {}
    for refusal, member_id in commits_of_members(facts):
        until_ns = _last(left.get(member_id, ()), refusal.at_ns)
        if until_ns is not None:
            after = duration(refusal.at_ns - until_ns)
            is_sure = refusal.sender == member_id
            where = " on the same connection" if is_sure else ""
            text = f"its commit {after} later{where} was refused"
            found.setdefault((member_id, until_ns), (text, is_sure))
    for again in facts.lives:
        before = facts.members[again.member_id].previous_id or ""
        if again.since_ns is None or again.has_other_offer:
            continue
        until_ns = _last(left.get(before, ()), again.since_ns)
        if until_ns is not None:
            is_same = before == again.member_id
            text = rejoined(again.since_ns - until_ns, is_same_id=is_same)
            found.setdefault((before, until_ns), (text, False))
    return found | _left_late(facts, left, found)


def _last(ends: Sequence[int], at_ns: int) -> int | None:
    """The last end of a member's lives up to a time."""
    return next((each for each in reversed(ends) if each <= at_ns), None)


def _left_late(
    facts: Facts, left: Mapping[str, Sequence[int]], found: Mapping[End, object]
) -> dict[End, tuple[str, bool]]:
    """Members that left while a rebalance waited for them."""
    return {
        (wait.member_id, left[wait.member_id][-1]): (
            f"the group had waited {duration(wait.waited_ns)} for it to rejoin",
            False,
        )
        for rebalance in facts.rebalances
        if rebalance.key not in facts.of_test
        for wait in rebalance.waits
        if not wait.came
        and wait.member_id in left
        and (wait.member_id, left[wait.member_id][-1]) not in found
        and _is_long_wait(wait, facts)
    }


def _is_long_wait(wait: Wait, facts: Facts) -> bool:
    """True if a member that was asked to rejoin was busy, rather than being closed."""
    limit_ms = facts.members[wait.member_id].rebalance_timeout_ms
    return limit_ms is not None and 4 * wait.waited_ns >= limit_ms * 1_000_000
