"""The time without a reader that settings would have saved a group.

A rebalance that only the members concerned have caused would not have been: all of its
partition-time without a reader is saved. What a setting costs is subtracted: the
partitions of a static member wait for it while it restarts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from kohort.broker.events.account import Account
from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone, Return, Unread
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import Cost, Setting
from kohort.broker.events.findings.names import cut
from kohort.broker.events.findings.words import partition_count

MS = 1_000_000
MINUTE_MS = 60_000
"""max.poll.interval.ms is suggested in whole minutes, as its default is five."""
STEP_MS = 5_000
"""Suggested session timeouts are multiples of this; 17,350 would be odd."""
SHORT_MS = 15_000
"""The session timeout that is suggested against long waits for crashed members. Five
heartbeats of 3 s; Kafka advises three at least, and 10 s, the default up to 2.8, proved
too short for networks of clouds (KIP-735)."""
LONG_MS = 2 * SHORT_MS
"""Session timeouts below this have little to gain."""
WAITING_SHARE = 0.8
"""The least share of the wait for the session's end in the time that partitions of
crashed members had no reader: below it, the session timeout is not the reason."""
CRASHES = 2
"""Crashes that are worth a change of a timeout: one is an accident."""
ARRIVAL_GAP_NS = 10_000_000_000
"""The longest pause between arrivals of one start, or departures of one end. The
longest useful initial delay is of that order; a member that comes later was added."""
STRATEGY = "partition.assignment.strategy"
MARGIN = 1.5
"""A suggested value divided by the need that was seen: the next case may be longer."""


def shares(facts: Facts) -> dict[str, int]:
    """The partitions of each member that went, as of its end."""
    found: dict[str, int] = {}
    for each in facts.rebalances:
        given: dict[str, int] = {}
        for move in each.moves or ():
            if move.source is not None:
                given[move.source] = given.get(move.source, 0) + move.count
        unread: dict[str, list[Unread]] = {}
        for row in each.unread:
            unread.setdefault(row.member_id, []).append(row)
        for member_id, rows in unread.items():
            given[member_id] = max(given.get(member_id, 0), partition_count(rows))
        for member_id, count in given.items():
            found[member_id] = max(found.get(member_id, 0), count)
    return found


def waiting(facts: Facts, returns: Iterable[Return]) -> int:
    """Partition-time in which the partitions of static members would have waited."""
    known = shares(facts)
    return sum(known.get(row.previous_id, 0) * row.duration_ns for row in returns)


def of_static(
    facts: Facts, returns: Sequence[Return], caused: Sequence[Account]
) -> Setting | None:
    """Static membership, unless it costs more than it saves.

    Args:
        facts: of the group.
        returns: of the members that restarted.
        caused: the rebalances that only they have caused.
    """
    static = Setting("group.instance.id", "a different one for each member")
    if not shares(facts):
        return static  # no assignment could be read
    saving_ns = Cost.of(caused).unread_ns - waiting(facts, returns)
    return replace(static, saving_ns=saving_ns) if saving_ns > 0 else None


def caused_by(facts: Facts, gone: Iterable[Life]) -> list[Account]:
    """The rebalances that began at the ends of members, or at their returns."""
    lives = [*gone]
    # A rebalance begins in the same turn as its cause.
    moments = {(life.member_id, life.until_ns) for life in lives}
    returns = _returns(facts, {life.member_id for life in lives})
    moments |= {(row.member_id, row.until_ns) for row in returns}
    first_ns = min((at_ns or 0 for _, at_ns in moments), default=0)
    last_ns = max((at_ns or 0 for _, at_ns in moments), default=0)
    begin = bisect_left(facts.rebalances, first_ns, key=lambda each: each.started_ns)
    caused: list[Account] = []
    last: Account | None = None
    for each in islice(facts.rebalances, begin, None):
        if each.is_second_half:
            is_one = last is not None and last in caused[-1:]
        elif each.started_ns > last_ns:
            break
        else:
            is_one = any((m, each.started_ns) in moments for m in each.culprits)
        if is_one:
            caused.append(each)
        last = each
    return caused


def _returns(facts: Facts, member_ids: Collection[str]) -> list[Return]:
    """The returns of members: in a consumer group an id may return several times."""
    rows = (row for each in facts.rebalances for row in each.returns)
    return [row for row in rows if row.previous_id in member_ids]


def _lives(facts: Facts, member_ids: Collection[str]) -> list[Life]:
    return [life for life in facts.lives if life.member_id in member_ids]


def poll_interval(facts: Facts, lives: Collection[Life]) -> Setting | None:
    """max.poll.interval.ms for members that did not poll in time before they left.

    One and a half times the longest time that one took until it was back; twice its
    value if none was back.
    """
    ids = {life.member_id for life in lives}
    now_ms = {m: facts.members[m].rebalance_timeout_ms or 0 for m in ids}
    if not any(now_ms.values()):
        return None
    away = _returns(facts, ids)
    took_ms = [now_ms[row.previous_id] + row.duration_ns / MS for row in away]
    need_ms = max(took_ms) * MARGIN if took_ms else 2 * max(now_ms.values())
    return Setting(
        "max.poll.interval.ms",
        str(rounded_up(need_ms, MINUTE_MS)),
        str(max(now_ms.values())),
        Cost.of(caused_by(facts, lives)).unread_ns,
    )


def longer_session(facts: Facts, silent_ns: Mapping[str, int]) -> Setting | None:
    """session.timeout.ms for members that were silent for longer, and alive.

    Args:
        facts: of the group.
        silent_ns: by member id, the time for which it was silent.
    """
    if not silent_ns:
        return None
    now_ms = max(facts.members[m].session_timeout_ms or 0 for m in silent_ns)
    need_ms = rounded_up(max(silent_ns.values()) / MS * MARGIN, STEP_MS)
    if need_ms <= now_ms:
        return None
    known = shares(facts)
    waiting_ns = sum(known.get(m, 0) * ns for m, ns in silent_ns.items())
    saving_ns = (
        Cost.of(caused_by(facts, _lives(facts, silent_ns))).unread_ns - waiting_ns
    )
    now = str(now_ms) if now_ms else None
    return Setting("session.timeout.ms", str(need_ms), now, max(saving_ns, 0))


def shorter_session(facts: Facts, crashed: Collection[Life]) -> Setting | None:
    """session.timeout.ms, if the partitions of crashed members wait for its end.

    Not for members that are back: their restart is what counts. Not if a member
    expired that was alive.
    """
    alive = {life.member_id for life in facts.lives if life.how is Gone.EXPIRED}
    alive -= facts.ended_by_test | {life.member_id for life in crashed}
    over = at_the_end(facts)
    gone = [
        life
        for life in crashed
        if life.member_id not in facts.returns and life.member_id not in over
    ]
    now_ms = [facts.members[life.member_id].session_timeout_ms or 0 for life in gone]
    if alive or len(gone) < CRASHES or min(now_ms) < LONG_MS:
        return None
    unread = [row for each in facts.rebalances for row in each.unread]
    unread += [row for each in facts.quiet for row in each.unread]
    unread += facts.unread_since
    total_ns = session_ns = saving_ns = 0
    for life in gone:
        rows = [row for row in unread if row.member_id == life.member_id]
        until_ns = life.until_ns or 0
        gone_ns = until_ns - (life.silent_ns or 0)
        total_ns += after(rows, 0, facts.until_ns or 0)
        session_ns += after(rows, 0, until_ns)
        saving_ns += after(rows, gone_ns + SHORT_MS * MS, until_ns)
    if session_ns < WAITING_SHARE * total_ns or not saving_ns:
        return None
    return Setting("session.timeout.ms", str(SHORT_MS), str(max(now_ms)), saving_ns)


def at_the_end(facts: Facts) -> frozenset[str]:
    """The members that went at the end of the group.

    No member came after them or stayed, and they went at most 10 s after one another,
    by their last signs of life: a process that is killed expires much later.
    """
    ends = [
        (life.until_ns - (life.silent_ns or 0), life.member_id)
        for life in facts.lives
        if life.until_ns is not None
    ]
    if len(ends) < len(facts.lives):
        return frozenset()
    came_ns = max((life.since_ns or 0 for life in facts.lives), default=0)
    found: list[str] = []
    last_ns: int | None = None
    for gone_ns, member_id in sorted(ends, reverse=True):
        if gone_ns <= came_ns or (last_ns or gone_ns) - gone_ns > ARRIVAL_GAP_NS:
            break
        found.append(member_id)
        last_ns = gone_ns
    return frozenset(found)


def cooperative(eager: Sequence[Account]) -> Setting:
    """A cooperative assignor, in place of eager ones: partitions that stay go on.

    Those that move wait for two rebalances: one takes them, the other assigns them.
    """
    saving = 0.0
    for each in eager:
        owned = each.kept_count + each.moved_count
        stood = sum(r.duration_ns * r.count for r in each.unread if r.cause == "paused")
        moved = min(each.least_moved_count, owned) / owned if owned else 1
        saving += stood * max(1 - 2 * moved, 0)
    protocols = ", ".join(sorted({each.protocol or "" for each in eager}))
    return Setting(STRATEGY, "cooperative-sticky", cut(protocols), round(saving))


def after(rows: Iterable[Unread], since_ns: int, until_ns: int) -> int:
    """The partition-time in rows between two times."""
    return sum(
        max(min(row.until_ns, until_ns) - max(row.since_ns, since_ns), 0) * row.count
        for row in rows
    )


def rounded_up(value: float, step: int) -> int:
    """The next multiple of a step that is not below."""
    return -(-round(value) // step) * step
