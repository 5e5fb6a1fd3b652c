"""A rebalance in plain words: one sentence of clauses, the same facts as its fields."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.events.account.values import (
    EMPTY,
    NOT_DOWN,
    Account,
    Gone,
    Outcome,
    Pause,
    Piece,
)
from kohort.broker.events.findings.facts import Conversion, Facts
from kohort.broker.events.findings.faults import led_to, meanwhile, phrases
from kohort.broker.events.findings.interventions import (
    clock_phrases,
    lives_of,
    moved_before,
    moved_meanwhile,
)
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.words import (
    HELD,
    cause,
    duration,
    head,
    how,
    many,
    partition_count,
    product,
)
from kohort.broker.events.words import LEADER_CAUSES, UNSEEN

_STATES = {
    "classic": ("PreparingRebalance", "CompletingRebalance"),
    "consumer": ("Assigning", "Reconciling"),
}
"""The states of a group in the two phases of a rebalance."""
SHORTEST_NS = 1_000_000
"""Times without a reader that are worth a word: a cooperative member that gets its
assignment 0.1 ms before the last one leaves a gap of that length in the account."""


_CONVERTED = {
    "upgraded": "online upgrade",
    "downgraded": "online downgrade",
    "replaced": "it had no members",
}
_CUT = {
    Outcome.MOVED: "another coordinator took over the group before it ended",
    Outcome.CUT: "the broker stopped before it ended",
    Outcome.UNSEEN: "its end is unknown",
}


def explain(rebalance: Account, facts: Facts, names: Names) -> str:
    """Explains a rebalance: its cause, with the faults that led to it, course, result.

    "Generation 7: ben's session expired 3.0 s after it was last heard of; waited
    0.54 s for ana and cleo; all joined; ..."

    Args:
        rebalance: the account of it.
        facts: of the group.
        names: of the members.
    """
    before = [text for _, text in phrases(led_to(rebalance, facts), names)]
    during = [text for _, text in phrases(meanwhile(rebalance, facts), names)]
    clauses = [
        cause(rebalance, names),
        *(conversion(each, names) for each in facts.conversions_of(rebalance)),
        *(["its connection was open"] if _is_hung(rebalance, facts) else []),
        *_faults(
            "before that,", [*clock_phrases(moved_before(rebalance, facts)), *before]
        ),
        *_faults(
            "meanwhile", [*clock_phrases(moved_meanwhile(rebalance, facts)), *during]
        ),
        *_waits(rebalance, names),
        *_holds(rebalance),
        *_others(rebalance, names),
        *_restarts(rebalance, names),
        *_end(rebalance, names),
        *_moves(rebalance, names),
        *_pauses(rebalance, names),
        *_unread(rebalance, names),
    ]
    if not rebalance.is_whole:
        clauses.append("some of its events are missing")
    return f"{head(rebalance)}: {'; '.join(clauses)}."


def conversion(found: Conversion, names: Names) -> str:
    """As in "the group moved to the consumer protocol (online upgrade by ana)"."""
    how = _CONVERTED.get(found.cause, found.cause)
    if found.cause != "replaced" and found.member_id:
        how += f" by {names.of(found.member_id)}"
    return f"the group moved to the {found.group_type} protocol ({how})"


def _is_hung(rebalance: Account, facts: Facts) -> bool:
    """True if a member that caused it was connected when its session expired."""
    return any(
        life.is_connected and life.member_id not in facts.ended_by_test
        for life in lives_of(rebalance, facts)
    )


def _faults(when: str, phrases: Sequence[str]) -> list[str]:
    """The faults that struck then, if any, as one clause."""
    return [f"{when} {', and '.join(phrases)}"] if phrases else []


# -- the wait


def _waits(rebalance: Account, names: Names) -> list[str]:
    delays = [p for p in rebalance.pieces if p.what == "initial_delay"]
    joins = [p for p in rebalance.pieces if p.what == "join"]
    told = []
    if delays:
        total = duration(sum(p.duration_ns for p in delays))
        windows = f", {len(delays)} windows" if len(delays) > 1 else ""
        told.append(f"waited {total} for more members (initial delay{windows})")
    whom = dict.fromkeys(p.member_id for p in joins if p.member_id)
    whom |= dict.fromkeys(m for p in joins for m in p.missing)
    if whom:
        total = duration(sum(p.duration_ns for p in joins))
        told.append(f"waited {total} for {names.list(whom)}{_longest(joins, names)}")
    gone = {each.member_id: each.how for each in rebalance.departures}
    told += [
        _went(names.of(p.member_id), gone.get(p.member_id))
        for p in joins
        if p.ended_by == "gone" and p.member_id
    ]
    is_held = any(p.what == HELD for p in rebalance.pieces)
    is_classic = rebalance.group_type == "classic"
    if rebalance.join_ended_by is not None and not (delays or whom or is_held):
        told += ["no wait was necessary"] if is_classic else []
    if any(p.what == UNSEEN for p in rebalance.pieces):
        told.append("the end of the wait is unknown")
    return told


def _holds(rebalance: Account) -> list[str]:
    """The times for which a test held the group, by state."""
    held: dict[str, int] = {}
    for piece in rebalance.pieces:
        if piece.what == HELD:
            joined_ns = rebalance.joined_ns
            is_joining = joined_ns is None or piece.until_ns <= joined_ns
            first, second = _STATES[rebalance.group_type]
            state = first if is_joining else second
            held[state] = held.get(state, 0) + piece.duration_ns
    return [
        f"a test held the group in {each} for {duration(ns)}"
        for each, ns in held.items()
    ]


def _went(name: str, gone: Gone | None) -> str:
    """The departure of a member that the group waited for; None: a pending member."""
    if gone is None:
        return f"pending member {name} did not join"
    if gone is Gone.EXPIRED:
        return f"{name}'s session expired meanwhile"
    return f"{name} {how(gone)} meanwhile"


def _longest(joins: Sequence[Piece], names: Names) -> str:
    """The member that most of a wait for several was for, if there is one."""
    if len(joins) < 2:
        return ""
    longest = max(joins, key=lambda p: p.duration_ns)
    whom = [longest.member_id] if longest.member_id is not None else longest.missing
    total_ns = sum(p.duration_ns for p in joins)
    if not whom or 2 * longest.duration_ns < total_ns:
        return ""
    if duration(longest.duration_ns) == duration(total_ns):
        return ""
    return f", {duration(longest.duration_ns)} of it for {names.list(whom)}"


def _others(rebalance: Account, names: Names) -> list[str]:
    """Members that came and went without being the cause."""
    told = []
    told_of = {*rebalance.culprits, *rebalance.latecomers}
    told_of |= {p.member_id or "" for p in rebalance.pieces if p.ended_by == "gone"}
    also = [m for m in rebalance.gained if m not in rebalance.culprits]
    if also:
        told.append(f"{names.list(also)} joined as well")
    gone = [m for m in rebalance.lost if m not in told_of]
    if gone:
        members = "is no longer a member" if len(gone) == 1 else "are no longer members"
        told.append(f"{names.list(gone)} {members}")
    if rebalance.refused:
        refused = many(len(rebalance.refused), "JoinGroup")
        were = "was" if len(rebalance.refused) == 1 else "were"
        causes = sorted({each.cause for each in rebalance.refused})
        told.append(f"{refused} {were} refused meanwhile ({', '.join(causes)})")
    return told


def _restarts(rebalance: Account, names: Names) -> list[str]:
    """Processes that are back as new members."""
    rows = [row for row in rebalance.returns if row.is_restart]
    if not rows:
        return []
    were, most = ("was", "") if len(rows) == 1 else ("were", "at most ")
    away = duration(max(row.duration_ns for row in rows))
    return [
        f"{names.list(row.member_id for row in rows)} {were} back after {most}{away}"
    ]


def _end(rebalance: Account, names: Names) -> list[str]:
    told = []
    if rebalance.join_ended_by == "all_joined":
        told.append("all joined")
    elif rebalance.join_ended_by == "rebalance_timeout":
        late = names.list(rebalance.latecomers)
        were = "was" if len(rebalance.latecomers) == 1 else "were"
        told.append(
            "the rebalance timeout ended the wait"
            + (f": {late} did not rejoin in time and {were} removed" if late else "")
        )
    result = _target if rebalance.group_type == "consumer" else _sync
    return [*told, *_leads(rebalance, names), *result(rebalance, names)]


def _leads(rebalance: Account, names: Names) -> list[str]:
    """The cause of a change of the leader, if it changed."""
    leader, before = rebalance.leader, rebalance.previous_leader
    if leader is None or rebalance.leader_cause not in {"gone", "late"}:
        return []
    lost = {*rebalance.lost, *(each.member_id for each in rebalance.departures)}
    lost |= {wait.member_id for wait in rebalance.waits if not wait.came}
    if before not in lost:
        return []
    why = LEADER_CAUSES[rebalance.leader_cause]
    return [f"{names.of(leader)} became the leader because {why}"]


def _sync(rebalance: Account, names: Names) -> list[str]:
    leader = names.of(rebalance.leader) if rebalance.leader else "the leader"
    took = duration(sum(p.duration_ns for p in rebalance.pieces if p.what == "sync"))
    if rebalance.outcome is Outcome.COMPLETED:
        assignor = cut(rebalance.protocol or "")
        return [f"{leader} computed the assignment in {took} ({assignor})"]
    if rebalance.outcome is Outcome.EMPTIED:
        return ["the group is empty now"]
    if rebalance.outcome is Outcome.INTERRUPTED:
        return [
            f"another rebalance began before {leader} sent the assignment, after {took}"
            if rebalance.joined_ns is not None
            else "another rebalance began"
        ]
    if rebalance.outcome is Outcome.UNDER_WAY:
        return [f"still in progress{_still_missing(rebalance, names)}"]
    return [_CUT[rebalance.outcome]]


def _target(rebalance: Account, names: Names) -> list[str]:
    """The target assignment of a consumer group, and the members' way to it."""
    told = []
    if rebalance.joined_ns is not None:
        assignor = cut(rebalance.protocol or "")
        after = rebalance.joined_ns - rebalance.started_ns
        when = f" after {duration(after)}" if after else ""
        told.append(f"the coordinator computed the assignment{when} ({assignor})")
    told += _steps(rebalance, names)
    if rebalance.outcome is Outcome.COMPLETED:
        took = duration(rebalance.duration_ns)
        return [*told, f"all members had their partitions after {took}"]
    if rebalance.outcome is Outcome.EMPTIED:
        return [*told, "the group is empty now"]
    if rebalance.outcome is Outcome.INTERRUPTED:
        return [*told, "another rebalance began before all had their partitions"]
    if rebalance.outcome is Outcome.UNDER_WAY:
        return [*told, f"still in progress{_still_unreconciled(rebalance, names)}"]
    return [*told, _CUT[rebalance.outcome]]


