"""One rebalance while its events arrive; `Rebalance.account` makes the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, Final, NamedTuple

from kohort.broker.events.account.membership import Membership
from kohort.broker.events.account.ownership import Ownership
from kohort.broker.events.account.values import (
    Account,
    Departure,
    Event,
    Gone,
    Holding,
    Move,
    Outcome,
    Partition,
    Pause,
    Piece,
    RefusedJoin,
    Return,
    Unread,
    Wait,
    parts,
)
from kohort.broker.events.words import UNSEEN


class Leadership(NamedTuple):
    """The leader, why it leads, and the previous leader; None if unknown."""

    leader: str | None = None
    cause: str | None = None
    previous_leader: str | None = None


class Phase(Enum):
    """The phase of a rebalance.

    JOINING -- join_completed --> SYNCING -- assignment_made --> SETTLING -- all members
    have synced --> OVER. JOINING and SYNCING may also end early (see `Outcome`), and
    lead to SETTLING, too; the start of the next rebalance ends SETTLING at the latest.
    """

    JOINING = "joining"
    """The group waits for JoinGroups."""
    SYNCING = "syncing"
    """The generation has started; the group waits for the leader's assignment."""
    SETTLING = "settling"
    """The rebalance has an outcome; some members have not got their assignment."""
    OVER = "over"
    """Complete: its account can be made."""


SLOW_TO_JOIN_NS: Final = 5_000_000_000
"""Waits for one member that are too long. A member learns of a rebalance with its next
heartbeat, 3 s by default (heartbeat.interval.ms), and needs some time to revoke."""

_HOLDABLE: Final = {
    Phase.JOINING: ("PreparingRebalance", "Assigning"),
    Phase.SYNCING: ("CompletingRebalance",),
}
"""The states of a group in the phases in which a test can hold it."""


class Pieces:
    """The pieces of a rebalance's duration: each begins where the previous one ends."""

    def __init__(self, since_ns: int) -> None:
        self.at_ns = since_ns
        self.rows: list[Piece] = []

    def end(
        self,
        what: str,
        until_ns: int,
        ended_by: str,
        member_id: str | None = None,
        missing: Iterable[str] = (),
    ) -> None:
        """Ends a piece, if any time has passed."""
        self.rows += self.last(what, until_ns, ended_by, member_id, missing)
        self.at_ns = until_ns

    def last(
        self,
        what: str,
        until_ns: int,
        ended_by: str,
        member_id: str | None = None,
        missing: Iterable[str] = (),
    ) -> list[Piece]:
        """The piece if it ended then; none if no time has passed."""
        if until_ns <= self.at_ns:
            return []
        late = () if member_id is not None else tuple(missing)
        return [Piece(what, self.at_ns, until_ns, str(ended_by), member_id, late)]


class Pauses:
    """The pauses of members.

    Attributes:
        open: by pausing member, since when, and how many partitions it had.
        rows: pauses that are over.
    """

    def __init__(self) -> None:
        self.open: dict[str, tuple[int, int | None]] = {}
        self.rows: list[Pause] = []

    def begin(self, member_id: str, at_ns: int, owned: int | None) -> None:
        """Begins a member's pause, if it does not pause already."""
        self.open.setdefault(member_id, (at_ns, owned))

    def end(self, member_id: str, at_ns: int, ended_by: str) -> None:
        """Ends a member's pause, if it pauses."""
        if member_id in self.open:
            since_ns, owned = self.open.pop(member_id)
            self.rows.append(Pause(member_id, since_ns, at_ns, owned, ended_by))

    def rows_until(self, at_ns: int) -> list[Pause]:
        """All rows, with open pauses up to a time."""
        return self.rows + [
            Pause(member_id, since_ns, max(at_ns, since_ns), owned, UNSEEN)
            for member_id, (since_ns, owned) in self.open.items()
        ]


