"""Counts of groups, from the stream of events: plain numbers, few at that.

Each group has its own counters, up to `MOST_GROUPS`. Further groups share one set, so
that a program that makes a new group for every test does not make metrics without
end. A deleted group gives its place to the next one that needs it; its counts are
added to the shared set then, so that sums stay right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kohort.broker.api_counts import Histogram
from kohort.broker.events.account.values import WORK_ENDED
from kohort.broker.events.schema import BY_NAME
from kohort.broker.events.seen import Seen
from kohort.broker.events.words import UNSEEN

MOST_GROUPS: Final = 100
"""Groups that are counted separately: some 80 series each, 8,000 in total."""
LONGEST_NAME: Final = 200
"""Characters of a group's id, beyond which it is one of the others: ids may have
32,767, and stand in each of its series."""
OTHERS: Final = "__other__"
"""Label of the sum of all other groups, or topics. A group of that name counts as one
of them."""

REBALANCE_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Seconds: without a delay some ms; at the most a rebalance timeout, which is 60 s
for librdkafka's clients and 300 s for Java's."""

DELIVERED: Final = ("received", "again_certain", "again_possible", "skipped")
"""Numbers of records in a ``delivery_account``."""

Count = dict[str, int]


class GroupCounts:
    """Counters of one group, or of several.

    Attributes:
        rebalances: those that began, by cause.
        rebalance_seconds: of those that came to an assignment, from their start.
        pause_seconds: the pauses of members that had partitions, one per rebalance.
        unread_seconds: partition-seconds without a reader, by cause.
        departures: members that are gone: ``left``, ``removed``, ``expired``,
            ``replaced``, or why the broker took them out.
        refusals: joins that were refused, by error.
        commits: OffsetCommits that were taken.
        offsets: the offsets in them.
        commit_refusals: those that were refused, by error.
        findings: codes of the group's findings now, by key; none of several groups.
        delivery: records received, sent again, and skipped: `DELIVERED`.
        went_back: commits below the committed offset, by cause.
        last_cause: why it rebalanced last; None if it did not yet.
        last_time: when, in seconds since the epoch.
    """

    __slots__ = (
        "commit_refusals",
        "commits",
        "delivery",
        "departures",
        "findings",
        "last_cause",
        "last_time",
        "offsets",
        "pause_seconds",
        "rebalance_seconds",
        "rebalances",
        "refusals",
        "unread_seconds",
        "went_back",
    )

    def __init__(self) -> None:
        self.rebalances: Count = {}
        self.rebalance_seconds = Histogram(REBALANCE_BOUNDS)
        self.pause_seconds = Histogram(REBALANCE_BOUNDS)
        self.unread_seconds: dict[str, float] = {}
        self.departures: Count = {}
        self.refusals: Count = {}
        self.commits = 0
        self.offsets = 0
        self.commit_refusals: Count = {}
        self.findings: dict[str, str] = {}
        self.delivery: Count = {}
        self.went_back: Count = {}
        self.last_cause: str | None = None
        self.last_time = 0.0

    def add(self, other: GroupCounts) -> None:
        """Adds the counts of another one."""
        for mine, theirs in (
            (self.rebalances, other.rebalances),
            (self.departures, other.departures),
            (self.refusals, other.refusals),
            (self.commit_refusals, other.commit_refusals),
            (self.delivery, other.delivery),
            (self.went_back, other.went_back),
        ):
            for name, count in theirs.items():
                _add(mine, name, count)
        self.rebalance_seconds.add(other.rebalance_seconds)
        self.pause_seconds.add(other.pause_seconds)
        for cause, seconds in other.unread_seconds.items():
            before = self.unread_seconds.get(cause, 0.0)
            self.unread_seconds[cause] = before + seconds
        self.commits += other.commits
        self.offsets += other.offsets


class GroupFold:
    """Counts events as they happen; call `take` with each of them.

    How long things took is read from the accounts of rebalances.

    Attributes:
        since_ns: rebalances that began earlier are not measured.
        by_group: counts of groups that have their own.
        others: the counts of the others.
        gone: deleted groups, the oldest first: their places are free.
    """

    def __init__(self) -> None:
        self.since_ns = 0
        self.by_group: dict[str, GroupCounts] = {}
        self.others = GroupCounts()
        self.gone: dict[str, None] = {}

    def take(self, seen: Seen) -> None:
        """Counts an event."""
        notice = seen.notice
        count = _COUNT.get(notice.kind)
        if count is not None and notice.group_id is not None:
            count(self, notice.group_id, notice.fields, seen)

    def of(self, group: str) -> GroupCounts:
        """The counts that a group has, or shares."""
        found = self.by_group.get(group)
        if found is None:
            if len(group) > LONGEST_NAME or group == OTHERS:
                return self.others
            if len(self.by_group) >= MOST_GROUPS:
                if not self.gone:
                    return self.others
                gone = next(iter(self.gone))
                del self.gone[gone]
                self.others.add(self.by_group.pop(gone))
            found = self.by_group[group] = GroupCounts()
        return found

    def keep(self, groups: Iterable[str]) -> None:
        """Frees the places of all other groups.

        Most groups are heard of when they go. Not so those of a coordinator that is
        away, or that had nothing in its log.
        """
        there = {*groups}
        for group in self.by_group:
            if group in there:
                self.gone.pop(group, None)
            else:
                self.gone.setdefault(group)