def _steps(rebalance: Account, names: Names) -> list[str]:
    """The longest revocation, and the longest wait for partitions of others."""
    told = []
    for what, verb in (("revoke", "gave up"), ("wait", "waited for")):
        rows = [row for row in rebalance.steps if row.what == what]
        if not rows:
            continue
        row = max(rows, key=lambda each: each.duration_ns)
        most = "" if len(rows) == 1 else f"{len(rows)} members {verb} partitions, "
        took = duration(row.duration_ns)
        name, size = names.of(row.member_id), many(row.count, "partition")
        whose = f" of {names.list(row.holders)}" if row.holders else ""
        is_open = rebalance.outcome is Outcome.UNDER_WAY and row.ended_by == UNSEEN
        if what == "wait":
            waits = "has waited" if is_open else "waited"
            told.append(f"{most}{name} {waits} {took} for {size}{whose}")
        elif is_open:
            told.append(f"{most}{name} has had {took} to give up {size}")
        elif row.ended_by == "done":
            told.append(f"{most}{name} gave up {size} within {took}")
        else:
            told.append(f"{most}{name} had {took} to give up {size}, and did not")
    return told


def _still_unreconciled(rebalance: Account, names: Names) -> str:
    """The members that have not got to the target, or the hold."""
    last = rebalance.pieces[-1] if rebalance.pieces else None
    if last is not None and last.what == HELD:
        return ", held by a test"
    if rebalance.joined_ns is None:
        return ", waiting for the target assignment"
    missing = () if last is None else last.missing
    return f", waiting for {names.list(missing)}" if missing else ""


