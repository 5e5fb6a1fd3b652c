"""A rebalance in plain words: one sentence of clauses, the same facts as its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.control.why.model import Gone, Moves, Outcome, Rebalance, StandStill, Wait
from kohort.control.why.names import Names, cut

LONGEST_REASON = 200
"""Characters of a reason that are shown: those of Kafka's clients have 50 to 150."""

_HOW = {
    Gone.LEFT: "left",
    Gone.REMOVED: "was removed by an admin",
    Gone.EXPIRED: "was not heard of for its session timeout",
    Gone.KICKED: "was taken out",
    Gone.REPLACED: "came back under a new id",
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


def many(count: int, one: str, more: str | None = None) -> str:
    """As in "1 partition", "3 partitions"."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def explain(rebalance: Rebalance, names: Names) -> str:
    """Why a group rebalanced, and what came of it.

    "Generation 7: ben's session expired 3.0 s after it was last heard of; waited
    0.54 s for ana and cleo; all joined; ..."
    """
    clauses = [
        cause(rebalance, names),
        *_waits(rebalance, names),
        *_others(rebalance, names),
        *_end(rebalance, names),
        *_moves(rebalance, names),
        *_stand_stills(rebalance, names),
    ]
    if not rebalance.is_whole:
        clauses.append("events of it are missing")
    return f"{head(rebalance)}: {'; '.join(clauses)}."


def head(rebalance: Rebalance) -> str:
    """Which rebalance it is: by the generation that it made, or that it ended."""
    if rebalance.generation is None:
        return f"After generation {rebalance.previous_generation}"
    return f"Generation {rebalance.generation}"


# -- why


def cause(rebalance: Rebalance, names: Names) -> str:
    """Why it began, and whose doing that was."""
    if rebalance.cause is None:
        return "it began before these events do"
    tell = _CAUSES.get(rebalance.cause)
    if tell is None:
        return f"{rebalance.cause} ({names.list(rebalance.culprits)})"
    who = names.list(rebalance.culprits) or "a member"
    if rebalance.is_second_half:
        return (
            f"{who} had given up partitions, and rejoined to have them divided: the "
            f"second half of the last rebalance"
        )
    return tell(rebalance, who)


def said(reason: str | None) -> str:
    """What a client said itself, behind what it did."""
    return f' (it said: "{cut(reason, LONGEST_REASON)}")' if reason else ""


def _was(rebalance: Rebalance) -> str:
    return "was" if len(rebalance.culprits) < 2 else "were"


def _joined(rebalance: Rebalance, who: str) -> str:
    if rebalance.previous_state == "Empty":
        return f"{who} came to the empty group{said(rebalance.reason)}"
    return f"{who} joined{said(rebalance.reason)}"


def _left(rebalance: Rebalance, who: str) -> str:
    if any(rebalance.departures.get(m) is Gone.REMOVED for m in rebalance.culprits):
        return f"an admin removed {who}{said(rebalance.reason)}"
    return f"{who} left{said(rebalance.reason) or ', no reason given'}"


def _expired(rebalance: Rebalance, who: str) -> str:
    if rebalance.silent_ns is None:
        return f"{who}'s session expired: it was not heard of"
    silent = duration(rebalance.silent_ns)
    return f"{who}'s session expired {silent} after it was last heard of"


def _changed(rebalance: Rebalance, who: str) -> str:
    what = "other protocols or subscriptions than before"
    if rebalance.is_same_offer:
        what = "the same protocols and topics as before"
    return f"{who} rejoined with {what}{said(rebalance.reason)}"


def _led(rebalance: Rebalance, who: str) -> str:
    return f"the leader, {who}, rejoined: it wants to divide{said(rebalance.reason)}"


def _replaced(rebalance: Rebalance, who: str) -> str:
    return (
        f"the static member {who} came back under a new id, and a new assignment "
        f"was necessary{said(rebalance.reason)}"
    )


def _unsynced(rebalance: Rebalance, who: str) -> str:
    return (
        f"{who} did not fetch what was assigned in time, and "
        f"{_was(rebalance)} taken out"
    )


def _over(*_: object) -> str:
    return "the group was loaded with more members than group.max.size"


_CAUSES: Mapping[str, Callable[[Rebalance, str], str]] = {
    "member_joined": _joined,
    "member_left": _left,
    "session_expired": _expired,
    "metadata_changed": _changed,
    "leader_rejoined": _led,
    "static_member_replaced": _replaced,
    "sync_timeout": _unsynced,
    "group_over_max_size": _over,
}


# -- the wait


def _waits(rebalance: Rebalance, names: Names) -> list[str]:
    delays = [w for w in rebalance.waits if w.what == "initial_delay"]
    joins = [w for w in rebalance.waits if w.what == "join"]
    told = []
    if delays:
        total = duration(sum(w.duration_ns for w in delays))
        windows = f", {len(delays)} windows" if len(delays) > 1 else ""
        told.append(f"waited {total} for more members (initial delay{windows})")
    whom = dict.fromkeys(w.member_id for w in joins if w.member_id)
    whom |= dict.fromkeys(m for w in joins for m in w.missing)
    if whom:
        total = duration(sum(w.duration_ns for w in joins))
        told.append(f"waited {total} for {names.list(whom)}{_longest(joins, names)}")
    told += [
        _went(names.of(w.member_id), rebalance.departures.get(w.member_id))
        for w in joins
        if w.ended_by == "gone" and w.member_id
    ]
    if rebalance.ended_wait is not None and not (delays or whom):
        told.append("nobody had to be waited for")
    if any(w.what == "unseen" for w in rebalance.waits):
        told.append("when the wait ended is not known")
    return told


def _went(name: str, gone: Gone | None) -> str:
    """How somebody went that was waited for; None: an id that was given out."""
    if gone is None:
        return f"{name} did not use its id"
    if gone is Gone.EXPIRED:
        return f"{name}'s session expired meanwhile"
    return f"{name} {how(gone)} meanwhile"


def _longest(joins: Sequence[Wait], names: Names) -> str:
    """Whom most of a wait for several was for, if that is one."""
    if len(joins) < 2:
        return ""
    longest = max(joins, key=lambda w: w.duration_ns)
    whom = [longest.member_id] if longest.member_id is not None else longest.missing
    total_ns = sum(w.duration_ns for w in joins)
    if not whom or 2 * longest.duration_ns < total_ns:
        return ""
    if duration(longest.duration_ns) == duration(total_ns):
        return ""
    return f", {duration(longest.duration_ns)} of it for {names.list(whom)}"


def _others(rebalance: Rebalance, names: Names) -> list[str]:
    """Who came and went besides those whose doing it was."""
    told = []
    told_of = {*rebalance.culprits, *rebalance.latecomers}
    told_of |= {w.member_id or "" for w in rebalance.waits if w.ended_by == "gone"}
    also = [m for m in rebalance.gained if m not in rebalance.culprits]
    if also:
        verb = "is" if len(also) == 1 else "are"
        told.append(f"{names.list(also)} {verb} new in it")
    gone = [m for m in rebalance.lost if m not in told_of]
    if gone:
        verb = "is" if len(gone) == 1 else "are"
        told.append(f"{names.list(gone)} {verb} not in it any more")
    if rebalance.refused:
        count = many(len(rebalance.refused), "JoinGroup")
        causes = sorted({cause for _, cause in rebalance.refused})
        told.append(f"{count} refused meanwhile ({', '.join(causes)})")
    return told


def _end(rebalance: Rebalance, names: Names) -> list[str]:
    told = []
    if rebalance.ended_wait == "all_joined":
        told.append("all joined")
    elif rebalance.ended_wait == "rebalance_timeout":
        late = names.list(rebalance.latecomers)
        told.append(
            "the rebalance timeout ended the wait"
            + (f", and {late} did not come in time: out" if late else "")
        )
    told += _sync(rebalance, names)
    return told


def _sync(rebalance: Rebalance, names: Names) -> list[str]:
    leader = names.of(rebalance.leader) if rebalance.leader else "the leader"
    took = duration(rebalance.sync_ns)
    if rebalance.outcome is Outcome.COMPLETED:
        return [f"{leader} divided in {took} ({cut(rebalance.protocol or '')})"]
    if rebalance.outcome is Outcome.EMPTIED:
        return ["nobody is in the group any more"]
    if rebalance.outcome is Outcome.INTERRUPTED:
        return [
            f"another rebalance began before {leader} had divided, after {took}"
            if rebalance.joined_ns is not None
            else "another rebalance began"
        ]
    if rebalance.outcome is Outcome.UNDER_WAY:
        return [f"it is still under way{_still_missing(rebalance, names)}"]
    return [
        {
            Outcome.MOVED: "another coordinator took the group over before it ended",
            Outcome.CUT: "the broker was stopped before it ended",
            Outcome.UNSEEN: "how it ended is not known",
        }[rebalance.outcome]
    ]


def _still_missing(rebalance: Rebalance, names: Names) -> str:
    """Whom a rebalance waits for now."""
    if rebalance.joined_ns is not None:
        leader = names.of(rebalance.leader) if rebalance.leader else "the leader"
        return f", and waits for {leader} to divide"
    missing = rebalance.missing
    return f", and waits for {names.list(missing)}" if missing else ""


# -- what it cost


def _moves(rebalance: Rebalance, names: Names) -> list[str]:
    moves = rebalance.moves
    if moves is None or not moves.total:
        return []
    told = []
    # Where events are missing there may be more than these.
    total = many(moves.total, "partition") if moves.is_whole else "the partitions"
    least = "" if moves.is_whole else "at least "
    if moves.moved:
        told.append(
            f"{len(moves.moved)} of {total} moved{_back(moves, names)}"
            f"{_idle(moves, rebalance)}"
        )
    elif not moves.first and moves.is_whole:
        told.append(f"none of {total} moved")
    if moves.first:
        owner = "a first owner" if moves.is_whole else "an owner"
        told.append(f"{many(len(moves.first), 'partition')} found {owner}")
    if moves.given_up:
        count = len(moves.given_up)
        verb = "was" if count == 1 else "were"
        told.append(f"{count} {verb} given up, for the next generation to have")
    if moves.kept_count and rebalance.is_eager is False:
        told.append(f"{least}{moves.kept_count} stayed, and were worked on")
    elif moves.kept_count:
        verb = "came" if rebalance.is_eager else "stayed with, or came"
        whose = "its" if moves.kept_count == 1 else "their"
        told.append(f"{least}{moves.kept_count} {verb} back to {whose} owner")
    return told


def _idle(moves: Moves, rebalance: Rebalance) -> str:
    """How long they stood still; of eager members the rows of members say so."""
    if rebalance.is_eager is not False or moves.longest_idle_ns is None:
        return ""
    return f", and stood still for {duration(moves.longest_idle_ns)} at most"


def _back(moves: Moves, names: Names) -> str:
    back = sum(move.returned for move in moves.moved)
    same = sum(names.is_same(move.source, move.target) for move in moves.moved)
    told = f", {back} of them back to where they had been before" if back else ""
    if same:
        told += f", {same} of them from a client's old member id to its new one"
    return told


def _stand_stills(rebalance: Rebalance, names: Names) -> list[str]:
    rows = [s for s in rebalance.stand_stills if s.partitions != 0 and s.duration_ns]
    if not rows:
        return []
    rows.sort(key=lambda row: -row.duration_ns)
    if len(rows) <= 3:
        each = ", ".join(_row(row, names, i == 0) for i, row in enumerate(rows))
        return [each]
    longest = f"{duration(rows[0].duration_ns)} at most ({names.of(rows[0].member_id)})"
    total = duration(rebalance.stood_still_ns)
    return [f"{len(rows)} members stood still, {longest}, {total} together"]


def _row(row: StandStill, names: Names, is_first: bool) -> str:
    verb = "stood still for " if is_first else ""
    least = "at least " if row.ended_by == "unseen" else ""
    return f"{names.of(row.member_id)} {verb}{least}{duration(row.duration_ns)}"


def how(gone: Gone | None) -> str:
    """How a member went, in words."""
    return _HOW[gone] if gone is not None else "is there"
