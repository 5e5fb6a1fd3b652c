"""A rebalance while its events come in; `Building.built` makes a value of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.control.why.model import (
    Event,
    Gone,
    Member,
    Move,
    Moves,
    Outcome,
    Partition,
    Rebalance,
    StandStill,
    Wait,
)
from kohort.control.why.partitions import Ownership

COOPERATIVE = frozenset({"cooperative-sticky", "stream", "compatible", "sessioned"})
"""Assignors whose members keep what they own while they rebalance (KIP-429): of
kafka-clients, librdkafka, franz-go and kohort; of Kafka Streams since 2.4, which calls
its assignor "stream"; of Kafka Connect (KIP-415, KIP-507; its eager one is "default").
Any other name is taken for an eager one's."""

JOINED_BY_CAUSE = frozenset(
    {
        "member_joined",
        "metadata_changed",
        "leader_rejoined",
        "static_member_replaced",
    }
)
"""Causes that are a JoinGroup: who brought it has joined already."""


def is_eager(member: Member | None, protocol: str | None) -> bool | None:
    """Whether a member lets go of all it owns before it joins; None: not known.

    A member works eagerly if one of its assignors does: kafka-clients, franz-go and
    kohort take the protocol that all of them support. So a member in the middle of
    the two rolling restarts of KIP-429 is eager, whatever the group has chosen.
    """
    if member is not None and member.protocols:
        return not COOPERATIVE.issuperset(member.protocols)
    return None if protocol is None else protocol not in COOPERATIVE


