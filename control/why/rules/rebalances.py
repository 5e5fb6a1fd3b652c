"""Findings about rebalances: their number, durations and causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kohort.broker.events.account import Account, reasons
from kohort.broker.events.account.values import Gone, Outcome
from kohort.broker.events.advice import (
    ARRIVAL_GAP_NS,
    EAGER_PAUSE_NS,
    HELD_UP_NS,
    KEPT_SHARE,
)
from kohort.control.why.facts import Facts, TooLarge
from kohort.control.why.findings import (
    MINUTE,
    SECOND,
    Evidence,
    Finding,
    cost,
    of_rebalance,
)
from kohort.control.why.names import Names, cut
from kohort.control.why.words import duration, head, many

INITIAL_REBALANCES = 3
"""Rebalances of a start that are too many. With a delay of 0 two are normal for a
deployment whose members start within one heartbeat: the first one, and the rest."""
HELD_UP = 2
"""Rebalances that a member has to hold up: one may have been a pause."""
EAGER_REBALANCES = 3
"""Eager rebalances that it takes to see that partitions come back: one or two are a
deployment's."""
FOREVER = 2**63
LEADER_REJOINS = 3
"""Rebalances by one leader: two may be two topics that were made."""
LEADER_REJOINS_NS = 10 * MINUTE
"""In that time: two intervals of metadata.max.age.ms, by which clients look for new
topics and partitions."""
CHANGES = 3
"""Rebalances by changed subscriptions: as often as a deployment would not do it."""
NEVER_QUIET = 5
"""Rebalances at least, for a group that is never quiet: fewer are a start and stop."""
BUSY_SHARE = 0.2
"""The least share of time in rebalances of a group that is never quiet: a fifth is far
above the few seconds a day of a quiet group, and spares a group that just started."""


