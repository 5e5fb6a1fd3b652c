"""Folds the events of a group into rebalances, lives of members, and refusals.

What it goes by: within one turn of the coordinator the events about members come
before those about the rebalance that they bring about. It does not need a whole
stream: what began before it is told as such, and who is not introduced is known by
its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kohort.control.why import reasons
from kohort.control.why.building import (
    JOINED_BY_CAUSE,
    Building,
    is_eager,
    waited_for,
)
from kohort.control.why.membership import Membership
from kohort.control.why.model import (
    Event,
    Facts,
    Gone,
    Outcome,
    Refusal,
    Replacement,
)
from kohort.control.why.partitions import Ownership


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


def fold_all(events: Iterable[Event]) -> dict[str, Facts]:
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
    return {group: each.facts() for group, each in folding.items()}


_OF_ALL = frozenset({"events_lost", "node_started"})
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

_OF_JOINS = frozenset({"member_id_given", "member_joined", "window_opened"})
"""Events that, in a join phase, bear the number of the generation before."""

_STILL_HELD = -1
"""In place of the time when a partition was let go of: its owner has yet to be told."""


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
        self.now = 0
        self.last_ns = 0  # the event before this one
        self.set_back_ns = 0
        self.gaps: list[tuple[int, int]] = []
        self.people = Membership()
        self.ownership = Ownership()
        self.protocol: str | None = None
        # Since when a member has been without work, or was, the last time; whether
        # it still is.
        self.spells: dict[str, tuple[int, bool]] = {}
        self.silences: dict[str, int] = {}
        self.rebalances: list[Building] = []
        self.refusals: list[Refusal] = []
        self.replacements: list[Replacement] = []
        self.unused: list[tuple[int, int, str]] = []
        self.delays: list[int] = []
        self.on_kind: Mapping[str, Callable[[Event], None]] = {
            "member_id_given": self._id_given,
            "pending_member_expired": self._pending_expired,
            "member_joined": self._joined,
            "member_refused": self._refused,
            "member_left": self._left,
            "member_expired": self._expired,
            "member_kicked": self._kicked,
            "member_replaced": self._replaced,
            "rebalance_started": self._started,
            "window_opened": self._window_opened,
            "join_completed": self._join_completed,
            "assignment_made": self._assignment_made,
            "member_synced": self._synced,
            "partitions_changed": self._partitions_changed,
            "commit_refused": self._commit_refused,
            "group_loaded": self._loaded,
        }

    def take(self, event: Event) -> None:
        """Takes in one event."""
        if event["kind"] == "events_lost":
            self._lost(event)
            return
        is_ours = event.get("group") == self.group
        if not is_ours and event["kind"] != "node_started":
            return
        if self.run is not None and event["run"] != self.run:
            self._began_anew()
        self.run = event["run"]
        if not is_ours:
            return
        self._note_time(event)
        self._notice_missing(event)
        if event.get("member_id"):
            self.people.introduce(event)
        elif event["kind"] not in _OF_NOBODY:
            return
        handle = self.on_kind.get(event["kind"])
        if handle is not None:
            handle(event)

    def _note_time(self, event: Event) -> None:
        at_ns = int(event["time_ns"])
        if self.since_ns is None:
            self.since_ns = self.now = at_ns
            self.since_generation = max(int(event.get("generation") or 0), 0)
            self.ownership.is_whole = not self.since_generation
        self.count += 1
        self.last_ns = self.now
        self.set_back_ns = max(self.set_back_ns, self.now - at_ns)
        self.now = max(self.now, at_ns)

    def _notice_missing(self, event: Event) -> None:
        """A join phase is over, by its generation, and nothing has said so."""
        building, generation = self._joining(), event.get("generation")
        if building is None or generation is None:
            return
        ahead = generation - building.previous_generation
        if ahead > 1 or (ahead == 1 and event["kind"] in _OF_JOINS):
            self._end_unseen(building)

    def facts(self, until_ns: int | None = None) -> Facts:
        """What is known by now."""
        self._seal()
        now = self.now if until_ns is None else max(self.now, until_ns)
        members, owned = self.people.members, self.ownership.owned
        present = self.people.present
        is_known = self.ownership.is_known and all(m in owned for m in present)
        return Facts(
            self.group,
            self.since_ns,
            None if self.since_ns is None else now,
            self.since_generation,
            [b.built(members, now) for b in self.rebalances],
            members,
            self.people.lives,
            self.refusals,
            self.replacements,
            self.unused,
            self.delays,
            {m: len(owned[m]) for m in present} if is_known else None,
            self.gaps,
            self.set_back_ns,
            self.count,
        )

    # -- members come

    def _id_given(self, event: Event) -> None:
        member_id = event["member_id"]
        self.people.pending[member_id] = None
        building = self._joining()
        if building is not None and not building.is_initial:
            building.missing[member_id] = None

    def _pending_expired(self, event: Event) -> None:
        self.unused.append((self.now, event["sequence"], event["member_id"]))
        self._is_not_pending(event["member_id"])

    def _is_not_pending(self, member_id: str) -> None:
        if member_id in self.people.pending:
            del self.people.pending[member_id]
            building = self._joining()
            if building is not None:
                building.went(member_id, self.now, None)

    def _joined(self, event: Event) -> None:
        member_id = event["member_id"]
        self.people.pending.pop(member_id, None)
        if member_id not in self.people:
            is_first = bool(event.get("is_first"))
            self.people.begin(member_id, self.now if is_first else None)
            if is_first:
                self.ownership.owned[member_id] = set()
        if event.get("cause") == "repeated":
            return
        if not self.spells.get(member_id, (0, False))[1]:
            self.spells[member_id] = (self.now, True)
        building = self._joining()
        if building is not None:
            building.came(member_id, self.now, self._owns(member_id))

    def _owns(self, member_id: str) -> int | None:
        """How many partitions a member has; None: not known."""
        owned = self.ownership.owned.get(member_id)
        return None if owned is None else len(owned)

    def _refused(self, event: Event) -> None:
        cause = str(event.get("cause"))
        refusal = self._note_refusal(event, cause)
        building = self._joining()
        if building is not None:
            member = refusal.member
            who = refusal.member_id or member.instance_id or member.client_id
            building.refused.append((who, cause))

    def _commit_refused(self, event: Event) -> None:
        self._note_refusal(event, "commit")

    def _note_refusal(self, event: Event, cause: str) -> Refusal:
        refusal = Refusal(
            self.now,
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
        how = Gone.REMOVED if event.get("cause") == "removed" else Gone.LEFT
        self._goes(event, event["member_id"], how)

    def _expired(self, event: Event) -> None:
        member_id = event["member_id"]
        timeout_ms = self.people.members[member_id].session_timeout_ms
        if event.get("silent_ns") is not None:
            self.silences[member_id] = int(event["silent_ns"])
        elif timeout_ms is not None:
            self.silences[member_id] = timeout_ms * 1_000_000
        self._goes(event, member_id, Gone.EXPIRED)

    def _kicked(self, event: Event) -> None:
        member_id = event["member_id"]
        if event.get("was_pending"):
            self._is_not_pending(member_id)
            return
        building = self._joining()
        if building is not None and event.get("cause") == "did_not_join_in_time":
            # The wait was for all that are missing now. It may go on: without a
            # leader that is there, there is no generation.
            building.latecomers.append(member_id)
            building.piece("join", self.now, "rebalance_timeout")
        self._goes(event, member_id, Gone.KICKED)

    def _goes(self, event: Event, member_id: str, how: Gone) -> None:
        self._seal()
        self.people.end(event, member_id, how, self.now)
        # Of one that went unseen nobody knows since when it has not worked.
        let_go_ns = None if how is Gone.UNSEEN else self._let_go_at(member_id)
        self.ownership.drop(member_id, let_go_ns)
        self.spells.pop(member_id, None)
        if self.rebalances:
            self.rebalances[-1].went(member_id, self.now, how)

    def _let_go_at(self, member_id: str) -> int:
        """When a member let go of what it gives up now, or has by going."""
        since_ns, lasts = self.spells.get(member_id, (self.now, False))
        eager = is_eager(self.people.members.get(member_id), self.protocol)
        return since_ns if lasts and eager is not False else self.now

    def _forget_others(self, event: Event, members: Iterable[str | None]) -> None:
        """Whoever is not among the members has gone unseen."""
        here = {*members}
        for member_id in self.people.present:
            if member_id not in here:
                self._goes({"sequence": event["sequence"]}, member_id, Gone.UNSEEN)

    def _replaced(self, event: Event) -> None:
        old, new = str(event.get("replaced_member_id")), event["member_id"]
        self._seal()
        self.people.inherit(new, old)
        self.people.end(event, old, Gone.REPLACED, self.now)
        self.people.begin(new, self.now)
        instance_id = self.people.members[new].instance_id or ""
        self.replacements.append(
            Replacement(self.now, event["sequence"], instance_id, old, new)
        )
        self.ownership.rename(old, new)
        if old in self.spells:
            self.spells[new] = self.spells.pop(old)
        if self.rebalances and old in self.rebalances[-1].standing:
            self.rebalances[-1].stand_up(old, self.now, "gone")
        building = self._joining()
        if building is not None:
            building.missing = {
                new if each == old else each: None for each in building.missing
            }
            building.came(new, self.now, self._owns(new))

    # -- rebalances

    def _joining(self) -> Building | None:
        if self.rebalances and self.rebalances[-1].is_joining:
            return self.rebalances[-1]
        return None

    def _seal(self) -> None:
        if self.rebalances:
            self.rebalances[-1].seal(self.ownership)

    def _started(self, event: Event) -> None:
        self._seal()
        last = self.rebalances[-1] if self.rebalances else None
        generation = event.get("generation")
        if last is not None and not last.is_over:
            if last.is_joining or generation not in {None, last.generation}:
                self._end_unseen(last)
            last.end(self.now, Outcome.INTERRUPTED)
        expected = event.get("members") or ()
        if event.get("previous_state") == "Empty":
            self._forget_others(event, (*expected, event.get("member_id")))
        self.people.meet(expected)
        building = Building(event, self.now, expected)
        building.culprits = self._culprits(event)
        if last is not None:
            self._hand_over(last, building)
        if building.cause in JOINED_BY_CAUSE:
            for member_id in building.culprits:
                building.missing.pop(member_id, None)
                standing = (self.now, self._owns(member_id))
                building.standing.setdefault(member_id, standing)
        if building.previous_state != "Empty":
            building.missing |= self.people.pending
        self._note_departures(building)
        building.is_second_half = self._is_second_half(building, last)
        self.rebalances.append(building)

    def _end_unseen(self, building: Building) -> None:
        """Its end, and more perhaps, is among events that are missing."""
        building.is_whole = False
        seen_ns = self.last_ns if building.seen_ns is None else building.seen_ns
        building.end(max(seen_ns, building.piece_ns), Outcome.UNSEEN)

    def _hand_over(self, last: Building, building: Building) -> None:
        """Whoever stands still because of the last one does so because of this now."""
        for member_id, (_, owned) in [*last.standing.items()]:
            last.stand_up(member_id, self.now, "rebalance")
            if member_id in self.people:
                building.standing[member_id] = (self.now, owned)

    def _is_second_half(self, building: Building, last: Building | None) -> bool:
        """Whether somebody joins again for what the last rebalance took from it.

        Clients say so, where they can. A follower that has given something up says
        another subscription, with what it still owns; a leader is known as such.
        """
        if building.cause not in {"metadata_changed", "leader_rejoined"}:
            return False
        if reasons.is_second_half(building.reason):
            return True
        return last is not None and any(
            last.losses.get(member_id)
            and is_eager(self.people.members.get(member_id), self.protocol) is False
            for member_id in building.culprits
        )

    def _culprits(self, event: Event) -> tuple[str, ...]:
        if event.get("culprits"):
            return tuple(event["culprits"])
        return (event["member_id"],) if event.get("member_id") else ()

    def _note_departures(self, building: Building) -> None:
        """How those went that a rebalance is for; it is in the same turn."""
        for member_id in building.culprits:
            life = self.people.gone.get(member_id)
            if life is None or life.how is None or life.until_ns != self.now:
                continue
            building.departures[member_id] = life.how
            building.reason = building.reason or life.reason
            if life.how is Gone.EXPIRED:
                building.silent_ns = self.silences.get(member_id)

    def _window_opened(self, event: Event) -> None:
        self.delays.append(int(event.get("delay_ms") or 0))
        building = self._joining()
        if building is not None:
            building.is_initial = True
            if event.get("cause") == "extended":
                building.piece("initial_delay", self.now, "extended")

    def _join_completed(self, event: Event) -> None:
        building = self._joining()
        if building is not None and not building.is_mine(event):
            self._end_unseen(building)
            building = None
        if building is None:
            building = self._began_before(event)
        members = event.get("members") or ()
        self.protocol = event.get("protocol") or self.protocol
        building.join_completed(event, self.now)
        self.people.meet(members)
        self._forget_others(event, members)
        if not members:
            self.people.pending.clear()

    def _began_before(self, event: Event) -> Building:
        """A rebalance whose start is not among the events: the broker knows when."""
        self._seal()
        last = self.rebalances[-1] if self.rebalances else None
        start = self.now - int(event.get("duration_ns") or 0)
        if last is not None:
            start = max(start, last.piece_ns)
            if not last.is_over:
                self._end_unseen(last)
            for member_id in [*last.standing]:
                last.stand_up(member_id, max(start, last.piece_ns), "rebalance")
        before = int(event.get("generation") or 1) - 1
        opening = {**event, "generation": before, "cause": None, "reason": None}
        building = Building(opening, start, ())
        building.is_whole = False
        building.is_initial = event.get("cause") == "initial_delay"
        for member_id, waited_ns, came in sorted(
            waited_for(event), key=lambda row: row[1]
        ):
            building.missing[member_id] = None
            if came:
                at_ns = min(start + waited_ns, self.now)
                building.came(member_id, at_ns, self._owns(member_id))
        self.rebalances.append(building)
        return building

    def _assignment_made(self, event: Event) -> None:
        building = self.rebalances[-1] if self.rebalances else None
        if building is None or building.is_over:
            return
        if not building.is_mine(event):
            self._end_unseen(building)
            return
        if building.is_joining:
            building.join_ended_unseen(event, self.now)
        building.end(self.now, Outcome.COMPLETED)

    def _synced(self, event: Event) -> None:
        member_id = event["member_id"]
        if member_id in self.spells:
            self.spells[member_id] = (self.spells[member_id][0], False)
        last = self.rebalances[-1] if self.rebalances else None
        if last is not None and member_id in last.standing:
            # Even if it made no generation: where the coordinator has moved, the
            # member may find its old one there, and go on in that.
            last.stand_up(member_id, self.now, "synced")
        building = self._of_generation(event)
        if building is None or building.joined_ns is None:
            return
        building.synced.setdefault(member_id, self.now)
        if is_eager(self.people.members.get(member_id), self.protocol) is False:
            # Only now it learns what to give up.
            for partition in building.losses.get(member_id, ()):
                if partition in self.ownership.let_go:
                    self.ownership.let_go[partition] = self.now

    def _of_generation(self, event: Event) -> Building | None:
        """The rebalance that made the generation of an event; None: it was not seen."""
        last = self.rebalances[-1] if self.rebalances else None
        return last if last is not None and last.is_mine(event) else None

    # -- partitions

    def _partitions_changed(self, event: Event) -> None:
        member_id, cause = event["member_id"], event.get("cause")
        self.ownership.is_known = True
        if cause == "assigned":
            self._assigned(event, member_id)
        elif cause == "gone":
            self._seal()
            self.ownership.drop(member_id, self.now)
            self.ownership.lose(event, self.now)
        elif cause in {"loaded", "replaced"}:
            self._seal()
            process = self.people.members[member_id].process
            self.ownership.know(event, member_id, process)

    def _assigned(self, event: Event, member_id: str) -> None:
        ownership = self.ownership
        gained, lost = ownership.change(event, self._let_go_since(member_id))
        building = self._of_generation(event)
        process = self.people.members[member_id].process
        for partition in gained:
            let_go_ns = ownership.let_go.pop(partition, _STILL_HELD)
            source, returned = ownership.take(partition, member_id, process)
            if let_go_ns == _STILL_HELD:
                let_go_ns = None if source is None else self._let_go_since(source)
            if building is not None:
                building.gains.append(
                    (partition, source, member_id, returned, let_go_ns)
                )
        if building is not None:
            building.losses[member_id] = lost

    def _let_go_since(self, member_id: str) -> int:
        """When a member let go of what an assignment has taken from it.

        Its answer to SyncGroup may be in the same turn, before this or after.
        """
        since_ns, _ = self.spells.get(member_id, (self.now, False))
        eager = is_eager(self.people.members.get(member_id), self.protocol)
        return self.now if eager is False else since_ns

    # -- coordinators, and the stream itself

    def _loaded(self, event: Event) -> None:
        """Another coordinator has the group, or the same one again."""
        if self.rebalances:
            self._seal()
            self.rebalances[-1].end(self.now, Outcome.MOVED)
        members = event.get("members") or ()
        self.protocol = event.get("protocol") or self.protocol
        self.people.pending.clear()
        self.people.meet(members)
        self._forget_others(event, members)
        # Right behind it comes what each of them has, if it has anything.
        self.ownership.owned.update((m, set()) for m in members)

    def _began_anew(self) -> None:
        """The broker was started again."""
        self._lose_sight()
        if self.rebalances:
            self.rebalances[-1].end(self.now, Outcome.CUT)

    def _lost(self, event: Event) -> None:
        self.gaps.append((int(event["first"]), int(event["last"])))
        self._lose_sight()
        self.ownership.forget()
        last = self.rebalances[-1] if self.rebalances else None
        if last is not None and not last.is_over:
            last.is_whole = False
            last.seen_ns = self.now if last.seen_ns is None else last.seen_ns

    def _lose_sight(self) -> None:
        """What was seen last may not be so any more."""
        self._seal()
        self.people.pending.clear()
        self.spells.clear()
        if self.rebalances:
            self.rebalances[-1].lose_sight(self.now)