class Building:
    """A rebalance that is, or was, under way."""

    def __init__(self, event: Event, at_ns: int, expected: Iterable[str]) -> None:
        self.run = str(event["run"])
        self.node = int(event["node"])
        self.sequence = int(event["sequence"])
        self.started_ns = self.piece_ns = at_ns
        self.joined_ns: int | None = None
        self.ended_ns: int | None = None
        self.outcome = Outcome.UNDER_WAY
        self.previous_generation = int(event.get("generation") or 0)
        self.generation: int | None = None
        self.previous_state = str(event.get("previous_state") or "")
        self.cause: str | None = event.get("cause")
        self.culprits: tuple[str, ...] = ()
        self.reason: str | None = event.get("reason")
        self.departures: dict[str, Gone] = {}
        self.silent_ns: int | None = None
        self.is_second_half = False
        self.is_same_offer: bool | None = None
        self.expected = tuple(expected)
        self.missing = dict.fromkeys(self.expected)
        self.is_initial = False
        self.completed: Event = {}
        self.refused: list[tuple[str, str]] = []
        self.latecomers: list[str] = []
        self.waits: list[Wait] = []
        self.standing: dict[str, tuple[int, int | None]] = {}
        self.stood: list[tuple[str, int, int, int | None, str]] = []
        self.synced: dict[str, int] = {}
        self.gains: list[tuple[Partition, str | None, str, bool, int | None]] = []
        self.losses: dict[str, list[Partition]] = {}
        self.kept: Mapping[str, tuple[Partition, ...]] | None = None
        self.is_ownership_whole = False
        self.seen_ns: int | None = None  # up to where no event is missing
        self.is_whole = True

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_ns is not None

    @property
    def is_joining(self) -> bool:
        """Whether joins are waited for."""
        return self.joined_ns is None and self.ended_ns is None

    # -- pieces of time

    def piece(
        self, what: str, until_ns: int, ended_by: str, member_id: str | None = None
    ) -> None:
        """Ends a piece of time, if there was any."""
        if until_ns > self.piece_ns:
            missing = () if member_id is not None else tuple(self.missing)
            self.waits.append(
                Wait(what, self.piece_ns, until_ns, ended_by, member_id, missing)
            )
        self.piece_ns = until_ns

    def came(self, member_id: str, at_ns: int, owns: int | None) -> None:
        """A member's JoinGroup was taken, in the join phase."""
        self.standing.setdefault(member_id, (at_ns, owns))
        if member_id in self.missing:
            if not self.is_initial:
                self.piece("join", at_ns, "joined", member_id)
            del self.missing[member_id]

    def went(self, member_id: str, at_ns: int, how: Gone | None) -> None:
        """A member, or an id that was given out, is gone."""
        if member_id in self.standing:
            self.stand_up(member_id, at_ns, "gone")
        if self.is_joining and how is not None:
            self.departures[member_id] = how
        if self.is_joining and member_id in self.missing:
            if not self.is_initial:
                self.piece("join", at_ns, "gone", member_id)
            del self.missing[member_id]

    def stand_up(self, member_id: str, at_ns: int, ended_by: str) -> None:
        """A member works again, or will never."""
        since_ns, owned = self.standing.pop(member_id)
        self.stood.append((member_id, since_ns, at_ns, owned, ended_by))

    def lose_sight(self, at_ns: int) -> None:
        """What follows is not seen."""
        for member_id in [*self.standing]:
            self.stand_up(member_id, at_ns, "unseen")

    def is_mine(self, event: Event) -> bool:
        """Whether an event is of the generation that it makes.

        Each join phase that comes to its end makes one. So if the number is another
        one the end of this is among events that are missing.
        """
        number = event.get("generation")
        return number is None or number == self.previous_generation + 1

    def join_completed(self, event: Event, at_ns: int) -> None:
        """The join phase is over."""
        cause = str(event.get("cause"))
        self.completed = event
        self.piece("initial_delay" if self.is_initial else "join", at_ns, cause)
        self.joined_ns = at_ns
        self.generation = event.get("generation")
        if not event.get("members"):
            self.end(at_ns, Outcome.EMPTIED)

    def join_ended_unseen(self, event: Event, at_ns: int) -> None:
        """Its assignment is made, and the end of its join phase was not seen."""
        self.is_whole = False
        joined_ns = at_ns - int(event.get("duration_ns") or 0)
        self.joined_ns = max(joined_ns, self.piece_ns)
        self.piece("unseen", self.joined_ns, Outcome.UNSEEN)
        self.completed = {k: event.get(k) for k in ("protocol", "leader")}
        self.generation = event.get("generation")

    def end(self, at_ns: int, outcome: Outcome) -> None:
        """It is over."""
        if self.is_over:
            return
        if self.is_joining:
            what = "initial_delay" if self.is_initial else "join"
            self.piece(what, at_ns, outcome)
        else:
            ended_by = "synced" if outcome is Outcome.COMPLETED else outcome
            self.piece("sync", at_ns, ended_by, self.completed.get("leader"))
        self.ended_ns = at_ns
        self.outcome = outcome

    # -- partitions

    def seal(self, ownership: Ownership) -> None:
        """Notes what stayed whose, before anything else changes hands."""
        if self.kept is not None or self.outcome is not Outcome.COMPLETED:
            return
        if not ownership.is_known:
            return  # no consumers, or nothing was ever seen of what they have
        self.is_ownership_whole = ownership.is_whole
        new = {(member_id, partition) for partition, _, member_id, _, _ in self.gains}
        self.kept = {
            member_id: kept
            for member_id, owned in ownership.owned.items()
            if (kept := tuple(sorted(p for p in owned if (member_id, p) not in new)))
        }

    def _moves(self) -> Moves | None:
        if self.kept is None:
            return None
        moved: list[Move] = []
        first: list[Move] = []
        losers = {p: member_id for member_id, lost in self.losses.items() for p in lost}
        for partition, known, target, returned, let_go_ns in self.gains:
            source = known or losers.get(partition)
            idle_ns = None
            if let_go_ns is not None and target in self.synced:
                idle_ns = max(self.synced[target] - let_go_ns, 0)
            move = Move(partition, source, target, returned, idle_ns)
            (first if source is None else moved).append(move)
        taken = {gain[0] for gain in self.gains}
        given_up = tuple(
            (partition, member_id)
            for member_id, lost in self.losses.items()
            for partition in lost
            if partition not in taken
        )
        whole = self.is_ownership_whole
        return Moves(tuple(moved), tuple(first), self.kept, given_up, whole)

    # -- the value

    def built(self, members: Mapping[str, Member], until_ns: int) -> Rebalance:
        """What it is; one that is under way ends at `until_ns`."""
        protocol = self.completed.get("protocol")
        stands = [
            StandStill(*row)
            for row in [*self.stood, *self._still_standing(until_ns)]
            if row[3] == 0 or is_eager(members.get(row[0]), protocol) is not False
        ]
        who = [is_eager(members.get(m), protocol) for m in self._listed("members")]
        eager = True if True in who else None if None in who or not who else False
        if not self.is_over:
            self.end(until_ns, Outcome.UNDER_WAY)
        assert self.ended_ns is not None  # noqa: S101 - by end()
        return Rebalance(
            self.run,
            self.node,
            self.sequence,
            self.previous_generation,
            self.generation,
            self.previous_state,
            self.cause,
            self.culprits,
            self.reason,
            self.departures,
            self.silent_ns,
            self.is_second_half,
            self.is_same_offer,
            self.expected,
            self._listed("members"),
            self._listed("gained"),
            self._listed("lost"),
            tuple(self.refused),
            tuple(self.latecomers),
            () if self.joined_ns is not None else tuple(self.missing),
            protocol,
            self.completed.get("leader"),
            eager,
            self.started_ns,
            self.joined_ns,
            self.ended_ns,
            self.outcome,
            self.completed.get("cause"),
            tuple(self.waits),
            waited_for(self.completed),
            tuple(stands),
            self._moves(),
            self.is_whole,
        )

    def _listed(self, name: str) -> tuple[str, ...]:
        return tuple(self.completed.get(name) or ())

    def _still_standing(
        self, until_ns: int
    ) -> Iterable[tuple[str, int, int, int | None, str]]:
        for member_id, (since_ns, owned) in self.standing.items():
            yield member_id, since_ns, max(until_ns, since_ns), owned, "unseen"


def waited_for(completed: Event) -> tuple[tuple[str, int, bool], ...]:
    """The rows of a ``join_completed``: (member id, ns, whether it came)."""
    rows: Iterable[Mapping[str, Any]] = completed.get("waits") or ()
    return tuple((r["member_id"], int(r["waited_ns"]), bool(r["came"])) for r in rows)
