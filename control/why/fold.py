"""Folds the events of a group into rebalances, lives of members, and refusals.

What it goes by: within one turn of the coordinator the events about members come
before those about the rebalance that they bring about. It does not need a whole
stream: what began before it is told as such, and who is not introduced is known by
its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kohort.control.why import reasons
from kohort.control.why.building import (
    JOINED_BY_CAUSE,
    Building,
    is_eager,
    waited_for,
)
from kohort.control.why.model import (
    Event,
    Facts,
    Gone,
    Life,
    Member,
    Outcome,
    Refusal,
    Replacement,
    Wait,
)
from kohort.control.why.partitions import Ownership

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


def fold(events: Iterable[Event], group: str) -> Facts:
    """What the events of a group add up to.

    Args:
        events: in the order in which they were seen; those of other groups are
            passed over, those of no group count where they are about all.
        group: the group's id.

    Returns:
        The facts; without rebalances if there is no event of the group.
    """
    folding = _Folding(group)
    for event in events:
        folding.take(event)
    return folding.facts()


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


class _Folding:
    """One group, as far as its events have been read."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.since_ns: int | None = None
        self.now = 0
        self.run: str | None = None
        self.count = 0
        self.rebalances: list[Building] = []
        self.members: dict[str, Member] = {}
        self.lives: list[Life] = []
        self.life_of: dict[str, int] = {}
        self.gone: dict[str, Life] = {}
        self.silences: dict[str, int] = {}
        self.pending: dict[str, None] = {}
        self.refusals: list[Refusal] = []
        self.replacements: list[Replacement] = []
        self.unused: list[tuple[int, int, str]] = []
        self.delays: list[int] = []
        self.gaps: list[tuple[int, int]] = []
        self.ownership = Ownership()
        self.protocol: str | None = None
        # Since when a member has been without work, or was, the last time; whether
        # it still is.
        self.spells: dict[str, tuple[int, bool]] = {}
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
        if event.get("group") != self.group and event["kind"] != "node_started":
            return
        if self.run is not None and event["run"] != self.run:
            self._began_anew()
        self.run = event["run"]
        if event.get("group") != self.group:
            return
        self.now = max(self.now, int(event["time_ns"]))
        self.count += 1
        if self.since_ns is None:
            self.since_ns = self.now
        if event.get("member_id"):
            self._introduce(event)
        handle = self.on_kind.get(event["kind"])
        if handle is not None and (
            event.get("member_id") or event["kind"] in _OF_NOBODY
        ):
            handle(event)

    def facts(self) -> Facts:
        """What is known by now."""
        if self.rebalances:
            self.rebalances[-1].seal(self.ownership)
        is_known = self.ownership.is_known
        return Facts(
            self.group,
            self.since_ns,
            None if self.since_ns is None else self.now,
            [b.built(self.members, self.now) for b in self.rebalances],
            self.members,
            self.lives,
            self.refusals,
            self.replacements,
            self.unused,
            self.delays,
            {m: len(self.ownership.owned.get(m, ())) for m in self.life_of}
            if is_known
            else None,
            self.gaps,
            self.count,
        )

    # -- who is who

    def _introduce(self, event: Event) -> None:
        member_id = event["member_id"]
        known = self.members.get(member_id)
        if known is None:
            if event["kind"] in {"rebalance_started", "member_refused"}:
                return  # its id may be several, or none that was ever given out
            known = self._stranger(member_id)
        told: dict[str, Any] = {
            name: event[name]
            for name in ("instance_id", "client_id", "host", "session_timeout_ms")
            if event.get(name) is not None
        }
        for name in ("protocols", "topics"):
            if event.get(name) is not None:
                told[name] = tuple(event[name])
        if told:
            known = replace(known, **told)
        self.members[member_id] = known

    def _stranger(self, member_id: str) -> Member:
        return Member(member_id, client_id=_UUID.sub("", member_id))

    def _meet(self, member_ids: Iterable[str]) -> None:
        """Members that were there before the events begin."""
        for member_id in member_ids:
            if member_id not in self.members:
                self.members[member_id] = self._stranger(member_id)
            if member_id not in self.life_of:
                self._is_born(member_id, None)

    def _is_born(self, member_id: str, since_ns: int | None) -> None:
        self.life_of[member_id] = len(self.lives)
        self.lives.append(Life(member_id, since_ns))

    def _dies(self, event: Event, member_id: str, how: Gone) -> None:
        self._seal()
        self._meet([member_id])
        at = self.life_of.pop(member_id)
        self.gone[member_id] = self.lives[at] = replace(
            self.lives[at],
            until_ns=self.now,
            how=how,
            reason=event.get("reason"),
            was_kicked_for=event.get("cause") if how is Gone.KICKED else None,
            until_sequence=event["sequence"],
        )
        if how is Gone.REPLACED:
            return
        self.ownership.drop(member_id, self._let_go_at(member_id))
        self.spells.pop(member_id, None)
        if self.rebalances:
            self.rebalances[-1].went(member_id, self.now)

    def _let_go_at(self, member_id: str) -> int:
        """When a member let go of what it gives up now, or has by going."""
        since_ns, lasts = self.spells.get(member_id, (self.now, False))
        eager = is_eager(self.members.get(member_id), self.protocol)
        return since_ns if lasts and eager is not False else self.now

    # -- members

    def _id_given(self, event: Event) -> None:
        member_id = event["member_id"]
        self.pending[member_id] = None
        building = self._joining()
        if building is not None and not building.is_initial:
            building.missing[member_id] = None

    def _pending_expired(self, event: Event) -> None:
        self.unused.append((self.now, event["sequence"], event["member_id"]))
        self._is_not_pending(event["member_id"])

    def _is_not_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            del self.pending[member_id]
            building = self._joining()
            if building is not None:
                building.went(member_id, self.now)

    def _joined(self, event: Event) -> None:
        member_id = event["member_id"]
        self.pending.pop(member_id, None)
        if member_id not in self.life_of:
            self._is_born(member_id, self.now if event.get("is_first") else None)
        if event.get("cause") == "repeated":
            return
        if not self.spells.get(member_id, (0, False))[1]:
            self.spells[member_id] = (self.now, True)
        building = self._joining()
        if building is not None:
            owns = len(self.ownership.owned.get(member_id, ()))
            building.came(member_id, self.now, owns)

    def _refused(self, event: Event) -> None:
        member_id = event.get("member_id") or ""
        cause = str(event.get("cause"))
        self._note_refusal(event, cause)
        building = self._joining()
        if building is not None:
            who = member_id or event.get("instance_id") or event.get("client_id") or ""
            building.refused.append((who, cause))

    def _note_refusal(self, event: Event, cause: str) -> None:
        member_id = event.get("member_id") or ""
        known = self.members.get(member_id) or Member(
            member_id,
            event.get("instance_id"),
            event.get("client_id") or _UUID.sub("", member_id),
            event.get("host") or "",
        )
        self.refusals.append(
            Refusal(
                self.now,
                event["sequence"],
                member_id,
                known,
                str(event.get("error")),
                cause,
                event.get("generation"),
            )
        )

    def _commit_refused(self, event: Event) -> None:
        self._note_refusal(event, "commit")

    def _left(self, event: Event) -> None:
        if event.get("was_pending"):
            self._is_not_pending(event["member_id"])
            return
        how = Gone.REMOVED if event.get("cause") == "removed" else Gone.LEFT
        self._dies(event, event["member_id"], how)

    def _expired(self, event: Event) -> None:
        member_id = event["member_id"]
        timeout_ms = self.members[member_id].session_timeout_ms
        if event.get("silent_ns") is not None:
            self.silences[member_id] = int(event["silent_ns"])
        elif timeout_ms is not None:
            self.silences[member_id] = timeout_ms * 1_000_000
        self._dies(event, member_id, Gone.EXPIRED)

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
        self._dies(event, member_id, Gone.KICKED)

    def _replaced(self, event: Event) -> None:
        old, new = str(event.get("replaced_member_id")), event["member_id"]
        known = self.members.get(old)
        if known is not None:
            instance = event.get("instance_id") or known.instance_id
            mine = self.members[new]
            self.members[new] = replace(
                mine,
                instance_id=instance,
                session_timeout_ms=mine.session_timeout_ms or known.session_timeout_ms,
                protocols=mine.protocols or known.protocols,
                topics=mine.topics or known.topics,
            )
        self._dies(event, old, Gone.REPLACED)
        self._is_born(new, self.now)
        instance_id = self.members[new].instance_id or ""
        self.replacements.append(
            Replacement(self.now, event["sequence"], instance_id, old, new)
        )
        self.ownership.rename(old, new)
        if old in self.spells:
            self.spells[new] = self.spells.pop(old)
        building = self._joining()
        if building is not None:
            building.missing = {
                new if each == old else each: None for each in building.missing
            }
            building.standing.pop(old, None)
            building.came(new, self.now, len(self.ownership.owned.get(new, ())))

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
        if last is not None:
            if last.is_joining:
                last.is_whole = False  # its end is among the events that are missing
            last.end(self.now, Outcome.INTERRUPTED)
        expected = event.get("members") or ()
        if event.get("previous_state") == "Empty":
            self._forget_others(event, (*expected, event.get("member_id")))
        self._meet(expected)
        building = Building(event, self.now, expected)
        building.culprits = self._culprits(event)
        if last is not None:
            for member_id, (_, owned) in [*last.standing.items()]:
                last.stand_up(member_id, self.now, "rebalance")
                if member_id in self.life_of:
                    building.standing[member_id] = (self.now, owned)
        for member_id in building.culprits:
            if building.cause in JOINED_BY_CAUSE:
                owns = len(self.ownership.owned.get(member_id, ()))
                building.missing.pop(member_id, None)
                building.standing.setdefault(member_id, (self.now, owns))
        if not building.is_initial:
            building.missing |= self.pending
        self._note_departures(building)
        building.is_second_half = self._is_second_half(building, last)
        self.rebalances.append(building)

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
            and is_eager(self.members.get(member_id), self.protocol) is False
            for member_id in building.culprits
        )

    def _culprits(self, event: Event) -> tuple[str, ...]:
        if event.get("culprits"):
            return tuple(event["culprits"])
        named = event.get("member_id")
        if not named:
            return ()
        return (named,) if named in self.members else tuple(named.split(", "))

    def _note_departures(self, building: Building) -> None:
        """How those went that a rebalance is for; it is in the same turn."""
        for member_id in building.culprits:
            life = self.gone.get(member_id)
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
        if building is None:
            building = self._began_before(event)
        members = event.get("members") or ()
        self.protocol = event.get("protocol") or self.protocol
        building.join_completed(event, self.now)
        self._meet(members)
        self._forget_others(event, members)
        if not members:
            self.pending.clear()

    def _forget_others(self, event: Event, members: Iterable[str | None]) -> None:
        """Whoever is not among the members has gone unseen."""
        present = {*members}
        for member_id in [m for m in self.life_of if m not in present]:
            self._dies({"sequence": event["sequence"]}, member_id, Gone.UNSEEN)

    def _began_before(self, event: Event) -> Building:
        """A rebalance whose start is not among the events: the broker knows when."""
        self._seal()
        start = self.now - int(event.get("duration_ns") or 0)
        before = int(event.get("generation") or 1) - 1
        opening = {**event, "generation": before, "cause": None, "reason": None}
        building = Building(opening, start, ())
        building.is_whole = False
        building.is_initial = event.get("cause") == "initial_delay"
        for member_id, waited_ns, came in sorted(
            waited_for(event), key=lambda row: row[1]
        ):
            if came and start + waited_ns > building.piece_ns:
                at_ns = start + waited_ns
                building.waits.append(
                    Wait("join", building.piece_ns, at_ns, "joined", member_id)
                )
                building.piece_ns = at_ns
            elif not came:
                building.missing[member_id] = None
        self.rebalances.append(building)
        return building

    def _assignment_made(self, _: Event) -> None:
        if self.rebalances and not self.rebalances[-1].is_joining:
            self.rebalances[-1].end(self.now, Outcome.COMPLETED)

    def _synced(self, event: Event) -> None:
        if not self.rebalances:
            return
        building, member_id = self.rebalances[-1], event["member_id"]
        if building.joined_ns is None:
            return
        building.synced.setdefault(member_id, self.now)
        if member_id in building.standing:
            building.stand_up(member_id, self.now, "synced")
        if member_id in self.spells:
            self.spells[member_id] = (self.spells[member_id][0], False)
        if is_eager(self.members.get(member_id), self.protocol) is False:
            # Only now it learns what to give up.
            for partition in building.losses.get(member_id, ()):
                if partition in self.ownership.let_go:
                    self.ownership.let_go[partition] = self.now

    def _partitions_changed(self, event: Event) -> None:
        member_id, cause = event["member_id"], event.get("cause")
        self.ownership.is_known = True
        if cause == "assigned":
            self._assigned(event, member_id)
        elif cause in {"gone", "deleted"}:
            self._seal()
            self.ownership.drop(member_id, self.now)
        elif cause in {"loaded", "replaced"}:
            self._seal()
            process = self.members[member_id].process
            self.ownership.know(event, member_id, process)

    def _assigned(self, event: Event, member_id: str) -> None:
        ownership = self.ownership
        gained, lost = ownership.change(event, self._let_go_since(member_id))
        building = self.rebalances[-1] if self.rebalances else None
        for partition in gained:
            let_go_ns = ownership.let_go.pop(partition, None)
            process = self.members[member_id].process
            source, returned = ownership.take(partition, member_id, process)
            if source is not None and let_go_ns is None:
                let_go_ns = self._let_go_since(source)
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
        eager = is_eager(self.members.get(member_id), self.protocol)
        return self.now if eager is False else since_ns

    # -- the stream itself, and coordinators

    def _loaded(self, event: Event) -> None:
        """Another coordinator has the group, or the same one again."""
        if self.rebalances:
            self._seal()
            self.rebalances[-1].end(self.now, Outcome.MOVED)
        members = event.get("members") or ()
        self.protocol = event.get("protocol") or self.protocol
        self.pending.clear()
        self._meet(members)
        self._forget_others(event, members)

    def _began_anew(self) -> None:
        """The broker was started again."""
        self.pending.clear()
        if self.rebalances:
            self._seal()
            self.rebalances[-1].end(self.now, Outcome.CUT)

    def _lost(self, event: Event) -> None:
        self.gaps.append((int(event["first"]), int(event["last"])))
        if self.rebalances and not self.rebalances[-1].is_over:
            self.rebalances[-1].is_whole = False