@dataclass(slots=True)
class Opening:
    """The cause of a rebalance.

    Attributes are those of `Account`, except the first ones.
    """

    event: Event
    started_ns: int
    expected: tuple[str, ...] = ()
    culprits: tuple[str, ...] = ()
    cause: str = UNSEEN
    reason: str | None = None
    departures: dict[str, Gone] = field(default_factory=dict)
    silent_ns: int | None = None
    is_second_half: bool = False
    is_same_offer: bool | None = None

    @property
    def generation(self) -> int:
        """The generation that it ended."""
        return int(self.event.get("generation") or 0)


@dataclass(slots=True)
class Shares:
    """The partitions of each member, as the assignment changed them.

    The rows of a member are made when it has synced, so that little is left to make
    when the last one has.

    Attributes:
        gains: by target and partition, its source, and whether it is a return.
        losses: by member, the partitions that it lost.
        taken: all partitions that a member gained.
        free: partitions that a member lost and no other gained.
        losers: by partition, the member that lost it.
        kept: partitions that stayed with their owner; None if unknown.
        is_whole: whether all earlier assignments were seen.
    """

    gains: dict[str, dict[Partition, tuple[str | None, bool]]] = field(
        default_factory=dict
    )
    losses: dict[str, list[Partition]] = field(default_factory=dict)
    losers: dict[Partition, str] = field(default_factory=dict)
    taken: set[Partition] = field(default_factory=set)
    free: set[Partition] = field(default_factory=set)
    kept: tuple[Holding, ...] | None = None
    is_whole: bool = False
    _held: dict[str, Holding] = field(default_factory=dict)
    _moved: dict[str, list[Move]] = field(default_factory=dict)

    def changed(
        self,
        member_id: str,
        gained: dict[Partition, tuple[str | None, bool]],
        lost: list[Partition],
    ) -> None:
        """Notes the partitions that an assignment gave to a member and took from it."""
        self.gains[member_id] = gained
        self.losses[member_id] = lost
        self.losers.update(dict.fromkeys(lost, member_id))
        self.taken.update(gained)
        self.free.update(lost)
        self.free.difference_update(gained, self.taken.intersection(lost))

    def synced(
        self, member_id: str, owned: set[Partition], unread_ns: Mapping[Partition, int]
    ) -> None:
        """Notes that a member got its assignment; does nothing the second time.

        Args:
            member_id: the member.
            owned: its partitions.
            unread_ns: by partition that it did not read before, the time without a
                reader.
        """
        if member_id not in self._held:
            self._held[member_id] = self._holding(member_id, owned)
            self._moved[member_id] = self._moves_to(member_id, unread_ns)

    def seal(self, ownership: Ownership) -> None:
        """Notes the kept partitions, before owners change again."""
        self.is_whole = ownership.is_whole
        held = (
            self._held.get(member_id) or self._holding(member_id, owned)
            for member_id, owned in ownership.owned.items()
        )
        self.kept = tuple(row for row in held if row.parts)

    def _holding(self, member_id: str, owned: set[Partition]) -> Holding:
        gained = self.gains.get(member_id)
        return Holding(member_id, parts(owned.difference(gained) if gained else owned))

    def _moves_to(self, target: str, unread_ns: Mapping[Partition, int]) -> list[Move]:
        """Partitions by source, and time without a reader."""
        rows: dict[tuple[str | None, bool, int | None], list[Partition]] = {}
        for partition, (known, is_return) in self.gains.get(target, {}).items():
            source = known or self.losers.get(partition)
            gap_ns = None if source is None else unread_ns.get(partition)
            rows.setdefault((source, is_return, gap_ns), []).append(partition)
        return [
            Move(source, target, is_return, gap_ns, len(found), parts(found))
            for (source, is_return, gap_ns), found in rows.items()
        ]

    def moves(self) -> tuple[Move, ...] | None:
        """The partitions with a new owner."""
        if self.kept is None:
            return None
        rows = (
            self._moved[target] if target in self._moved else self._moves_to(target, {})
            for target in self.gains
        )
        return tuple(chain.from_iterable(rows))

    def given_up(self) -> tuple[Holding, ...] | None:
        """The partitions taken from a member that have no new owner yet."""
        if self.kept is None:
            return None
        if not self.free:
            return ()
        held = ((m, self.free.intersection(lost)) for m, lost in self.losses.items())
        return tuple(Holding(m, parts(p)) for m, p in held if p)


