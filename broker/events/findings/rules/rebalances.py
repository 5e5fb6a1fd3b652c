"""Findings about rebalances: their number, durations and causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kohort.broker.events.account import Account, reasons
from kohort.broker.events.account.rebalance import SLOW_TO_JOIN_NS
from kohort.broker.events.account.values import Gone, Outcome
from kohort.broker.events.findings import savings
from kohort.broker.events.findings.facts import Facts, TooLarge
from kohort.broker.events.findings.finding import (
    MINUTE,
    SECOND,
    Cost,
    Evidence,
    Finding,
    Setting,
    cost,
    of_rebalance,
)
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.rules.waits import is_told_late
from kohort.broker.events.findings.words import duration, head, many
from kohort.broker.events.words import COOPERATIVE

INITIAL_REBALANCES = 3
"""Too many rebalances for one start. With a delay of 0, two are normal if all members
start within one heartbeat: the first member's, and one for the rest."""
HELD_UP = 2
"""Rebalances that one member has to hold up: one may have been a pause."""
EAGER_REBALANCES = 3
"""Eager rebalances that show that partitions return: one or two are a deployment."""
EAGER_PAUSE_NS = SECOND
"""The least total pause that an eager rebalance has to cost on average: less goes
unnoticed."""
KEPT_SHARE = 0.5
"""Returning partitions as a share of all revoked ones: from half on, most of the pause
was in vain."""
STICKY = COOPERATIVE | {"sticky", "default"}
"""Sticky assignors, and those of other clients than consumers (Streams, Connect)."""
LOOSE_REBALANCES = 3
"""Rebalances that moved too many partitions: one or two may be by chance."""
TOO_FAR = 2.0
"""Ratio of moved partitions to those that had to move; sticky assignors stay far below
it."""
TOO_MANY = 10
"""Partitions moved for nothing: fewer are not worth a deployment."""
FOREVER = 2**63
LEADER_REJOINS = 3
"""Rebalances by one leader: two may be two new topics."""
LEADER_REJOINS_NS = 10 * MINUTE
"""Time in which they happen: two intervals of metadata.max.age.ms, after which clients
look for new topics and partitions."""
CHANGES = 3
"""Rebalances by changed subscriptions: more than a deployment causes."""
NEVER_QUIET = 5
"""Least rebalances of a group that is never quiet: fewer are a start and a stop."""
BUSY_SHARE = 0.2
"""The least share of time in rebalances of a group that is never quiet: a fifth is far
above the few seconds a day of a quiet group, and spares a group that just started."""


START_NS = SECOND // 2
"""The least cost of a start without a delay, pauses and time without a reader together.
Tests turn the delay off, and start members one by one in milliseconds."""


