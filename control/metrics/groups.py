"""What is counted of groups, from the stream of events: plain numbers, few at that.

Each group that there is has counters of its own, up to `MOST_GROUPS`. Those beyond
share one set, so that a program that makes a new group for every test does not make
metrics without end. A group that is gone gives its place to the next one that needs
it; what it counted goes to the others then, so that nothing is lost from the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kohort.broker.api_counts import Histogram
from kohort.broker.events.bus import Seen

MOST_GROUPS: Final = 100
"""Groups with numbers of their own: some 50 series each, 5,000 in all."""
LONGEST_NAME: Final = 200
"""Characters of a group's id, beyond which it is one of the others: ids may have
32,767, and stand in each of its series."""
OTHERS: Final = "__other__"
"""What the other groups, and topics, are called together. A group of that name is
one of them."""

REBALANCE_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Seconds: without a delay some ms; at the most a rebalance timeout, which is 60 s
for librdkafka's clients and 300 s for Java's."""

Count = dict[str, int]


class GroupCounts:
    """What has happened to one group, or to several.

    Attributes:
        rebalances: those that began, by cause.
        rebalance_seconds: of those that came to an assignment, from their start.
        stand_still_seconds: how long members that were in it already stood still in
            a rebalance, from JoinGroup to the assignment; see `GroupFold`.
        departures: members that are gone: ``left``, ``removed``, ``expired``,
            ``replaced``, or why the broker took them out.
        refusals: joins that were refused, by error.
        commits: OffsetCommits that were taken.
        offsets: the offsets in them.
        commit_refusals: those that were refused, by error.
        last_cause: why it rebalanced last; None if it did not yet.
        last_time: when, in seconds since the epoch.
    """

    __slots__ = (
        "commit_refusals",
        "commits",
        "departures",
        "last_cause",
        "last_time",
        "offsets",
        "rebalance_seconds",
        "rebalances",
        "refusals",
        "stand_still_seconds",
    )

    def __init__(self) -> None:
        self.rebalances: Count = {}
        self.rebalance_seconds = Histogram(REBALANCE_BOUNDS)
        self.stand_still_seconds = Histogram(REBALANCE_BOUNDS)
        self.departures: Count = {}
        self.refusals: Count = {}
        self.commits = 0
        self.offsets = 0
        self.commit_refusals: Count = {}
        self.last_cause: str | None = None
        self.last_time = 0.0

    def add(self, other: GroupCounts) -> None:
        """Takes over what another one has counted."""
        for mine, theirs in (
            (self.rebalances, other.rebalances),
            (self.departures, other.departures),
            (self.refusals, other.refusals),
            (self.commit_refusals, other.commit_refusals),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        self.rebalance_seconds.add(other.rebalance_seconds)
        self.stand_still_seconds.add(other.stand_still_seconds)
        self.commits += other.commits
        self.offsets += other.offsets


class GroupFold:
    """Counts events as they happen; `take` is to be given each of them.

    A member stands still from its JoinGroup, before which it has given up all it had,
    to its SyncGroup's answer. One that comes new has nothing to stand still with; and
    one all of whose assignors are cooperative goes on with what it keeps (KIP-429).

    Attributes:
        by_group: counts of groups that have their own.
        others: the counts of the others.
    """

    def __init__(self) -> None:
        self.by_group: dict[str, GroupCounts] = {}
        self.others = GroupCounts()
        # Groups that are gone, the first first: their places can be had.
        self._gone: dict[str, None] = {}
        # When the rebalances that are under way have begun, by group.
        self._started: dict[str, float] = {}
        # When members have come to stand still, by group and member id.
        self._standing: dict[str, dict[str, float]] = {}

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
                if not self._gone:
                    return self.others
                gone = next(iter(self._gone))
                del self._gone[gone]
                self.others.add(self.by_group.pop(gone))
            found = self.by_group[group] = GroupCounts()
        return found

    # -- kinds of events; fields are raw, as in kohort.broker.events.render

    def _loaded(self, group: str, _fields: Mapping[str, Any], _seen: Seen) -> None:
        self._gone.pop(group, None)
        self.of(group)

    def _state(self, group: str, fields: Mapping[str, Any], _seen: Seen) -> None:
        state = fields["state"]
        if state == "Dead":
            self._started.pop(group, None)
            self._standing.pop(group, None)
            if group in self.by_group:
                self._gone[group] = None
            return
        self._gone.pop(group, None)
        self.of(group)
        if state == "Empty":
            self._started.pop(group, None)
            self._standing.pop(group, None)

    def _rebalance(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        counts = self.of(group)
        counts.last_cause, counts.last_time = fields["cause"], seen.time
        _add(counts.rebalances, fields["cause"])
        self._started[group] = seen.time

    def _assigned(self, group: str, _fields: Mapping[str, Any], seen: Seen) -> None:
        started = self._started.pop(group, None)
        if started is not None:
            self.of(group).rebalance_seconds.observe(seen.time - started)

    def _joined(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        if fields["cause"] in {"new", "repeated"}:
            return
        if all(name.startswith("cooperative") for name, _ in fields["protocols"]):
            return
        standing = self._standing.setdefault(group, {})
        # A rebalance that follows at once is part of the same stand-still.
        standing.setdefault(_member(seen), seen.time)

    def _synced(self, group: str, _fields: Mapping[str, Any], seen: Seen) -> None:
        standing = self._standing.get(group)
        if standing:
            since = standing.pop(_member(seen), None)
            if since is not None:
                self.of(group).stand_still_seconds.observe(seen.time - since)

    def _departed(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        if fields.get("was_pending"):
            return
        kind = seen.notice.kind.removeprefix("member_")
        cause = fields["cause"] if kind in {"left", "kicked"} else kind
        _add(self.of(group).departures, cause)
        standing = self._standing.get(group)
        if standing:
            standing.pop(fields.get("replaced_member_id") or _member(seen), None)

    def _refused(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        _add(self._asked_for(group, seen).refusals, fields["error"])

    def _committed(self, group: str, _fields: Mapping[str, Any], seen: Seen) -> None:
        counts = self.of(group)
        counts.commits += 1
        # The event itself weighs 1, and each offset, too.
        counts.offsets += seen.notice.weight - 1

    def _uncommitted(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        _add(self._asked_for(group, seen).commit_refusals, fields["error"])

    def _asked_for(self, group: str, seen: Seen) -> GroupCounts:
        """As `of`; a group that is not there can lose its place at any time."""
        counts = self.of(group)
        if seen.notice.generation is None and counts is not self.others:
            self._gone.setdefault(group)
        return counts


def _add(counts: Count, name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _member(seen: Seen) -> str:
    who = seen.notice.who
    return "" if who is None else who[0] or ""


_COUNT: Mapping[str, Callable[[GroupFold, str, Mapping[str, Any], Seen], None]] = {
    "assignment_made": GroupFold._assigned,  # noqa: SLF001 - a table of its methods
    "commit_refused": GroupFold._uncommitted,  # noqa: SLF001
    "group_loaded": GroupFold._loaded,  # noqa: SLF001
    "group_state": GroupFold._state,  # noqa: SLF001
    "member_expired": GroupFold._departed,  # noqa: SLF001
    "member_joined": GroupFold._joined,  # noqa: SLF001
    "member_kicked": GroupFold._departed,  # noqa: SLF001
    "member_left": GroupFold._departed,  # noqa: SLF001
    "member_refused": GroupFold._refused,  # noqa: SLF001
    "member_replaced": GroupFold._departed,  # noqa: SLF001
    "member_synced": GroupFold._synced,  # noqa: SLF001
    "offsets_committed": GroupFold._committed,  # noqa: SLF001
    "rebalance_started": GroupFold._rebalance,  # noqa: SLF001
}