# -- kinds of events; fields are raw, as in kohort.broker.events.render


def _loaded(
    fold: GroupFold, group: str, _fields: Mapping[str, Any], _seen: Seen
) -> None:
    fold.gone.pop(group, None)
    fold.of(group)


def _state(fold: GroupFold, group: str, fields: Mapping[str, Any], _seen: Seen) -> None:
    if fields["state"] != "Dead":
        fold.gone.pop(group, None)
        fold.of(group)
    elif group in fold.by_group:
        fold.gone[group] = None
        fold.by_group[group].findings.clear()


def _rebalance(
    fold: GroupFold, group: str, fields: Mapping[str, Any], seen: Seen
) -> None:
    if fields.get("previous_state") == "Assigning":
        return  # another epoch before the target assignment: the same rebalance
    cause = fields["cause"]
    counts = fold.of(group)
    counts.last_cause, counts.last_time = cause, seen.time
    _add(counts.rebalances, cause)


def _account(
    fold: GroupFold, group: str, fields: Mapping[str, Any], _seen: Seen
) -> None:
    if fields["started_ns"] < fold.since_ns:
        return
    counts = fold.of(group)
    if fields["outcome"] == "completed":
        counts.rebalance_seconds.observe(fields["duration_ns"] / 1e9)
    for pause in fields["pauses"]:
        if pause["count"] != 0 and pause["ended_by"] != UNSEEN:
            seconds = (pause["until_ns"] - pause["since_ns"]) / 1e9
            counts.pause_seconds.observe(seconds)
    _unread(fold, group, fields, _seen)


def _unread(
    fold: GroupFold, group: str, fields: Mapping[str, Any], _seen: Seen
) -> None:
    counts = fold.of(group)
    for row in fields["unread"]:
        if row["until_ns"] <= fold.since_ns or row["cause"] == WORK_ENDED:
            continue
        seconds = (row["until_ns"] - row["since_ns"]) * row["count"] / 1e9
        before = counts.unread_seconds.get(row["cause"], 0.0)
        counts.unread_seconds[row["cause"]] = before + seconds


def _found(fold: GroupFold, group: str, fields: Mapping[str, Any], _seen: Seen) -> None:
    counts = fold.of(group)
    if fields["is_withdrawn"]:
        counts.findings.pop(fields["finding"], None)
    elif counts is not fold.others:
        counts.findings[fields["finding"]] = fields["code"]


def _departed(
    fold: GroupFold, group: str, fields: Mapping[str, Any], seen: Seen
) -> None:
    if fields.get("was_pending"):
        return
    kind = seen.notice.kind.removeprefix("member_")
    is_silent = kind == "expired" and fields["cause"] == "silent"
    how = "expired" if is_silent else fields["cause"]
    _add(fold.of(group).departures, how)


def _replaced(
    fold: GroupFold, group: str, _fields: Mapping[str, Any], _seen: Seen
) -> None:
    _add(fold.of(group).departures, "replaced")


def _refused(
    fold: GroupFold, group: str, fields: Mapping[str, Any], seen: Seen
) -> None:
    _add(_asked_for(fold, group, seen).refusals, fields["error"])


def _committed(
    fold: GroupFold, group: str, _fields: Mapping[str, Any], seen: Seen
) -> None:
    counts = fold.of(group)
    counts.commits += 1
    # The event itself weighs 1, and each offset, too.
    counts.offsets += seen.notice.weight - 1


def _uncommitted(
    fold: GroupFold, group: str, fields: Mapping[str, Any], seen: Seen
) -> None:
    _add(_asked_for(fold, group, seen).commit_refusals, fields["error"])


def _delivered(
    fold: GroupFold, group: str, fields: Mapping[str, Any], _seen: Seen
) -> None:
    counts = fold.of(group)
    for name in DELIVERED:
        _add(counts.delivery, name, fields[name])


def _went_back(
    fold: GroupFold, group: str, fields: Mapping[str, Any], _seen: Seen
) -> None:
    _add(fold.of(group).went_back, fields["cause"], len(fields["rewinds"]))


def _asked_for(fold: GroupFold, group: str, seen: Seen) -> GroupCounts:
    """As `of`; a group that is not there can lose its place at any time."""
    counts = fold.of(group)
    if seen.notice.generation is None and counts is not fold.others:
        fold.gone.setdefault(group)
    return counts


def _add(counts: Count, name: str, number: int = 1) -> None:
    counts[name] = counts.get(name, 0) + number


_COUNT: Mapping[str, Callable[[GroupFold, str, Mapping[str, Any], Seen], None]] = {
    "commit_refused": _uncommitted,
    "finding": _found,
    "delivery_account": _delivered,
    "group_loaded": _loaded,
    "group_state": _state,
    "member_expired": _departed,
    "member_kicked": _departed,
    "member_left": _departed,
    "member_refused": _refused,
    "member_replaced": _replaced,
    "offsets_committed": _committed,
    "offsets_went_back": _went_back,
    "rebalance_account": _account,
    "rebalance_started": _rebalance,
    "unread_account": _unread,
}

UNCOUNTED: Final = BY_NAME.keys() - _COUNT.keys()
"""Kinds that are not counted."""