def many_initial_rebalances(facts: Facts, names: Names) -> Iterator[Finding]:
    """A start in which the group rebalanced as members came, one after the other."""
    for start in _starts(facts.rebalances):
        # A rebalance that another coordinator had to begin again counts once.
        ended = [r for r in start if r.outcome is not Outcome.MOVED]
        if sum(not r.is_second_half for r in ended) < INITIAL_REBALANCES:
            continue
        since, until = start[0].started_ns, start[-1].ended_ns
        arrivals = sorted(
            life.since_ns
            for life in facts.lives
            if life.since_ns is not None
            and since <= life.since_ns <= until
            # One that a coordinator has forgotten comes again.
            and life.how is not Gone.UNSEEN
        )
        gap_ns = max((b - a for a, b in pairwise(arrivals)), default=0)
        needed_ms = (gap_ns // SECOND + 1) * 1000
        delays = facts.initial_delays_ms
        was = f" (it was {max(delays)})" if delays else ""
        yield Finding(
            "many-initial-rebalances",
            f"A start of {many(len(arrivals), 'member')} within "
            f"{duration(arrivals[-1] - since) if arrivals else '0 s'} was "
            f"{len(start)} rebalances; {cost(start)}",
            "Set group.initial.rebalance.delay.ms of the brokers (KIP-134) to at "
            f"least {needed_ms}{was}: the longest pause between two arrivals was "
            f"{duration(gap_ns)}, and an empty group waits on while members join in "
            "the last delay, up to the rebalance timeout. The first assignment comes "
            "later by that.",
            tuple(of_rebalance(each, names) for each in start),
        )


def _starts(rebalances: Sequence[Account]) -> Iterator[list[Account]]:
    """Rebalances from an empty group on, as long as newcomers cause them."""
    start: list[Account] = []
    for each in rebalances:
        if start and _goes_on(start[-1], each):
            start.append(each)
            continue
        if start:
            yield start
        start = [each] if each.previous_state == "Empty" else []
    if start:
        yield start


def _goes_on(last: Account, each: Account) -> bool:
    if each.started_ns - last.ended_ns > ARRIVAL_GAP_NS or each.lost:
        return False
    return each.cause == "member_joined" or each.is_second_half


# -- waits that are too long


def missed_rebalance_timeout(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that did not rejoin until the rebalance timeout was over."""
    found = [r for r in facts.rebalances if r.latecomers]
    if not found:
        return
    count = sum(len(each.latecomers) for each in found)
    yield Finding(
        "missed-rebalance-timeout",
        f"Members did not rejoin within the rebalance timeout, and were removed: "
        f"{many(count, 'time')}; {cost(found)}",
        "In Kafka's consumers the rebalance timeout is max.poll.interval.ms, the "
        "longest of all members: they are asked to rejoin by heartbeat, and do so in "
        "their next poll. A member that takes longer is busy with a batch, stuck, or "
        "dead with a session timeout that is longer still. Make batches smaller "
        "(max.poll.records), and max.poll.interval.ms no longer than they take.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)} waited {duration(each.join_ns)}: "
                f"{names.list(each.latecomers)} did not join",
                each.started_sequence,
                each.generation,
            )
            for each in found
        ),
    )


def slow_to_rejoin(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that rebalances waited for long, again and again."""
    waits: dict[str, list[Evidence]] = {}
    for each in facts.rebalances:
        for wait in each.pieces:
            if wait.what != "join" or wait.member_id is None:
                continue
            if wait.duration_ns >= HELD_UP_NS:
                name = names.of(wait.member_id)
                end = "came" if wait.ended_by == "joined" else "was gone"
                text = (
                    f"{head(each)} waited {duration(wait.duration_ns)} longer, "
                    f"until {name} {end}"
                )
                row = Evidence(
                    wait.until_ns, text, each.started_sequence, each.generation
                )
                waits.setdefault(name, []).append(row)
    for name, rows in waits.items():
        if len(rows) >= HELD_UP:
            yield Finding(
                "slow-to-rejoin",
                f"{name} held up {many(len(rows), 'rebalance')} for "
                f"{duration(HELD_UP_NS)} or longer each",
                "A member learns of a rebalance by its next heartbeat, and joins in "
                "its next poll: all the others pause meanwhile. Its batches take "
                "long (max.poll.records), its listener does much when partitions are "
                "revoked, its heartbeats are far apart (heartbeat.interval.ms), or it "
                "is dead, and its session has yet to expire (session.timeout.ms).",
                tuple(rows),
            )


def sync_timeout(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that joined, and did not fetch their assignment in time."""
    found = [r for r in facts.rebalances if r.cause == "sync_timeout"]
    if found:
        yield Finding(
            "sync-timeout",
            f"Members joined and then did not send SyncGroup in time: "
            f"{many(len(found), 'rebalance')}",
            "If it was the leader it has died, or takes too long to compute the "
            "assignment, or to fetch the metadata for it. If it was another one "
            "it stopped between two requests. They had the rebalance timeout "
            "(max.poll.interval.ms), and all the others waited for it.",
            tuple(of_rebalance(each, names) for each in found),
        )


def records_too_large(facts: Facts, _: Names) -> Iterator[Finding]:
    """Records of the group that the log refused: it cannot become Stable, or commit."""
    if facts.too_large:
        groups = sum(each.what == "group" for each in facts.too_large)
        commits = len(facts.too_large) - groups
        counts = [
            many(groups, "assignment") if groups else "",
            many(commits, "commit") if commits else "",
        ]
        yield Finding(
            "records-too-large",
            f"The log refused {' and '.join(filter(None, counts))} of the group: "
            f"larger than max.message.bytes of __consumer_offsets",
            "One record has the subscriptions and assignments of all members, and it "
            "has to fit into one batch. Clients get UNKNOWN_SERVER_ERROR, and the "
            "group rebalances again and again. Subscribe to fewer topics (not by a "
            "pattern that matches thousands), use an assignor with less user data "
            "than a sticky one, split the group, or raise max.message.bytes of "
            "__consumer_offsets. A commit is too large by its metadata, or by "
            "thousands of partitions: commit them in several requests.",
            tuple(
                Evidence(each.at_ns, _too_large(each), each.sequence, each.generation)
                for each in facts.too_large
            ),
        )


def _too_large(found: TooLarge) -> str:
    what = "the group's record" if found.what == "group" else "a commit"
    if found.size_bytes is None or found.max_bytes is None:
        return f"{what} was refused"
    return f"{what} of {found.size_bytes:,} bytes was refused; {found.max_bytes:,} fit"


# -- rebalances for nothing


def eager_for_nothing(facts: Facts, _: Names) -> Iterator[Finding]:
    """Eager rebalances after which most partitions were where they had been."""
    newcomers = _newcomers(facts)
    found = [
        each
        for each in facts.rebalances
        if each.is_eager
        and each.outcome is Outcome.COMPLETED
        and each.previous_state != "Empty"
        and (each.kept_count or each.moved_count)
        and not _is_growth(each, newcomers)
    ]
    kept = sum(each.kept_count for each in found)
    moved = sum(each.moved_count for each in found)
    paused_ns = sum(each.paused_ns for each in found)
    if len(found) < EAGER_REBALANCES or paused_ns < EAGER_PAUSE_NS * len(found):
        return
    if kept < KEPT_SHARE * (kept + moved):
        return
    protocols = cut(", ".join(sorted({r.protocol or "" for r in found})))
    yield Finding(
        "eager-for-nothing",
        f"In {len(found)} eager rebalances {kept} of {kept + moved} partitions "
        f"returned to the members that had revoked them; {cost(found)}",
        f"Members of an eager assignor ({protocols}) revoke all they own to rejoin. "
        "With cooperative-sticky (KIP-429) they process on, and give up only the "
        "partitions that move. "
        "Change it by two rolling restarts: first with both assignors "
        "in partition.assignment.strategy, then without the old one.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)}: {each.kept_count} of "
                f"{many(each.partition_count, 'partition')} returned, "
                f"{each.moved_count} moved; {cost([each])}",
                each.started_sequence,
                each.generation,
            )
            for each in found
        ),
    )


def _newcomers(facts: Facts) -> frozenset[str]:
    """Members of which no process that looks the same had gone before they came."""
    gone: dict[tuple[str, str], int] = {}
    for life in facts.lives:
        if life.until_ns is not None:
            process = facts.members[life.member_id].process
            gone[process] = min(gone.get(process, life.until_ns), life.until_ns)
    return frozenset(
        life.member_id
        for life in facts.lives
        if life.since_ns is not None
        and life.since_ns < gone.get(facts.members[life.member_id].process, FOREVER)
    )


def _is_growth(each: Account, newcomers: frozenset[str]) -> bool:
    """Whether it is for new members alone: a planned scale-up."""
    came = {*each.culprits, *each.gained}
    return each.cause == "member_joined" and not each.lost and came <= newcomers


def leader_rejoins(facts: Facts, names: Names) -> Iterator[Finding]:
    """A leader that rejoins again and again, as topics change under it."""
    found = [
        each
        for each in facts.rebalances
        if each.cause == "leader_rejoined" and not each.is_second_half
    ]
    close = _closest(found, LEADER_REJOINS, LEADER_REJOINS_NS)
    if not close:
        return
    is_sure = any(reasons.is_metadata_changed(each.reason) for each in close)
    yield Finding(
        "leader-rejoins",
        f"The leader asked for {many(len(close), 'rebalance')} by joining again"
        + (": topics have changed" if is_sure else ", perhaps as topics have changed"),
        "A leader rejoins when the topics that it assigns have changed: new ones "
        "that match a pattern, more partitions, other racks of replicas. Subscribe to "
        "names, or to a narrower pattern; make topics and partitions all at once. An "
        "application that calls enforceRebalance does the same, and says so.",
        tuple(of_rebalance(each, names) for each in close),
        is_sure,
    )


def _closest(found: Sequence[Account], least: int, within_ns: int) -> Sequence[Account]:
    """The longest run of rebalances that has `least` of them within a time."""
    best: Sequence[Account] = ()
    begin = 0
    for end, each in enumerate(found):
        while each.started_ns - found[begin].started_ns > within_ns:
            begin += 1
        if end - begin + 1 >= max(least, len(best) + 1):
            best = found[begin : end + 1]
    return best


def changing_subscriptions(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that keep rejoining with other protocols or subscriptions."""
    found = [
        each
        for each in facts.rebalances
        if each.cause == "metadata_changed"
        and not each.is_second_half
        and not each.is_same_offer
    ]
    close = _closest(found, CHANGES, LEADER_REJOINS_NS)
    if close:
        yield Finding(
            "changing-subscriptions",
            f"Members rejoined with other protocols or subscriptions: "
            f"{many(len(close), 'rebalance')}",
            "Each change of a member's subscription rebalances the whole group. "
            "Subscribe once, to all topics. A pattern that matches new topics all the "
            "time does it, too, as each member sees them at another moment.",
            tuple(of_rebalance(each, names) for each in close),
        )


def differing_subscriptions(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members of one generation that want different topics."""
    for each in reversed(facts.rebalances):
        if each.outcome is Outcome.COMPLETED:
            break
    else:
        return
    wanted: dict[frozenset[str], list[str]] = {}
    for member_id in each.members:
        topics = facts.members[member_id].topics
        if topics is None:
            return
        wanted.setdefault(frozenset(topics), []).append(member_id)
    if len(wanted) > 1:
        yield Finding(
            "differing-subscriptions",
            f"The members of {head(each).lower()} subscribe to "
            f"{len(wanted)} different sets of topics",
            "That is allowed, and seldom meant: an old version beside a new one, or "
            "two applications with the same group.id. Each rebalance of one is one of "
            "the other, and a sticky assignor takes far longer. Give each application "
            "its own group.",
            tuple(
                Evidence(
                    each.started_ns,
                    f"{names.list(members)}: {_listed(topics)}",
                    each.started_sequence,
                    each.generation,
                )
                for topics, members in wanted.items()
            ),
        )


def _listed(topics: frozenset[str]) -> str:
    return cut(", ".join(sorted(topics))) or "none"


def never_quiet(facts: Facts, _: Names) -> Iterator[Finding]:
    """A group that rebalances for a good part of the time."""
    if facts.since_ns is None or facts.until_ns is None:
        return
    whole_ns = facts.until_ns - facts.since_ns
    busy_ns = sum(each.duration_ns for each in facts.rebalances)
    if len(facts.rebalances) < NEVER_QUIET or whole_ns < MINUTE:
        return
    if busy_ns < BUSY_SHARE * whole_ns:
        return
    causes: dict[str, list[Account]] = {}
    for each in facts.rebalances:
        causes.setdefault(each.cause, []).append(each)
    yield Finding(
        "never-quiet",
        f"The group rebalanced for {duration(busy_ns)} of {duration(whole_ns)}, in "
        f"{many(len(facts.rebalances), 'rebalance')}; {cost(facts.rebalances)}",
        "An eager member pauses from its JoinGroup to the end of the rebalance, and "
        "until then the partitions of a member that is gone have no reader. The other "
        "findings say why; without any, look at the most frequent cause first.",
        tuple(
            Evidence(
                found[0].started_ns,
                f"{name}: {many(len(found), 'rebalance')}"
                f"{' from here on' if len(found) > 1 else ''}",
                found[0].started_sequence,
                found[0].generation,
            )
            for name, found in sorted(causes.items(), key=lambda row: -len(row[1]))
        ),
    )
