"""What is known of a group once its events are folded: values, and nothing that acts.

All times are the broker's clock (`time_ns` of events), in ns since the epoch, and
never run back within a group. All durations are in ns and differences of those, so
that pieces of a duration add up to it exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Event = Mapping[str, Any]
"""One event: a JSON object as `kohort.broker.events.schema` has it."""

Partition = tuple[str, int]
"""(topic, partition)."""


class Outcome(StrEnum):
    """How a rebalance ended."""

    COMPLETED = "completed"
    """The leader's assignment came: the group was Stable."""
    EMPTIED = "emptied"
    """Nobody was left in it: the group was Empty."""
    INTERRUPTED = "interrupted"
    """Another rebalance began before the leader's assignment came."""
    MOVED = "moved"
    """Another coordinator loaded the group before it was over."""
    CUT = "cut"
    """The broker was stopped before it was over; its end is the last that was seen
    of it."""
    UNSEEN = "unseen"
    """It ended among events that are missing; its end is the last before those."""
    UNDER_WAY = "under_way"
    """The events end before it does; its end is the group's last event, or now."""


class Gone(StrEnum):
    """How a member went."""

    LEFT = "left"
    REMOVED = "removed"
    EXPIRED = "expired"
    KICKED = "kicked"
    REPLACED = "replaced"
    UNSEEN = "unseen"
    """A generation, or a coordinator that loaded the group, does not have it."""


@dataclass(frozen=True, slots=True)
class Member:
    """Who a member id stands for, as far as events say.

    Attributes:
        member_id: as the coordinator gave it out.
        instance_id: its group.instance.id; None for a dynamic member.
        client_id: its client.id; of an id that no event names it for, what stands
            before the UUID in the id.
        host: its host as Kafka shows it.
        session_timeout_ms: as of its last JoinGroup; None where events do not say.
        protocols: the assignors that it supports, likewise.
        topics: what it subscribes to, likewise.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    session_timeout_ms: int | None = None
    protocols: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None

    @property
    def process(self) -> tuple[str, str]:
        """What stays when the process is restarted: an instance id, or client and host.

        Two processes of the same client id on one host look the same here.
        """
        if self.instance_id is not None:
            return ("instance", self.instance_id)
        return (self.client_id, self.host)


@dataclass(frozen=True, slots=True)
class Life:
    """A member id's time in the group.

    Attributes:
        member_id: whose.
        since_ns: its first JoinGroup; None: before the events begin.
        until_ns: when it went; None: it is there.
        how: how it went.
        reason: what it said (KIP-800).
        until_sequence: of the event that says it is gone.
    """

    member_id: str
    since_ns: int | None
    until_ns: int | None = None
    how: Gone | None = None
    reason: str | None = None
    until_sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A piece of a rebalance's time; the pieces follow each other without gaps.

    Attributes:
        what: ``initial_delay`` (for members that may still come, KIP-134), ``join``
            (for members that are to rejoin, and ids that are to be used), ``sync``
            (for the leader's assignment), ``unseen`` (the end of the join phase is
            among events that are missing).
        since_ns: its start.
        until_ns: its end.
        ended_by: ``joined``, ``gone``, ``all_joined``, ``rebalance_timeout``,
            ``initial_delay``, ``extended``, ``synced``, or an `Outcome`.
        member_id: who came or went, in ``join``; the leader, in ``sync``.
        missing: who had not come, where nobody's coming ended it.
    """

    what: str
    since_ns: int
    until_ns: int
    ended_by: str
    member_id: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def duration_ns(self) -> int:
        """How long."""
        return self.until_ns - self.since_ns


