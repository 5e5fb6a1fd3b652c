"""A rebalance in plain words: one sentence of clauses, the same facts as its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from kohort.broker.events.account.values import (
    EMPTY,
    NOT_DOWN,
    Account,
    Gone,
    Outcome,
    Pause,
    Piece,
    Unread,
    count,
)
from kohort.broker.events.words import LEADER_CAUSES, REBALANCE_SENTENCES, UNSEEN
from kohort.control.why.names import Names, cut

LONGEST_REASON = 200
"""Characters of a reason that are shown: those of Kafka's clients have 50 to 150."""

SHORTEST_NS = 1_000_000
"""Times without a reader that are worth a word: a cooperative member that gets its
assignment 0.1 ms before the last one leaves a gap of that length in the account."""

HELD = "held"
"""A piece of a rebalance's duration in which a test held the group."""

_HOW = {
    Gone.LEFT: "left",
    Gone.REMOVED: "was removed by an admin",
    Gone.EXPIRED: "sent no heartbeat for its session timeout",
    Gone.KICKED: "was removed by the broker",
    Gone.COMMANDED: "was removed by a test",
    Gone.REPLACED: "rejoined with a new member id",
    Gone.UNSEEN: "is gone",
}


def duration(ns: int) -> str:
    """A duration for people: "54 ms", "0.54 s", "3.0 s", "2 min 5 s", "4 h"."""
    if ns < 100_000_000:
        return f"{ns / 1e6:.0f} ms" if ns >= 1_000_000 or ns == 0 else "under 1 ms"
    if ns < 995_000_000:
        return f"{ns / 1e9:.2f} s"
    if ns < 59_950_000_000:
        return f"{ns / 1e9:.1f} s"
    minutes, seconds = divmod(round(ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(round(ns / 60e9), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def product(ns: int, of: str) -> str:
    """A time of several things together: "0.38 member-seconds"."""
    for unit, size in (("hours", 3_600e9), ("minutes", 60e9)):
        if ns >= 10 * size:
            return f"{ns / size:.0f} {of}-{unit}"
    seconds = ns / 1e9
    places = 3 if seconds < 0.1 else 2 if seconds < 0.995 else 1
    return f"{seconds:.{places}f} {of}-seconds"


def many(number: int, one: str, more: str | None = None) -> str:
    """As in "1 partition", "3 partitions"."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def explain(
    rebalance: Account,
    names: Names,
    led_to: Sequence[str] = (),
    meanwhile: Sequence[str] = (),
) -> str:
    """Explains a rebalance: its cause, course and result.

    "Generation 7: ben's session expired 3.0 s after it was last heard of; waited
    0.54 s for ana and cleo; all joined; ..."

    Args:
        rebalance: the account of it.
        names: of the members.
        led_to: faults that struck the members that caused it, in words.
        meanwhile: faults that struck members while it was under way, in words.
    """
    clauses = [
        cause(rebalance, names),
        *_faults("before that,", led_to),
        *_faults("meanwhile", meanwhile),
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


def _faults(when: str, phrases: Sequence[str]) -> list[str]:
    """The faults that struck then, if any, as one clause."""
    return [f"{when} {', and '.join(phrases)}"] if phrases else []


def head(rebalance: Account) -> str:
    """Name of a rebalance: the generation that it made, or that it ended."""
    if rebalance.generation is None:
        return f"After generation {rebalance.previous_generation}"
    return f"Generation {rebalance.generation}"


# -- the cause


def cause(rebalance: Account, names: Names) -> str:
    """The cause, with the members that caused it."""
    who = names.list(rebalance.culprits) or "a member"
    if rebalance.is_second_half:
        return (
            f"{who} rejoined after revoking partitions, so that they can be assigned: "
            f"the second rebalance of the cooperative protocol"
        )
    tell = _CAUSES.get(rebalance.cause, _plain)
    return tell(rebalance, who)


def said(reason: str | None) -> str:
    """The reason that a client sent (KIP-800), to follow its action."""
    return f' (reason: "{cut(reason, LONGEST_REASON)}")' if reason else ""


def _plain(rebalance: Account, who: str) -> str:
    sentence = REBALANCE_SENTENCES.get(rebalance.cause)
    if sentence is None:
        return f"{rebalance.cause} ({who})"
    return f"{sentence.format(who=who)}{said(rebalance.reason)}"


def _joined(rebalance: Account, who: str) -> str:
    if rebalance.previous_state == "Empty":
        first = "was" if len(rebalance.culprits) < 2 else "were"
        return f"{who} {first} the first to join{said(rebalance.reason)}"
    return _plain(rebalance, who)


def _left(rebalance: Account, who: str) -> str:
    gone = {each.member_id: each.how for each in rebalance.departures}
    if any(gone.get(m) is Gone.REMOVED for m in rebalance.culprits):
        return f"an admin removed {who}{said(rebalance.reason)}"
    return f"{who} left{said(rebalance.reason) or ', no reason given'}"


def _expired(rebalance: Account, who: str) -> str:
    if rebalance.reason:
        # Only a command has a reason: a session that expires by itself has none.
        return f"{who}'s session expired because {rebalance.reason}"
    if rebalance.silent_ns is None:
        return f"{who}'s session expired"
    silent = duration(rebalance.silent_ns)
    return f"{who}'s session expired {silent} after it was last heard of"


def _commanded(rebalance: Account, who: str) -> str:
    sentence = REBALANCE_SENTENCES[rebalance.cause].format(who=who)
    reason = rebalance.reason
    return f"{sentence}: {cut(reason, LONGEST_REASON)}" if reason else sentence


def _over_max_size(rebalance: Account, who: str) -> str:
    if rebalance.reason:
        return cut(rebalance.reason, LONGEST_REASON)
    return _plain(rebalance, who)


def _changed(rebalance: Account, who: str) -> str:
    if rebalance.is_same_offer:
        same = "the same protocols and topics as before"
        return f"{who} rejoined with {same}{said(rebalance.reason)}"
    return _plain(rebalance, who)


def _unsynced(rebalance: Account, who: str) -> str:
    were = "was" if len(rebalance.culprits) < 2 else "were"
    return f"{_plain(rebalance, who)} and {were} removed"


_CAUSES: Mapping[str, Callable[[Account, str], str]] = {
    "member_joined": _joined,
    "member_left": _left,
    "session_expired": _expired,
    "metadata_changed": _changed,
    "sync_timeout": _unsynced,
    "member_kicked": _commanded,
    "requested": _commanded,
    "group_over_max_size": _over_max_size,
}


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
    if rebalance.join_ended_by is not None and not (delays or whom or is_held):
        told.append("no wait was necessary")
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
            state = "PreparingRebalance" if is_joining else "CompletingRebalance"
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
    return [*told, *_leads(rebalance, names), *_sync(rebalance, names)]


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
    return [
        {
            Outcome.MOVED: "another coordinator took over the group before it ended",
            Outcome.CUT: "the broker stopped before it ended",
            Outcome.UNSEEN: "its end is unknown",
        }[rebalance.outcome]
    ]


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
    back = sum(move.count for move in moves if move.is_return)
    same = sum(m.count for m in moves if names.is_same(m.source, m.target))
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


def partition_count(rows: Sequence[Unread]) -> int:
    """Number of partitions in the rows, each counted once."""
    if len(rows) == 1:
        return count(rows[0].parts)
    parts = chain.from_iterable(row.parts.items() for row in rows)
    return len({(topic, n) for topic, numbers in parts for n in numbers})


def how(gone: Gone | None) -> str:
    """A departure in words."""
    return _HOW[gone] if gone is not None else "is still a member"