def many_initial_rebalances(facts: Facts, names: Names) -> Iterator[Finding]:
    """A start with a rebalance for each member that joined.

    Consumer groups have no initial delay.
    """
    classic = [each for each in facts.rebalances if each.group_type == "classic"]
    for start in _starts(classic):
        # A rebalance that another coordinator had to start again counts once.
        ended = [r for r in start if r.outcome is not Outcome.MOVED]
        if sum(not r.is_second_half for r in ended) < INITIAL_REBALANCES:
            continue
        paid = Cost.of(start)
        is_off = not any(facts.initial_delays_ms)
        if is_off and paid.paused_ns + paid.unread_ns < START_NS:
            continue
        since, until = start[0].started_ns, start[-1].ended_ns
        arrivals = sorted(
            life.since_ns
            for life in facts.lives
            if life.since_ns is not None
            and since <= life.since_ns <= until
            # A member that a coordinator has forgotten comes again.
            and life.how is not Gone.UNSEEN
        )
        gap_ns = max((b - a for a, b in pairwise(arrivals)), default=0)
        needed_ms = (gap_ns // SECOND + 1) * 1000
        delays = facts.initial_delays_ms
        was = f" (it was {max(delays)})" if delays else ""
        yield Finding(
            "many-initial-rebalances",
            f"{many(len(arrivals), 'member')} started within "
            f"{duration(arrivals[-1] - since) if arrivals else '0 s'} and caused "
            f"{len(start)} rebalances; {cost(start)}",
            "Set group.initial.rebalance.delay.ms on the brokers (KIP-134) to at "
            f"least {needed_ms}{was}: the longest time between two joins was "
            f"{duration(gap_ns)}. An empty group keeps waiting while members join "
            "within the delay, up to the rebalance timeout. The price: the first "
            "assignment comes later.",
            tuple(of_rebalance(each, names) for each in start),
            subject=str(start[0].started_sequence),
            cost=paid,
            setting=Setting(
                "group.initial.rebalance.delay.ms",
                str(needed_ms),
                str(max(delays)) if delays else None,
                Cost.of(start[1:]).unread_ns,
            ),
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
    if each.started_ns - last.ended_ns > savings.ARRIVAL_GAP_NS or each.lost:
        return False
    return each.cause == "member_joined" or each.is_second_half


def _is_tests(each: Account, facts: Facts) -> bool:
    return each.key in facts.of_test


# -- waits that are too long


def missed_rebalance_timeout(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that did not rejoin within the rebalance timeout."""
    found = [r for r in facts.rebalances if r.latecomers and not _is_tests(r, facts)]
    if not found:
        return
    count = sum(len(each.latecomers) for each in found)
    yield Finding(
        "missed-rebalance-timeout",
        f"Members did not rejoin within the rebalance timeout and were removed: "
        f"{many(count, 'time')}; {cost(found)}",
        "The rebalance timeout of a group is the longest max.poll.interval.ms of its "
        "members. A member learns of a rebalance from its heartbeat and rejoins in "
        "its next poll. A member that takes longer is busy with a batch, stuck, or "
        "dead with an even longer session timeout. Make batches smaller "
        "(max.poll.records), and max.poll.interval.ms no longer than a batch takes.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)} waited {duration(each.join_ns)}: "
                f"{names.list(each.latecomers)} did not rejoin",
                each.started_sequence,
                each.generation,
                tuple(map(names.of, each.latecomers)),
                each.ended_ns,
            )
            for each in found
        ),
        cost=Cost.of(found),
    )


def slow_to_rejoin(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that hold up one rebalance after another."""
    waits: dict[str, list[Evidence]] = {}
    held_ns: dict[str, int] = {}
    for each in facts.rebalances:
        if _is_tests(each, facts):
            continue
        told_late = {w.member_id for w in each.waits if is_told_late(w)}
        for wait in each.pieces:
            if wait.what != "join" or wait.member_id is None:
                continue
            if wait.member_id in told_late:
                continue
            if wait.duration_ns >= SLOW_TO_JOIN_NS:
                name = names.of(wait.member_id)
                end = "joined" if wait.ended_by == "joined" else "was gone"
                text = (
                    f"{head(each)} waited {duration(wait.duration_ns)} longer, "
                    f"until {name} {end}"
                )
                row = Evidence(
                    wait.until_ns,
                    text,
                    each.started_sequence,
                    each.generation,
                    (name,),
                )
                waits.setdefault(name, []).append(row)
                since_ns = wait.since_ns + SLOW_TO_JOIN_NS
                late_ns = savings.after(each.unread, since_ns, wait.until_ns)
                held_ns[name] = held_ns.get(name, 0) + late_ns
    for name, rows in waits.items():
        if len(rows) >= HELD_UP:
            yield Finding(
                "slow-to-rejoin",
                f"{name} held up {many(len(rows), 'rebalance')} for "
                f"{duration(SLOW_TO_JOIN_NS)} or longer each",
                "A member learns of a rebalance from its next heartbeat and rejoins in "
                "its next poll; until then all other members wait. Possible causes: "
                "long batches (max.poll.records), a slow onPartitionsRevoked, rare "
                "heartbeats (heartbeat.interval.ms), or the member is dead and its "
                "session has not expired yet (session.timeout.ms).",
                tuple(rows),
                subject=name,
                cost=Cost(held_ns[name]),
            )


def sync_timeout(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that joined and did not fetch their assignment in time."""
    found = [
        each
        for each in facts.rebalances
        if each.cause == "sync_timeout" and not _is_tests(each, facts)
    ]
    if found:
        yield Finding(
            "sync-timeout",
            f"Members joined but did not send SyncGroup in time: "
            f"{many(len(found), 'rebalance')}",
            "A leader that sends no SyncGroup has died, or takes too long to fetch "
            "metadata or to compute the assignment. Any other member stopped between "
            "two requests. All members wait for it, up to the rebalance timeout "
            "(max.poll.interval.ms).",
            tuple(of_rebalance(each, names) for each in found),
            cost=Cost.of(found),
        )


def records_too_large(facts: Facts, _: Names) -> Iterator[Finding]:
    """Records that the log refused: the group cannot become Stable, or not commit."""
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
            "The subscriptions and assignments of all members of a classic group are "
            "one record, and all records of a heartbeat in a consumer group are one "
            "batch, also if it upgrades a classic group. If that is too large, clients "
            "get UNKNOWN_SERVER_ERROR and the group keeps rebalancing. Subscribe to "
            "fewer topics (not with a pattern that matches thousands), use an assignor "
            "that is not sticky (less user data), split the group, or raise "
            "max.message.bytes of __consumer_offsets. A commit with long metadata or "
            "thousands of partitions is too large: split it into several requests.",
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


# -- unnecessary rebalances


def eager_for_nothing(facts: Facts, _: Names) -> Iterator[Finding]:
    """Eager rebalances after which most partitions have the same owner as before."""
    newcomers = _newcomers(facts)
    found = [
        each
        for each in facts.rebalances
        if each.is_eager
        and each.outcome is Outcome.COMPLETED
        and each.previous_state != "Empty"
        and (each.kept_count or each.moved_count)
        and not _is_growth(each, newcomers)
        and not _is_tests(each, facts)
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
        f"Members of an eager assignor ({protocols}) revoke all partitions to rejoin. "
        "With cooperative-sticky (KIP-429) they keep processing and revoke only the "
        "partitions that move. Change the assignor with two rolling restarts: the "
        "first with both assignors in partition.assignment.strategy, the second "
        "without the old one.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)}: {each.kept_count} of "
                f"{many(each.partition_count, 'partition')} returned, "
                f"{each.moved_count} moved; {cost([each])}",
                each.started_sequence,
                each.generation,
                until_ns=each.ended_ns,
            )
            for each in found
        ),
        cost=Cost.of(found),
        setting=savings.cooperative(found),
    )


def moved_for_nothing(facts: Facts, _: Names) -> Iterator[Finding]:
    """Partitions that moved and could have stayed, by assignors that are not sticky."""
    found = [
        each
        for each in facts.rebalances
        if each.protocol not in STICKY
        and each.kept_count + each.moved_count
        and each.moved_count > each.least_moved_count
    ]
    moved = sum(each.moved_count for each in found)
    least = sum(each.least_moved_count for each in found)
    if len(found) < LOOSE_REBALANCES or moved < max(TOO_FAR * least, least + TOO_MANY):
        return
    protocols = cut(", ".join(sorted({each.protocol or "" for each in found})))
    yield Finding(
        "moved-for-nothing",
        f"In {len(found)} rebalances {moved} partitions moved; {least} had to, for the "
        "same shares",
        f"The assignor ({protocols}) does not keep partitions where they are. A "
        "partition that moves loses its member's caches and state, and records that "
        "were not committed are read again. Use cooperative-sticky, or sticky.",
        tuple(
            Evidence(
                each.started_ns,
                f"{head(each)}: {each.moved_count} moved, {each.least_moved_count} had "
                "to",
                each.started_sequence,
                each.generation,
                until_ns=each.ended_ns,
            )
            for each in found
        ),
        cost=Cost.of(found),
        setting=Setting(savings.STRATEGY, "cooperative-sticky", protocols),
    )


def _newcomers(facts: Facts) -> frozenset[str]:
    """Members that joined before any process that looks the same had gone."""
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
    """True if only new members caused it: a planned scale-up."""
    came = {*each.culprits, *each.gained}
    return each.cause == "member_joined" and not each.lost and came <= newcomers


def leader_rejoins(facts: Facts, names: Names) -> Iterator[Finding]:
    """A leader that keeps rejoining because topics change."""
    found = [
        each
        for each in facts.rebalances
        if each.cause == "leader_rejoined"
        and not each.is_second_half
        and not _is_tests(each, facts)
    ]
    close = _closest(found, LEADER_REJOINS, LEADER_REJOINS_NS)
    if not close:
        return
    is_sure = any(reasons.is_metadata_changed(each.reason) for each in close)
    yield Finding(
        "leader-rejoins",
        f"The leader caused {many(len(close), 'rebalance')} by rejoining"
        + (
            ": its topics changed"
            if is_sure
            else ", perhaps because its topics changed"
        ),
        "A leader rejoins when the topics of the group change: new topics match a "
        "pattern, partitions are added, or replicas move to other racks. Subscribe to "
        "names or to a narrower pattern, and create topics and partitions together. "
        "An application that calls enforceRebalance also makes the leader rejoin; its "
        "reason says so.",
        tuple(of_rebalance(each, names) for each in close),
        is_sure,
        cost=Cost.of(close),
    )


def _closest(found: Sequence[Account], least: int, within_ns: int) -> Sequence[Account]:
    """The longest run of at least `least` rebalances within a time."""
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
            "Subscribe once, to all topics. A pattern that keeps matching new topics "
            "has the same effect: each member sees them at a different time.",
            tuple(of_rebalance(each, names) for each in close),
            cost=Cost.of(close),
        )


def differing_subscriptions(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members of one generation that subscribe to different topics."""
    for each in reversed(facts.rebalances):
        if each.outcome is Outcome.COMPLETED:
            break
    else:
        return
    wanted: dict[frozenset[str], list[str]] = {}
    for member_id in each.members:
        member = facts.members.get(member_id)
        topics = None if member is None else member.topics
        if topics is None:
            return
        wanted.setdefault(frozenset(topics), []).append(member_id)
    if len(wanted) > 1:
        yield Finding(
            "differing-subscriptions",
            f"The members of {head(each).lower()} subscribe to "
            f"{len(wanted)} different sets of topics",
            "Kafka allows this, but it is rarely intended: an old version runs beside "
            "a new one, or two applications share a group.id. Each rebalance then hits "
            "both, and sticky assignors take far longer. Give each application its own "
            "group.id.",
            tuple(
                Evidence(
                    each.started_ns,
                    f"{names.list(members)}: {_listed(topics)}",
                    each.started_sequence,
                    each.generation,
                    tuple(map(names.of, members)),
                )
                for topics, members in wanted.items()
            ),
        )


def _listed(topics: frozenset[str]) -> str:
    return cut(", ".join(sorted(topics))) or "none"


def never_quiet(facts: Facts, _: Names) -> Iterator[Finding]:
    """A group that spends much of its time in rebalances."""
    if facts.since_ns is None or facts.until_ns is None:
        return
    whole_ns = facts.until_ns - facts.since_ns
    own = [each for each in facts.rebalances if not _is_tests(each, facts)]
    busy_ns = sum(each.duration_ns for each in own)
    if len(own) < NEVER_QUIET or whole_ns < MINUTE:
        return
    if busy_ns < BUSY_SHARE * whole_ns:
        return
    causes: dict[str, list[Account]] = {}
    for each in own:
        causes.setdefault(each.cause, []).append(each)
    yield Finding(
        "never-quiet",
        f"The group spent {duration(busy_ns)} of {duration(whole_ns)} in "
        f"{many(len(own), 'rebalance')}; {cost(own)}",
        "An eager member pauses from its JoinGroup until the rebalance ends, and the "
        "partitions of a departed member have no reader until then. The other "
        "findings say why; if there are none, start with the most frequent cause.",
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
        cost=Cost.of(facts.rebalances),
    )
