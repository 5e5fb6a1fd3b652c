"""What is counted of groups, from the stream of events: plain numbers, few at that.

Each group that there is has counters of its own, up to `MOST_GROUPS`. Those beyond
share one set, so that a program that makes a new group for every test does not make
metrics without end. A group that is gone gives its place to the next one that needs
it; what it counted goes to the others then, so that nothing is lost from the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kohort.broker.api_counts import Histogram
from kohort.broker.events.bus import Seen
from kohort.broker.events.render import assigned

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

COOPERATIVE: Final = frozenset(
    {"cooperative-sticky", "stream", "compatible", "sessioned"}
)
"""As `kohort.control.why.building` has it, which takes too long to load; see there."""

Count = dict[str, int]
Protocols = Iterable[tuple[str, bytes]]
"""Assignors that a member supports: the name of each, and its metadata."""


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


class _Life:
    """What is remembered of a group to tell how long something lasts.

    Attributes:
        started: when the rebalance that is under way began; None: there is none.
        is_joining: whether members are waited for.
        owned: what members were assigned last, as bytes.
        standing: since when members wait for an assignment, and whether they had one
            before, so that something stands still.
        back: a static member that came back in this turn, and its assignors.
    """

    __slots__ = ("back", "is_joining", "owned", "standing", "started")

    def __init__(self) -> None:
        self.started: float | None = None
        self.is_joining = False
        self.owned: dict[str, bytes] = {}
        self.standing: dict[str, tuple[float, bool]] = {}
        self.back: tuple[str, Protocols] | None = None

    def stop(self, member_id: str, protocols: Protocols, now: float) -> None:
        """A member waits from now on, if it does not go on with what it keeps.

        That is what one does all of whose assignors are cooperative (KIP-429). One
        that waits already does so since then: a rebalance that follows is part of the
        same stand-still, and what was assigned meanwhile it has never had.
        """
        if not COOPERATIVE.issuperset(name for name, _ in protocols):
            had = bool(assigned(self.owned.get(member_id, b"")))
            self.standing.setdefault(member_id, (now, had))


class GroupFold:
    """Counts events as they happen; `take` is to be given each of them.

    A member stands still from its JoinGroup, before which it has given up all it had,
    to its SyncGroup's answer, or until it is gone: as `kohort.control.why` has it.

    Attributes:
        by_group: counts of groups that have their own.
        others: the counts of the others.
    """

    def __init__(self) -> None:
        self.by_group: dict[str, GroupCounts] = {}
        self.others = GroupCounts()
        # Groups that are gone, the first first: their places can be had.
        self._gone: dict[str, None] = {}
        self._lives: dict[str, _Life] = {}

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

    def meet(self, group: str, owned: Mapping[str, bytes]) -> None:
        """A group that was there before anything was counted.

        Args:
            group: its id.
            owned: what each of its members was assigned.
        """
        self.of(group)
        self._life(group).owned.update(owned)

    def keep(self, groups: Iterable[str]) -> None:
        """These are all groups that there are: only the others' places can be had.

        Most groups are heard of when they go. Not so those of a coordinator that is
        away, or that had nothing in its log.
        """
        there = {*groups}
        for group in self.by_group:
            if group in there:
                self._gone.pop(group, None)
            else:
                self._gone.setdefault(group)
        for group in self._lives.keys() - there:
            del self._lives[group]

    def _life(self, group: str) -> _Life:
        found = self._lives.get(group)
        if found is None:
            found = self._lives[group] = _Life()
        return found

    def _stood(self, group: str, life: _Life, member_id: str, now: float) -> None:
        """A member works again, or will never; fine if it did not wait."""
        since, had = life.standing.pop(member_id, (now, False))
        if had:
            self.of(group).stand_still_seconds.observe(now - since)

    # -- kinds of events; fields are raw, as in kohort.broker.events.render

    def _loaded(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        self._gone.pop(group, None)
        self.of(group)
        life = self._life(group)
        life.started, life.is_joining = None, False
        # Who has joined goes on standing still: it has to join once more.
        known = life.owned.keys() | life.standing.keys()
        for member_id in known - {*fields["members"]}:
            self._stood(group, life, member_id, seen.time)
            life.owned.pop(member_id, None)

    def _state(self, group: str, fields: Mapping[str, Any], _seen: Seen) -> None:
        state = fields["state"]
        if state == "Dead":
            self._lives.pop(group, None)
            if group in self.by_group:
                self._gone[group] = None
            return
        self._gone.pop(group, None)
        self.of(group)
        life = self._life(group)
        life.is_joining = state == "PreparingRebalance"
        if state == "Empty":
            life.started = None

    def _rebalance(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        cause = fields["cause"]
        counts = self.of(group)
        counts.last_cause, counts.last_time = cause, seen.time
        _add(counts.rebalances, cause)
        life = self._life(group)
        life.started = seen.time
        if life.back is not None and cause == "static_member_replaced":
            life.stop(*life.back, seen.time)

    def _assigned(self, group: str, _fields: Mapping[str, Any], seen: Seen) -> None:
        life = self._life(group)
        if life.started is not None:
            self.of(group).rebalance_seconds.observe(seen.time - life.started)
            life.started = None

    def _owns(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        owned = self._life(group).owned
        if fields["cause"] == "gone":
            owned.pop(_member(seen), None)
        else:
            owned[_member(seen)] = fields["after"]

    def _joined(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        life = self._life(group)
        life.back = None
        if fields["cause"] != "repeated":
            life.stop(_member(seen), fields["protocols"], seen.time)

    def _synced(self, group: str, _fields: Mapping[str, Any], seen: Seen) -> None:
        self._stood(group, self._life(group), _member(seen), seen.time)

    def _departed(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        if fields.get("was_pending"):
            return
        kind = seen.notice.kind.removeprefix("member_")
        _add(
            self.of(group).departures,
            "expired" if kind == "expired" else fields["cause"],
        )
        life = self._life(group)
        self._stood(group, life, _member(seen), seen.time)
        life.owned.pop(_member(seen), None)

    def _replaced(self, group: str, fields: Mapping[str, Any], seen: Seen) -> None:
        _add(self.of(group).departures, "replaced")
        life = self._life(group)
        old, new = fields["replaced_member_id"], _member(seen)
        self._stood(group, life, old, seen.time)
        if old in life.owned:
            life.owned[new] = life.owned.pop(old)
        if life.is_joining:
            life.stop(new, fields["protocols"], seen.time)
        else:
            life.back = new, fields["protocols"]

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
    "member_replaced": GroupFold._replaced,  # noqa: SLF001
    "member_synced": GroupFold._synced,  # noqa: SLF001
    "offsets_committed": GroupFold._committed,  # noqa: SLF001
    "partitions_changed": GroupFold._owns,  # noqa: SLF001
    "rebalance_started": GroupFold._rebalance,  # noqa: SLF001
}
