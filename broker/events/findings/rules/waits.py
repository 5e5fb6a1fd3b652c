"""Findings about what a rebalance waited for: late leaders, rare heartbeats."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.broker.events.account import Account
from kohort.broker.events.account.rebalance import SLOW_TO_JOIN_NS
from kohort.broker.events.account.values import Wait
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import (
    SECOND,
    Cost,
    Evidence,
    Finding,
    Setting,
    cost,
)
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.words import duration, head, many

LATE_NS = SECOND
"""Least time for an assignment that is late: a leader fetches metadata and computes it
in some 10 ms, a sticky one for thousands of partitions in some 100 ms."""
LATE = 2
"""Late assignments that are worth a word: one may be the first after a start."""
RARE = 2
"""Rebalances of which members learned late: one may have been a pause."""


def slow_leader(facts: Facts, names: Names) -> Iterator[Finding]:
    """Leaders that take long to send the assignment, for which all members wait."""
    found = [
        (each, late_ns)
        for each in _own(facts)
        if (late_ns := sum(p.duration_ns for p in each.pieces if p.what == "sync"))
        >= LATE_NS
    ]
    if len(found) < LATE:
        return
    rebalances = [each for each, _ in found]
    longest = max(late_ns for _, late_ns in found)
    yield Finding(
        "slow-leader",
        f"Leaders took long to compute the assignment, up to {duration(longest)}: "
        f"{many(len(found), 'rebalance')}; {cost(rebalances)}",
        "After the join phase, all members wait for the leader's SyncGroup. It first "
        "fetches the metadata of all topics, and then runs the assignor in its own "
        "process. Look at that process: a poll loop that is busy with records, a slow "
        "or rate-limited metadata request, a pattern that matches thousands of topics, "
        "an expensive assignor, or too little CPU.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)}: {names.of(each.leader or '')} sent the assignment "
                f"after {duration(late_ns)}",
                each.started_sequence,
                each.generation,
                (names.of(each.leader or ""),),
            )
            for each, late_ns in found
        ),
        cost=Cost.of(rebalances),
    )


def rare_heartbeats(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that learn late of rebalances, because they seldom send a heartbeat."""
    found = [
        (each, wait)
        for each in _own(facts)
        for wait in each.waits
        if wait.came and is_told_late(wait)
    ]
    rebalances = [*{each.key: each for each, _ in found}.values()]
    if len(rebalances) < RARE:
        return
    longest = max(wait.told_ns or 0 for _, wait in found)
    yield Finding(
        "rare-heartbeats",
        f"Members learned of rebalances up to {duration(longest)} late, with their "
        f"next heartbeat: {many(len(rebalances), 'rebalance')}; {cost(rebalances)}",
        "The broker tells a member of a rebalance in the answer to its next heartbeat; "
        "until then all others wait. Set heartbeat.interval.ms to 3000 or less, and to "
        "at most a third of session.timeout.ms. If it is that short, something keeps "
        "the client from sending heartbeats in time, such as a busy event loop.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)} waited {duration(wait.waited_ns)} for "
                f"{names.of(wait.member_id)}, whose next heartbeat came after "
                f"{duration(wait.told_ns or 0)}",
                each.started_sequence,
                each.generation,
                (names.of(wait.member_id),),
            )
            for each, wait in found
        ),
        setting=Setting("heartbeat.interval.ms", "3000"),
        cost=Cost.of(rebalances),
    )


def is_told_late(wait: Wait) -> bool:
    """True if most of a long wait was for the member's next heartbeat."""
    told_ns = wait.told_ns
    return (
        told_ns is not None
        and told_ns >= SLOW_TO_JOIN_NS
        and 2 * told_ns >= wait.waited_ns
    )


def _own(facts: Facts) -> Iterator[Account]:
    """The rebalances that no test caused, or made longer."""
    return (each for each in facts.rebalances if each.key not in facts.of_test)
