"""Folds the events of a group into rebalances, lives of members, and refusals.

What it goes by: within one turn of the coordinator the events about members come
before those about the rebalance that they bring about. It does not need a whole
stream: what began before it is told as such, and who is not introduced is known by
its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kohort.control.why import reasons
from kohort.control.why.course import Course
from kohort.control.why.model import Event, Facts, Gone, Refusal, Replacement


def fold(events: Iterable[Event], group: str, until_ns: int | None = None) -> Facts:
    """What the events of a group add up to.

    Args:
        events: in the order in which they were seen; those of other groups are
            passed over, those of no group count where they are about all.
        group: the group's id.
        until_ns: now, by the broker's clock, where no event is missing up to now:
            what is under way goes on until then. None: the last event is the end.

    Returns:
        The facts; without rebalances if there is no event of the group.
    """
    folding = _Folding(group)
    for event in events:
        folding.take(event)
    return folding.facts(until_ns)


def fold_all(events: Iterable[Event], until_ns: int | None = None) -> dict[str, Facts]:
    """The same for every group that has an event, by its id."""
    folding: dict[str, _Folding] = {}
    shared: list[Event] = []
    for event in events:
        group = event.get("group")
        if group is None:
            if event["kind"] in _OF_ALL:
                shared.append(event)
                for each in folding.values():
                    each.take(event)
            continue
        if group not in folding:
            # What was lost before it was ever heard of may have been its own.
            folding[group] = _Folding(group)
            for event_of_all in shared:
                folding[group].take(event_of_all)
        folding[group].take(event)
    return {group: each.facts(until_ns) for group, each in folding.items()}


_OF_ALL = frozenset({"events_lost", "node_started", "node_stopped"})
"""Events of no group that matter to every group."""

_OF_NOBODY = frozenset(
    {
        "rebalance_started",
        "window_opened",
        "join_completed",
        "assignment_made",
        "member_refused",
        "commit_refused",
        "group_loaded",
    }
)
"""Events that need not name a member; one of the others that does not is none."""


class _Folding:
    """One group, as far as its events have been read.

    The methods are in the order of the schema's kinds, one for each that matters.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.run: str | None = None
        self.count = 0
        self.since_ns: int | None = None
        self.since_generation = 0
        self.set_back_ns = 0
        self.gaps: list[tuple[int, int]] = []
        self.course = Course()
        self.people = self.course.people
        self.refusals: list[Refusal] = []
        self.replacements: list[Replacement] = []
        self.unused: list[tuple[int, int, str]] = []
        self.on_kind: Mapping[str, Callable[[Event], None]] = {
            "member_id_given": self._id_given,
            "pending_member_expired": self._pending_expired,
            "member_joined": self._joined,
            "member_refused": self._refused,
            "member_left": self._left,
            "member_expired": self._expired,
            "member_kicked": self._kicked,
            "member_replaced": self._replaced,
            "rebalance_started": self.course.started,
            "window_opened": self.course.window_opened,
            "join_completed": self.course.join_completed,
            "assignment_made": self.course.assignment_made,
            "member_synced": self.course.synced,
            "partitions_changed": self.course.partitions_changed,
            "commit_refused": self._commit_refused,
            "group_loaded": self.course.taken_over,
        }

    def take(self, event: Event) -> None:
        """Takes in one event."""
        if event["kind"] == "events_lost":
            self._lost(event)
            return
        is_ours = event.get("group") == self.group
        if not is_ours and event["kind"] not in _OF_ALL:
            return
        if self.run is not None and event["run"] != self.run:
            self.course.began_anew()
        self.run = event["run"]
        if not is_ours:
            self.course.node_is(event["node"], event["kind"] == "node_started")
            return
        self._note_time(event)
        self.course.notice_missing(event)
        if event.get("member_id"):
            self.people.introduce(event)
        elif event["kind"] not in _OF_NOBODY:
            return
        handle = self.on_kind.get(event["kind"])
        if handle is not None:
            handle(event)

    def _note_time(self, event: Event) -> None:
        at_ns, course = int(event["time_ns"]), self.course
        if self.since_ns is None:
            self.since_ns = course.now = at_ns
            self.since_generation = max(int(event.get("generation") or 0), 0)
            course.ownership.is_whole = not self.since_generation
        self.count += 1
        self.set_back_ns = max(self.set_back_ns, course.now - at_ns)
        course.last_ns = course.now
        course.now = max(course.now, at_ns)

    def facts(self, until_ns: int | None = None) -> Facts:
        """What is known by now."""
        self.course.close()
        now = self.course.now if until_ns is None else max(self.course.now, until_ns)
        members, present = self.people.members, self.people.present
        owned, is_known = self.course.ownership.owned, self.course.ownership.is_known
        return Facts(
            self.group,
            self.since_ns,
            None if self.since_ns is None else now,
            self.since_generation,
            [b.built(members, now) for b in self.course.rebalances],
            members,
            self.people.lives,
            self.refusals,
            self.replacements,
            self.unused,
            self.course.delays,
            {m: len(owned[m]) for m in present}
            if is_known and all(m in owned for m in present)
            else None,
            self.gaps,
            self.set_back_ns,
            self.count,
        )

    # -- members come

    def _id_given(self, event: Event) -> None:
        member_id = event["member_id"]
        self.people.pending[member_id] = None
        building = self.course.joining()
        if building is not None and not building.is_initial:
            building.missing[member_id] = None

    def _pending_expired(self, event: Event) -> None:
        self.unused.append((self.course.now, event["sequence"], event["member_id"]))
        self._is_not_pending(event["member_id"])

    def _is_not_pending(self, member_id: str) -> None:
        if member_id in self.people.pending:
            del self.people.pending[member_id]
            building = self.course.joining()
            if building is not None:
                building.went(member_id, self.course.now, None)

    def _joined(self, event: Event) -> None:
        member_id = event["member_id"]
        self.people.pending.pop(member_id, None)
        if member_id not in self.people:
            is_first = bool(event.get("is_first"))
            self.people.begin(member_id, self.course.now if is_first else None)
            if is_first:
                self.course.ownership.owned[member_id] = set()
        if event.get("cause") != "repeated":
            self.course.joins(member_id)

    def _refused(self, event: Event) -> None:
        cause = str(event.get("cause"))
        refusal = self._note_refusal(event, cause)
        building = self.course.joining()
        if building is not None:
            member = refusal.member
            who = refusal.member_id or member.instance_id or member.client_id
            building.refused.append((who, cause))

    def _commit_refused(self, event: Event) -> None:
        self._note_refusal(event, "commit")

    def _note_refusal(self, event: Event, cause: str) -> Refusal:
        refusal = Refusal(
            self.course.now,
            event["sequence"],
            event.get("member_id") or "",
            self.people.asker(event),
            str(event.get("error")),
            cause,
            event.get("generation"),
        )
        self.refusals.append(refusal)
        return refusal

    # -- members go

    def _left(self, event: Event) -> None:
        if event.get("was_pending"):
            self._is_not_pending(event["member_id"])
            return
        # An admin may name a member by its id, as the member itself does.
        is_removed = event.get("cause") == "removed" or reasons.is_removed(
            event.get("reason")
        )
        how = Gone.REMOVED if is_removed else Gone.LEFT
        self.course.goes(event, event["member_id"], how)

    def _expired(self, event: Event) -> None:
        member_id = event["member_id"]
        timeout_ms = self.people.members[member_id].session_timeout_ms
        if event.get("silent_ns") is not None:
            self.course.silences[member_id] = int(event["silent_ns"])
        elif timeout_ms is not None:
            self.course.silences[member_id] = timeout_ms * 1_000_000
        self.course.goes(event, member_id, Gone.EXPIRED)

    def _kicked(self, event: Event) -> None:
        member_id = event["member_id"]
        if event.get("was_pending"):
            self._is_not_pending(member_id)
            return
        building = self.course.joining()
        if building is not None and event.get("cause") == "did_not_join_in_time":
            # The wait was for all that are missing now. It may go on: without a
            # leader that is there, there is no generation.
            building.latecomers.append(member_id)
            building.piece("join", self.course.now, "rebalance_timeout")
        self.course.goes(event, member_id, Gone.KICKED)

    def _replaced(self, event: Event) -> None:
        old, new = str(event.get("replaced_member_id")), event["member_id"]
        self.course.seal()
        self.people.inherit(new, old)
        self.people.end(event, old, Gone.REPLACED, self.course.now)
        self.people.begin(new, self.course.now)
        instance_id = self.people.members[new].instance_id or ""
        self.replacements.append(
            Replacement(self.course.now, event["sequence"], instance_id, old, new)
        )
        self.course.replaces(old, new)

    # -- the stream itself

    def _lost(self, event: Event) -> None:
        self.gaps.append((int(event["first"]), int(event["last"])))
        self.course.is_missing_some()