def _still_missing(rebalance: Account, names: Names) -> str:
    """The members that a rebalance waits for now, or the hold."""
    if rebalance.pieces and rebalance.pieces[-1].what == HELD:
        return ", held by a test"
    if rebalance.joined_ns is not None:
        leader = names.of(rebalance.leader) if rebalance.leader else "the leader"
        return f", waiting for {leader} to send the assignment"
    missing = rebalance.missing
    return f", waiting for {names.list(missing)}" if missing else ""


# -- cost


def _moves(rebalance: Account, names: Names) -> list[str]:
    if not rebalance.partition_count:
        return []
    told = []
    # Where events are missing there may be more than these.
    is_whole = rebalance.is_ownership_whole
    all_of_them = many(rebalance.partition_count, "partition")
    total = all_of_them if is_whole else "the partitions"
    least = "" if is_whole else "at least "
    if rebalance.moved_count:
        told.append(
            f"{rebalance.moved_count} of {total} moved{_back(rebalance, names)}"
        )
    elif not rebalance.first_count and is_whole:
        told.append(f"none of {total} moved")
    if rebalance.first_count:
        were = "was" if rebalance.first_count == 1 else "were"
        first = many(rebalance.first_count, "partition")
        for_ = " for the first time" if is_whole else ""
        told.append(f"{first} {were} assigned{for_}")
    if rebalance.given_up_count:
        were = "was" if rebalance.given_up_count == 1 else "were"
        told.append(
            f"{rebalance.given_up_count} {were} revoked, for the next generation"
        )
    kept = rebalance.kept_count
    if kept and rebalance.is_eager is False:
        told.append(f"{least}{kept} stayed with their owner, without a pause")
    elif kept:
        verb = "returned" if rebalance.is_eager else "stayed with, or returned"
        whose = "its" if kept == 1 else "their"
        told.append(f"{least}{kept} {verb} to {whose} owner")
    return told