@dataclass(frozen=True, slots=True)
class StandStill:
    """How long a member did not work because of one rebalance.

    Of an eager member: from its JoinGroup, before which it has revoked all that it
    owned, to its SyncGroup's answer. The broker sees neither the revocation, which is
    a little earlier, nor the first fetch, which is a little later. A cooperative
    member goes on with what it keeps: it has no row, and what it gives up stands
    still by itself (see `Move`). If it is gone, or if another rebalance begins first,
    the row ends there; the other rebalance's goes on. Where events are missing it
    ends with the last one before, as ``unseen``: it may have been longer.

    Attributes:
        member_id: whose.
        since_ns: its start.
        until_ns: its end.
        partitions: how many it owned before. 0: a newcomer that waited for its first
            assignment, or one that had none: nothing stood still. None: a member from
            before the events begin, or before a gap; taken for one that had some.
        ended_by: ``synced``, ``gone``, ``rebalance``, or ``unseen``.
    """

    member_id: str
    since_ns: int
    until_ns: int
    partitions: int | None
    ended_by: str

    @property
    def duration_ns(self) -> int:
        """How long."""
        return self.until_ns - self.since_ns


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that came to a member that did not have it.

    Attributes:
        partition: which.
        source: the member that had it last; None: nobody that events know of.
        target: the member that has it now.
        returned: its process (see `Member.process`) had it already, before the one
            that had it last: the partition has gone away and come back.
        idle_ns: how long it stood still: from when its last owner let go of it (see
            `StandStill`; a member that is gone: when it went; a cooperative one: when
            it was told to give it up) to the new owner's SyncGroup. None where either
            is not known.
    """

    partition: Partition
    source: str | None
    target: str
    returned: bool = False
    idle_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """What a rebalance did to the partitions.

    Attributes:
        moved: partitions that went from a member to another.
        first: partitions that nobody had before.
        kept: partitions whose owner is the same, by owner. Eager members had let go of
            them: they came back. Cooperative ones have worked on.
        given_up: partitions that were taken from a member, and that nobody has yet:
            the first half of a cooperative rebalance.
        is_whole: False: events from before are missing. Then somebody may have had
            what is in `first`, and members that events have not told of are not in
            `kept`.
    """

    moved: tuple[Move, ...] = ()
    first: tuple[Move, ...] = ()
    kept: Mapping[str, tuple[Partition, ...]] = field(default_factory=dict)
    given_up: tuple[tuple[Partition, str], ...] = ()
    is_whole: bool = True

    @property
    def kept_count(self) -> int:
        """How many partitions have the same owner as before."""
        return sum(map(len, self.kept.values()))

    @property
    def total(self) -> int:
        """How many partitions it is about."""
        count = len(self.moved) + len(self.first) + len(self.given_up)
        return count + self.kept_count

    @property
    def longest_idle_ns(self) -> int | None:
        """How long a partition that moved stood still, at most; None: not known."""
        return max(
            (move.idle_ns for move in self.moved if move.idle_ns is not None),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance of a group.

    Attributes:
        run: which start of the broker.
        node: the coordinator.
        sequence: of the event that it began with.
        previous_generation: the one that it ended.
        generation: the one that it made; None: it made none.
        previous_state: the group's state before.
        cause: as `kohort.broker.events.schema` has it at ``rebalance_started``;
            None: it began before the events do.
        culprits: whose doing it is.
        reason: what they said (KIP-800); None: nothing.
        departures: how those went that did so by it, or while it waited for joins.
        silent_ns: of a session that expired, how long nothing was heard.
        is_second_half: a cooperative member has given up partitions, and joins again
            to have them divided (KIP-429): nothing new has happened.
        is_same_offer: of those that rejoined with other metadata, whether their
            assignors and topics are as before; None: not known, or another cause.
        expected: who was to join.
        members: the generation's; empty where it made none.
        gained: who is new in it.
        lost: who is not in it any more.
        refused: whose JoinGroup was refused meanwhile: (member id or client id, cause).
        latecomers: who was taken out because they missed the join phase.
        missing: who had not come by its end, where its join phase was not over.
        protocol: the assignor's name.
        leader: who divides.
        is_eager: members let go of all they own to join; None: not known.
        started_ns: its start.
        joined_ns: the end of its join phase; None: there was none.
        ended_ns: its end, see `outcome`.
        outcome: how it ended.
        ended_wait: what ended the join phase; the causes of ``join_completed``.
        waits: the pieces of its duration, in order.
        waited_for: the broker's own account: (member id, ns from the start to its
            JoinGroup, whether it came).
        stand_stills: of members that let go of what they had, or had nothing yet.
        moves: partitions; None where assignments are not the consumer protocol's.
        is_whole: no event of it is known to be missing.
    """

    run: str
    node: int
    sequence: int
    previous_generation: int
    generation: int | None
    previous_state: str
    cause: str | None
    culprits: tuple[str, ...]
    reason: str | None
    departures: Mapping[str, Gone]
    silent_ns: int | None
    is_second_half: bool
    is_same_offer: bool | None
    expected: tuple[str, ...]
    members: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    latecomers: tuple[str, ...]
    missing: tuple[str, ...]
    protocol: str | None
    leader: str | None
    is_eager: bool | None
    started_ns: int
    joined_ns: int | None
    ended_ns: int
    outcome: Outcome
    ended_wait: str | None
    waits: tuple[Wait, ...]
    waited_for: tuple[tuple[str, int, bool], ...]
    stand_stills: tuple[StandStill, ...]
    moves: Moves | None
    is_whole: bool

    @property
    def duration_ns(self) -> int:
        """From its start to its end: the join phase and the sync phase."""
        return self.ended_ns - self.started_ns

    @property
    def join_ns(self) -> int:
        """How long members were waited for."""
        end = self.ended_ns if self.joined_ns is None else self.joined_ns
        return end - self.started_ns

    @property
    def sync_ns(self) -> int:
        """How long the leader's assignment was waited for."""
        return self.duration_ns - self.join_ns

    @property
    def stood_still_ns(self) -> int:
        """The time of all members that owned something and let go of it, together."""
        return sum(s.duration_ns for s in self.stand_stills if s.partitions != 0)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was refused.

    Attributes:
        at_ns: when.
        sequence: of the event.
        member_id: what the request called itself; "" for no id yet.
        member: who that is, as far as the event says.
        error: the error's name.
        cause: of a JoinGroup, as ``member_refused`` has it; "commit" for a commit.
        generation: the group's.
    """

    at_ns: int
    sequence: int
    member_id: str
    member: Member
    error: str
    cause: str
    generation: int | None


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that came back under a new id (KIP-345).

    Attributes:
        at_ns: when.
        sequence: of the event.
        instance_id: which static member.
        old: its old member id.
        new: its new one.
    """

    at_ns: int
    sequence: int
    instance_id: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a group.

    Attributes:
        group: its id.
        since_ns: its first event; None: it has none.
        until_ns: its last, or now, where that is known.
        since_generation: what the group was at when its events begin. Above 0: of
            what was before nothing is known.
        rebalances: in order.
        members: by id, all that were ever seen.
        lives: of member ids, in order of their beginnings.
        refusals: of JoinGroups and commits, in order.
        replacements: of static members, in order.
        unused_ids: (when, sequence, id) of ids that were given out and not used.
        initial_delays_ms: the lengths of initial windows that were seen.
        owned: how many partitions each of the present members has; None where that
            is not known.
        gaps: (first, last) sequences that a reader was too slow for.
        set_back_ns: how far the clock was set back, at most: durations around that
            are too short. A broker's own never is.
        events: how many events it was told from.
    """

    group: str
    since_ns: int | None
    until_ns: int | None
    since_generation: int
    rebalances: Sequence[Rebalance]
    members: Mapping[str, Member]
    lives: Sequence[Life]
    refusals: Sequence[Refusal]
    replacements: Sequence[Replacement]
    unused_ids: Sequence[tuple[int, int, str]]
    initial_delays_ms: Sequence[int]
    owned: Mapping[str, int] | None
    gaps: Sequence[tuple[int, int]]
    set_back_ns: int
    events: int
