"""The course of a group: rebalance after rebalance, and whose partitions are whose."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.control.why import reasons
from kohort.control.why.building import (
    JOINED_BY_CAUSE,
    Building,
    is_eager,
    waited_for,
)
from kohort.control.why.membership import Membership
from kohort.control.why.model import Event, Gone, Outcome
from kohort.control.why.partitions import Ownership

_OF_JOINS = frozenset({"member_id_given", "member_joined", "window_opened"})
"""Events that, in a join phase, bear the number of the generation before."""

_STILL_HELD = -1
"""In place of the time when a partition was let go of: its owner has yet to be told."""


class Course:
    """The rebalances of a group, as events come in.

    Attributes:
        people: its members.
        ownership: whose partitions are whose.
        rebalances: in order; the last one may be under way.
        delays: the lengths of initial windows, in ms.
        silences: of members that expired, for how long they were not heard of.
        now: the time of the event that is taken in.
        last_ns: the time of the event before.
    """

    def __init__(self) -> None:
        self.people = Membership()
        self.ownership = Ownership()
        self.rebalances: list[Building] = []
        self.delays: list[int] = []
        self.silences: dict[str, int] = {}
        self.now = 0
        self.last_ns = 0
        self._protocol: str | None = None
        self._stopped: set[int] = set()
        # Since when a member has been without work, or was, the last time; whether
        # it still is.
        self._spells: dict[str, tuple[int, bool]] = {}

    @property
    def last(self) -> Building | None:
        """The last rebalance that was seen; None: there was none."""
        return self.rebalances[-1] if self.rebalances else None

    # -- members

    def joins(self, member_id: str) -> None:
        """A member's JoinGroup is taken, and it waits for what comes of that."""
        if not self._spells.get(member_id, (0, False))[1]:
            self._spells[member_id] = (self.now, True)
        building = self.joining()
        if building is not None:
            building.came(member_id, self.now, self.owns(member_id))

    def replaces(self, old: str, new: str) -> None:
        """A static member has come back under a new id."""
        self.ownership.rename(old, new)
        if old in self._spells:
            self._spells[new] = self._spells.pop(old)
        if self.last is not None and old in self.last.standing:
            self.last.stand_up(old, self.now, "gone")
        building = self.joining()
        if building is not None:
            building.missing = {
                new if each == old else each: None for each in building.missing
            }
            building.came(new, self.now, self.owns(new))

    def joining(self) -> Building | None:
        """The rebalance that waits for joins, if one does."""
        return self.last if self.last is not None and self.last.is_joining else None

    def seal(self) -> None:
        """Notes what stayed whose in the last rebalance; before anything changes."""
        if self.last is not None:
            self.last.seal(self.ownership)

    def owns(self, member_id: str) -> int | None:
        """How many partitions a member has; None: not known."""
        owned = self.ownership.owned.get(member_id)
        return None if owned is None else len(owned)

    def goes(self, event: Event, member_id: str, how: Gone) -> None:
        """Somebody is no member any more."""
        self.seal()
        self.people.end(event, member_id, how, self.now)
        # Of one that went unseen nobody knows since when it has not worked.
        let_go_ns = None if how is Gone.UNSEEN else self._let_go_at(member_id)
        self.ownership.drop(member_id, let_go_ns)
        self._spells.pop(member_id, None)
        if self.last is not None:
            self.last.went(member_id, self.now, how)

    def _let_go_at(self, member_id: str) -> int:
        """When a member let go of what it gives up now, or has by going."""
        since_ns, lasts = self._spells.get(member_id, (self.now, False))
        eager = is_eager(self.people.members.get(member_id), self._protocol)
        return since_ns if lasts and eager is not False else self.now

    def forget_others(self, event: Event, members: Iterable[str | None]) -> None:
        """Whoever is not among the members has gone unseen."""
        here = {*members}
        for member_id in self.people.present:
            if member_id not in here:
                self.goes({"sequence": event["sequence"]}, member_id, Gone.UNSEEN)

    def notice_missing(self, event: Event) -> None:
        """A join phase is over, by its generation, and nothing has said so."""
        building, generation = self.joining(), event.get("generation")
        if building is None or generation is None:
            return
        ahead = generation - building.previous_generation
        if ahead > 1 or (ahead == 1 and event["kind"] in _OF_JOINS):
            self._end_unseen(building)

    # -- rebalances

    def started(self, event: Event) -> None:
        """A rebalance begins."""
        self.seal()
        last = self.last
        generation = event.get("generation")
        if last is not None and not last.is_over:
            if last.is_joining or generation not in {None, last.generation}:
                self._end_unseen(last)
            last.end(self.now, Outcome.INTERRUPTED)
        expected = event.get("members") or ()
        if event.get("previous_state") == "Empty":
            self.forget_others(event, (*expected, event.get("member_id")))
        self.people.meet(expected)
        building = Building(event, self.now, expected)
        building.culprits = self._culprits(event)
        if last is not None:
            self._hand_over(last, building)
        if building.cause in JOINED_BY_CAUSE:
            for member_id in building.culprits:
                building.missing.pop(member_id, None)
                standing = (self.now, self.owns(member_id))
                building.standing.setdefault(member_id, standing)
        if building.previous_state != "Empty":
            building.missing |= self.people.pending
        self._note_departures(building)
        building.is_second_half = self._is_second_half(building, last)
        building.is_same_offer = self._is_same_offer(building)
        self.rebalances.append(building)

    def _end_unseen(self, building: Building, until_ns: int | None = None) -> None:
        """Its end, and more perhaps, is among events that are missing."""
        building.is_whole = False
        seen_ns = self.last_ns if building.seen_ns is None else building.seen_ns
        if until_ns is not None:
            seen_ns = min(seen_ns, until_ns)
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
            and is_eager(self.people.members.get(member_id), self._protocol) is False
            for member_id in building.culprits
        )

    def _is_same_offer(self, building: Building) -> bool | None:
        """Whether those who rejoined offer what they did before; None: not known.

        What they offer has more in it than assignors and topics: what they own, as of
        which generation, their rack. That alone is another one than before.
        """
        if building.cause != "metadata_changed" or not building.culprits:
            return None
        changed = [self.people.changed.get(m) for m in building.culprits]
        return None if None in changed else not any(changed)

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

    def window_opened(self, event: Event) -> None:
        """A window of the initial delay begins."""
        self.delays.append(int(event.get("delay_ms") or 0))
        building = self.joining()
        if building is not None:
            building.is_initial = True
            if event.get("cause") == "extended":
                building.piece("initial_delay", self.now, "extended")

    def join_completed(self, event: Event) -> None:
        """A join phase is over."""
        building = self.joining()
        if building is not None and not building.is_mine(event):
            self._end_unseen(building)
            building = None
        if building is None:
            building = self._began_before(event)
        members = event.get("members") or ()
        self._protocol = event.get("protocol") or self._protocol
        building.join_completed(event, self.now)
        self.people.meet(members)
        self.forget_others(event, members)
        if not members:
            self.people.pending.clear()

    def _began_before(self, event: Event) -> Building:
        """A rebalance whose start is not among the events: the broker knows when."""
        self.seal()
        last = self.last
        start = self.now - int(event.get("duration_ns") or 0)
        if last is not None:
            if not last.is_over:
                self._end_unseen(last, start)
            start = max(start, last.piece_ns)
        before = int(event.get("generation") or 1) - 1
        opening = {**event, "generation": before, "cause": None, "reason": None}
        building = Building(opening, start, ())
        building.is_whole = False
        building.is_initial = event.get("cause") == "initial_delay"
        if last is not None:
            self._part(last, building)
        for member_id, waited_ns, came in sorted(
            waited_for(event), key=lambda row: row[1]
        ):
            building.missing[member_id] = None
            if came:
                at_ns = min(start + waited_ns, self.now)
                building.came(member_id, at_ns, self.owns(member_id))
        self.rebalances.append(building)
        return building

    def _part(self, last: Building, building: Building) -> None:
        """Who stands still because of the last one, and who because of this."""
        for member_id, (since_ns, owned) in [*last.standing.items()]:
            if since_ns < building.started_ns:
                last.stand_up(member_id, building.started_ns, "rebalance")
            else:  # it has joined this one, whose start was not seen
                del last.standing[member_id]
                building.standing[member_id] = (since_ns, owned)

    def assignment_made(self, event: Event) -> None:
        """The leader has divided."""
        building = self.last
        if building is None or building.is_over:
            return
        if not building.is_mine(event):
            self._end_unseen(building)
            return
        if building.is_joining:
            building.join_ended_unseen(event, self.now)
        building.end(self.now, Outcome.COMPLETED)

    def synced(self, event: Event) -> None:
        """A member was given its assignment."""
        member_id = event["member_id"]
        if member_id in self._spells:
            self._spells[member_id] = (self._spells[member_id][0], False)
        last = self.last
        if last is not None and member_id in last.standing:
            # Even if it made no generation: where the coordinator has moved, the
            # member may find its old one there, and go on in that.
            last.stand_up(member_id, self.now, "synced")
        building = self._of_generation(event)
        if building is None or building.joined_ns is None:
            return
        building.synced.setdefault(member_id, self.now)
        if is_eager(self.people.members.get(member_id), self._protocol) is False:
            # Only now it learns what to give up.
            for partition in building.losses.get(member_id, ()):
                if partition in self.ownership.let_go:
                    self.ownership.let_go[partition] = self.now

    def _of_generation(self, event: Event) -> Building | None:
        """The rebalance that made the generation of an event; None: it was not seen."""
        last = self.last
        return last if last is not None and last.is_mine(event) else None

    # -- partitions

    def partitions_changed(self, event: Event) -> None:
        """A member has other partitions, or it is said what it has."""
        member_id, cause = event["member_id"], event.get("cause")
        self.ownership.is_known = True
        if cause == "assigned":
            self._assigned(event, member_id)
        elif cause == "gone":
            self.seal()
            self.ownership.drop(member_id, self.now)
            self.ownership.lose(event, self.now)
        elif cause in {"loaded", "replaced"}:
            self.seal()
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
        since_ns, _ = self._spells.get(member_id, (self.now, False))
        eager = is_eager(self.people.members.get(member_id), self._protocol)
        return self.now if eager is False else since_ns

    # -- coordinators, and the stream itself

    def taken_over(self, event: Event) -> None:
        """Another coordinator has the group, or the same one again."""
        self.seal()
        if self.last is not None:
            self.last.end(self.now, Outcome.MOVED)
        members = event.get("members") or ()
        self._protocol = event.get("protocol") or self._protocol
        self.people.pending.clear()
        self.people.meet(members)
        self.forget_others(event, members)
        # Right behind it comes what each of them has, if it has anything.
        self.ownership.owned.update((member_id, set()) for member_id in members)

    def node_is(self, node: int, is_running: bool) -> None:
        """A node was started, or stopped; its groups are other nodes' then."""
        if is_running:
            self._stopped.discard(node)
        else:
            self._stopped.add(node)

    def close(self) -> None:
        """The events end here: what a node did that was stopped does not go on."""
        self.seal()
        if self.last is not None and self.last.node in self._stopped:
            self.last.end(self.now, Outcome.CUT)

    def began_anew(self) -> None:
        """The broker was started again."""
        self._stopped.clear()
        self._lose_sight()
        if self.last is not None:
            self.last.end(self.now, Outcome.CUT)

    def is_missing_some(self) -> None:
        """Events are missing from here on."""
        self._lose_sight()
        self.ownership.forget()
        if self.last is not None and not self.last.is_over:
            self.last.is_whole = False
            if self.last.seen_ns is None:
                self.last.seen_ns = self.now

    def _lose_sight(self) -> None:
        """What was seen last may not be so any more."""
        self.seal()
        self.people.pending.clear()
        self._spells.clear()
        if self.last is not None:
            self.last.lose_sight(self.now)