def _back(rebalance: Account, names: Names) -> str:
    moves = rebalance.moves or ()
    # A member of a consumer group may leave and be back under its id.
    back = sum(m.count for m in moves if m.is_return or m.source == m.target)
    others = (m for m in moves if m.source != m.target)
    same = sum(m.count for m in others if names.is_same(m.source, m.target))
    told = (
        f", {back} of them back to the process that owned them before" if back else ""
    )
    if same:
        told += f", {same} of them from a client's old member id to its new one"
    return told


def _pauses(rebalance: Account, names: Names) -> list[str]:
    rows = [row for row in rebalance.pauses if row.count != 0 and row.duration_ns]
    if not rows:
        return []
    rows.sort(key=lambda row: -row.duration_ns)
    if len(rows) <= 3:
        each = ", ".join(_pause(row, names, i == 0) for i, row in enumerate(rows))
        return [each]
    longest = f"up to {duration(rows[0].duration_ns)} ({names.of(rows[0].member_id)})"
    total = product(rebalance.paused_ns, "member")
    return [f"{len(rows)} members paused for {longest}, {total} in total"]


def _pause(row: Pause, names: Names, is_first: bool) -> str:
    verb = "paused for " if is_first else ""
    least = "at least " if row.ended_by == UNSEEN else ""
    return f"{names.of(row.member_id)} {verb}{least}{duration(row.duration_ns)}"


def _unread(rebalance: Account, names: Names) -> list[str]:
    """The partitions that had no reader: number, longest time, and last owner."""
    told = []
    rows = [row for row in rebalance.unread if row.cause not in NOT_DOWN]
    if any(row.duration_ns >= SHORTEST_NS for row in rows):
        longest = max(rows, key=lambda row: row.duration_ns)
        whose = names.of(longest.member_id)
        told.append(
            f"{many(partition_count(rows), 'partition')} had no reader for up to "
            f"{duration(longest.duration_ns)} (last owner {whose}), "
            f"{product(rebalance.unread_ns, 'partition')} in total"
        )
    rows = [row for row in rebalance.unread if row.cause == EMPTY]
    if rows:
        longest = max(rows, key=lambda row: row.duration_ns)
        told.append(
            f"{many(partition_count(rows), 'partition')} had no reader for "
            f"{duration(longest.duration_ns)} because the group was empty"
        )
    return told