class Rebalance:
    """A rebalance, in progress or over.

    Attributes:
        opening: its cause.
        phase: see `Phase`.
        joined_ns: the end of its join phase, if that ended with a generation.
        ended_ns: its end; None while it goes on.
        settled_ns: when it was over.
        outcome: how it ended.
        generation: the generation that it started.
        missing: members that have not joined yet, including pending ones.
        unsynced: members of the generation that have not got their assignment yet.
        is_initial: the group waits for its initial delay (KIP-134).
        completed: its ``join_completed``, if it was seen.
        waits: the rows of that event.
        assigned: its ``assignment_made``.
        leadership: the generation's leader, and why it leads.
        returns: processes that came back as its members, or as those before it.
        refused: JoinGroups refused in the join phase.
        latecomers: members removed because they missed the join phase.
        pieces: the pieces of its duration.
        pauses: the pauses of its members.
        shares: the partitions of each member.
        held_in: the state in which a test holds the group, or None.
        seen_ns: the time up to which no event is missing; None if none is missing.
        is_whole: none of its events is missing, as far as known.
        unprocessed_ns: see `Account`.
    """

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.phase = Phase.JOINING
        self.joined_ns: int | None = None
        self.ended_ns: int | None = None
        self.settled_ns: int | None = None
        self.outcome = Outcome.UNDER_WAY
        self.generation: int | None = None
        self.missing: dict[str, None] = dict.fromkeys(opening.expected)
        self.unsynced: set[str] = set()
        self.is_initial = False
        self.completed: Event = {}
        self.waits: tuple[Wait, ...] = ()
        self.assigned: Event = {}
        self.leadership = Leadership()
        self.returns: list[Return] = []
        self.refused: list[RefusedJoin] = []
        self.latecomers: list[str] = []
        self.pieces = Pieces(opening.started_ns)
        self.pauses = Pauses()
        self.shares = Shares()
        self.held_in: str | None = None
        self.seen_ns: int | None = None
        self.is_whole = True
        self.unprocessed_ns = 0

    @property
    def is_joining(self) -> bool:
        """True while the group waits for JoinGroups."""
        return self.phase is Phase.JOINING

    @property
    def has_ended(self) -> bool:
        """True if it has an outcome."""
        return self.ended_ns is not None

    @property
    def is_settled(self) -> bool:
        """True if all members that it stopped have gone on."""
        return self.has_ended and not self.unsynced and not self.pauses.open

    @property
    def is_held(self) -> bool:
        """True if a hold keeps it in its phase."""
        return self.held_in in _HOLDABLE.get(self.phase, ())

    def hold(self, state: str | None, at_ns: int) -> None:
        """Notes that a test holds the group in a state from now on; None: in none."""
        was_held = self.is_held
        piece = self._piece(at_ns, "released" if was_held else "held")
        self.held_in = state
        if self.is_held != was_held:
            self.pieces.end(*piece)

    def is_mine(self, event: Event) -> bool:
        """Returns whether an event belongs to the generation that it started.

        Each completed join phase starts a generation. So if the number is another one,
        the end of this rebalance is among the missing events.
        """
        number = event.get("generation")
        return number is None or number == self.opening.generation + 1

    # -- the join phase

    def came(self, member_id: str, at_ns: int, owned: int | None) -> None:
        """Notes that a member's JoinGroup was accepted."""
        self.pauses.begin(member_id, at_ns, owned)
        if member_id in self.missing:
            if not (self.is_initial or self.is_held):
                self.pieces.end("join", at_ns, "joined", member_id)
                self.held_back(at_ns, owned)
            del self.missing[member_id]

    def held_back(self, at_ns: int, owned: int | None) -> None:
        """Notes that a member did not rejoin for long: its application did not poll."""
        waited_ns = at_ns - self.opening.started_ns
        if owned and waited_ns >= SLOW_TO_JOIN_NS:
            self.unprocessed_ns += waited_ns * owned

    def went(self, member_id: str, at_ns: int, how: Gone | None) -> None:
        """Notes that a member is gone; `how` is None for a pending member."""
        self.pauses.end(member_id, at_ns, "gone")
        self.unsynced.discard(member_id)
        if not self.is_joining:
            return
        if how is not None:
            self.opening.departures[member_id] = how
        if member_id in self.missing:
            if not (self.is_initial or self.is_held):
                self.pieces.end("join", at_ns, "gone", member_id)
            del self.missing[member_id]

    def extended(self, at_ns: int) -> None:
        """Notes that the next window of the initial delay begins."""
        self.pieces.end("initial_delay", at_ns, "extended", missing=self.missing)

    def timed_out(self, member_id: str, at_ns: int) -> None:
        """Notes that a member missed the join phase, which waited for it."""
        self.latecomers.append(member_id)
        self.pieces.end("join", at_ns, "rebalance_timeout", missing=self.missing)

    def replace(self, old: str, new: str) -> None:
        """Gives a static member its new id."""
        self.missing = {new if each == old else each: None for each in self.missing}
        if old in self.unsynced:
            self.unsynced.remove(old)
            self.unsynced.add(new)

    def join_completed(self, event: Event, at_ns: int) -> None:
        """The join phase is over."""
        self.completed = event
        self.waits = waits(event)
        self.pieces.end(*self._piece(at_ns, str(event.get("cause"))))
        self.joined_ns = at_ns
        self.generation = event.get("generation")
        self.unsynced = {*(event.get("members") or ())}
        self.phase = Phase.SYNCING
        if not self.unsynced:
            self.end(at_ns, Outcome.EMPTIED)

    def join_ended_unseen(self, event: Event, at_ns: int) -> None:
        """Notes an assignment whose join phase had an unseen end."""
        self.is_whole = False
        joined_ns = at_ns - int(event.get("duration_ns") or 0)
        self.joined_ns = max(joined_ns, self.pieces.at_ns)
        self.pieces.end(UNSEEN, self.joined_ns, UNSEEN, missing=self.missing)
        self.completed = {k: event.get(k) for k in ("protocol", "leader")}
        self.generation = event.get("generation")
        self.phase = Phase.SYNCING

    def _piece(
        self, at_ns: int, ended_by: str
    ) -> tuple[str, int, str, str | None, Iterable[str]]:
        """The current piece, as arguments of `Pieces.end`."""
        if self.is_held:
            return "held", at_ns, ended_by, None, self.missing
        if self.is_joining:
            what = "initial_delay" if self.is_initial else "join"
            if ended_by == "target_due":
                what = "target"
            return what, at_ns, ended_by, None, self.missing
        return "sync", at_ns, ended_by, self.completed.get("leader"), self.missing

    # -- the sync phase, and after

    def assignment_made(self, event: Event, at_ns: int) -> None:
        """The leader has sent the assignment."""
        self.assigned = event
        self.end(at_ns, Outcome.COMPLETED)

    def end(self, at_ns: int, outcome: Outcome) -> None:
        """Sets its outcome; does nothing if it has one."""
        if self.has_ended:
            return
        ended_by = "synced" if outcome is Outcome.COMPLETED else outcome.value
        self.pieces.end(*self._piece(at_ns, ended_by))
        self.ended_ns = at_ns
        self.outcome = outcome
        self.phase = Phase.SETTLING
        if outcome is not Outcome.COMPLETED:
            self.unsynced.clear()

    def synced(self, member_id: str, at_ns: int) -> None:
        """Notes that a member got its assignment."""
        # Even if this made no generation: after a move of the coordinator, the member
        # may find its old generation there, and go on in it.
        self.pauses.end(member_id, at_ns, "synced")
        self.unsynced.discard(member_id)

    def seal(self, ownership: Ownership) -> None:
        """Notes the kept partitions, before owners change again."""
        if self.shares.kept is not None or self.outcome is not Outcome.COMPLETED:
            return
        if not ownership.is_known:
            return  # not consumers, or no assignment of theirs was ever seen
        self.shares.seal(ownership)

    # -- the value

    def account(
        self,
        group: str,
        membership: Membership,
        unread: tuple[Unread, ...],
        until_ns: int,
    ) -> Account:
        """The account; of a rebalance in progress, up to `until_ns`."""
        ended_ns, pieces = self.ended_ns, [*self.pieces.rows]
        if ended_ns is None:
            ended_ns = max(until_ns, self.pieces.at_ns)
            pieces += self.pieces.last(*self._piece(ended_ns, self.outcome.value))
        opening, event, completed = self.opening, self.opening.event, self.completed
        protocol = completed.get("protocol")
        leader = completed.get("leader")
        led = self.leadership if self.leadership.leader == leader else Leadership()
        first = opening.culprits[0] if opening.culprits else None
        culprit = membership.members.get(first or "")
        members = _listed(completed, "members")
        pauses = self.pauses.rows_until(until_ns)
        eager = {
            member_id: membership.is_eager(member_id, protocol)
            for member_id in {*members, *(row.member_id for row in pauses)}
        }
        shares = self.shares
        return Account(
            run=str(event["run"]),
            node=int(event["node"]),
            group=group,
            generation=self.generation,
            member_id=first,
            instance_id=culprit.instance_id if culprit else event.get("instance_id"),
            client_id=culprit.client_id if culprit else event.get("client_id"),
            host=culprit.host if culprit else event.get("host"),
            cause=opening.cause,
            reason=opening.reason,
            started_sequence=int(event["sequence"]),
            previous_state=str(event.get("previous_state") or ""),
            previous_generation=opening.generation,
            culprits=opening.culprits,
            departures=tuple(Departure(*row) for row in opening.departures.items()),
            returns=tuple(self.returns),
            silent_ns=opening.silent_ns,
            is_second_half=opening.is_second_half,
            is_same_offer=opening.is_same_offer,
            outcome=self.outcome,
            started_ns=opening.started_ns,
            joined_ns=self.joined_ns,
            ended_ns=ended_ns,
            settled_ns=until_ns if self.settled_ns is None else self.settled_ns,
            join_ended_by=completed.get("cause"),
            pieces=tuple(pieces),
            waits=self.waits,
            expected=opening.expected,
            members=members,
            gained=_listed(completed, "gained"),
            lost=_listed(completed, "lost"),
            latecomers=tuple(self.latecomers),
            missing=() if self.joined_ns is not None else tuple(self.missing),
            refused=tuple(self.refused),
            protocol=protocol,
            leader=leader,
            leader_cause=led.cause,
            previous_leader=led.previous_leader,
            is_eager=_any([eager[m] for m in members]),
            bytes=self.assigned.get("bytes"),
            metadata_bytes=self.assigned.get("metadata_bytes"),
            pauses=tuple(
                row
                for row in pauses
                if row.count == 0 or eager[row.member_id] is not False
            ),
            moves=shares.moves(),
            kept=shares.kept,
            given_up=shares.given_up(),
            unread=unread,
            unprocessed_ns=self.unprocessed_ns,
            is_whole=self.is_whole,
            is_ownership_whole=shares.is_whole,
        )


def _listed(completed: Event, name: str) -> tuple[str, ...]:
    return tuple(completed.get(name) or ())


def _any(known: list[bool | None]) -> bool | None:
    """True if one is; None if any is unknown."""
    if True in known:
        return True
    return None if None in known or not known else False


def waits(completed: Event) -> tuple[Wait, ...]:
    """The rows of a ``join_completed``."""
    rows: Iterable[Mapping[str, Any]] = completed.get("waits") or ()
    return tuple(
        Wait(r["member_id"], int(r["waited_ns"]), bool(r["came"]), r.get("told_ns"))
        for r in rows
    )
