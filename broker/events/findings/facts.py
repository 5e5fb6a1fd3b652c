"""Facts about a group from its events: values that findings are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohort.broker.events.account import Account, UnreadAccount
from kohort.broker.events.account.membership import Life, Member
from kohort.broker.events.account.values import Partition, Return, Unread
from kohort.broker.events.findings.finding import Finding
from kohort.broker.events.findings.transaction_history import (
    Fenced,
    ObservedTransaction,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was refused.

    Attributes:
        at_ns: when.
        sequence: of the event.
        member_id: the member id in the request; "" for none.
        member: the client that sent it, as far as the event says.
        error: the error's name.
        cause: of a JoinGroup, as ``member_refused`` has it; "fenced" for a heartbeat,
            too; "commit" for a commit.
        generation: the group's.
        connection: the number of the connection that it came in on; None: not known.
        sender: the last member on that connection; None: not known.
    """

    at_ns: int
    sequence: int
    member_id: str
    member: Member
    error: str
    cause: str
    generation: int | None
    connection: int | None = None
    sender: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit of a partition that another member owned.

    Attributes:
        at_ns: when.
        sequence: of the event.
        generation: the group's.
        member_id: the member that committed.
        owner: the partition's owner.
        partition: the partition.
        offset: the committed offset.
    """

    at_ns: int
    sequence: int
    generation: int | None
    member_id: str
    owner: str
    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class LooseOffsets:
    """Offsets of a transaction that named no member, while the group had members.

    Attributes:
        at_ns: when.
        sequence: of the event.
        generation: the group's.
        client_id: the client that sent them; "" if unknown.
        producer_id: its producer.
    """

    at_ns: int
    sequence: int
    generation: int | None
    client_id: str
    producer_id: int


@dataclass(frozen=True, slots=True)
class TooLarge:
    """Records of the group that the log refused.

    Attributes:
        at_ns: when.
        sequence: of the event.
        what: "group" for the record of its members, "offsets" for a commit.
        generation: the group's.
        size_bytes: of the records; None: not known.
        max_bytes: the most that the log takes; None: not known.
    """

    at_ns: int
    sequence: int
    what: str
    generation: int | None
    size_bytes: int | None
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that rejoined with a new member id (KIP-345).

    Attributes:
        at_ns: when.
        sequence: of the event.
        instance_id: which static member.
        old: its old member id.
        new: its new one.
        silent_ns: time since the last request of the old one; None: unknown.
    """

    at_ns: int
    sequence: int
    instance_id: str
    old: str
    new: str
    silent_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """A change of the group's protocol, as in ``group_converted``.

    Attributes:
        at_ns: when.
        sequence: of the event.
        cause: see `kohort.broker.events.words.CONVERSIONS`.
        group_type: the protocol from then on.
        member_id: the member that caused it; None if it had no id yet.
    """

    at_ns: int
    sequence: int
    cause: str
    group_type: str
    member_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """A commit below the committed offset, as in ``offsets_went_back``."""

    at_ns: int
    sequence: int
    generation: int | None
    cause: str
    member_id: str | None
    client_id: str | None
    topic: str
    partition: int
    previous: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Records sent again: a row ``again`` of a ``delivery_account``."""

    at_ns: int
    sequence: int
    generation: int | None
    topic: str
    partition: int
    first: int
    records: int
    is_certain: bool
    previous_reader: str | None
    reader: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Records that no member was sent: a row ``skip`` of a ``delivery_account``."""

    at_ns: int
    sequence: int
    generation: int | None
    topic: str
    partition: int
    end: int
    records: int
    reader: str
    reason: str


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault of the plan that struck a request, or a connection.

    Attributes:
        at_ns: when.
        sequence: of the event.
        fault: the rule's name, or `fault` and its number.
        fault_id: the rule's number.
        effect: as in ``fault_struck``.
        api: the request's; None: all of a connection.
        error: that it was answered with, if the effect is an error.
        member_id: the member that sent it; None: not known.
        client_id: the client that sent it.
    """

    at_ns: int
    sequence: int
    fault: str
    fault_id: int
    effect: str
    api: str | None
    error: str | None
    member_id: str | None
    client_id: str

    @property
    def sort(self) -> tuple[object, ...]:
        """Key of equal strikes: the same rule, API and sender."""
        who = self.member_id or self.client_id
        return self.fault_id, self.effect, self.api, self.error, who


@dataclass(frozen=True, slots=True)
class Advance:
    """An advance of the clock.

    Attributes:
        at_ns: its begin.
        sequence: of the event.
        until_ns: the time to which the clock was moved.
        credits_heartbeats: whether connected members counted as heard from.
    """

    at_ns: int
    sequence: int
    until_ns: int
    credits_heartbeats: bool

    @property
    def duration_ns(self) -> int:
        """The time that it skipped."""
        return self.until_ns - self.at_ns


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a test or an operator.

    Attributes:
        at_ns: when.
        sequence: of the event.
        cause: as in ``commanded``.
        max_size: of a limit; None: group.max.size counts again.
    """

    at_ns: int
    sequence: int
    cause: str
    max_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts of a group.

    Attributes:
        group: its id.
        since_ns: its first event; None: it has none.
        until_ns: its last, or now, where that is known.
        since_generation: the generation at which its events begin. Above 0: nothing is
            known of the time before.
        rebalances: the account of each, in order; the last one may be in progress.
        quiet: partitions without a reader outside of rebalances: a static member that
            came back without one, or gaps that the broker's stop has ended.
        unread_since: partitions without a reader that no account has yet: a group that
            is Empty, or lost a member after its last rebalance.
        members: by id, all that were ever seen.
        lives: of member ids, in order of their beginnings.
        returns: of the processes of members that went, by the ids of those.
        refusals: of JoinGroups and commits, in order.
        foreign_commits: of partitions of other members, in order: one for each commit.
        loose_offsets: those of transactions that named no member, in order.
        too_large: records that the log refused, in order.
        replacements: of static members, in order.
        conversions: of the group to the other protocol, in order.
        rewound: commits below the committed offset, in order.
        repeated: records that were sent again, in order.
        skips: records that no member was sent, in order.
        strikes: of faults at its members, in order.
        advances: of the clock, in order.
        commands: about the group, in order.
        ended_by_test: members that are gone because of a command, a fault or the moved
            clock.
        of_test: keys of rebalances that a test caused, or made longer.
        transactions: those with its partitions or offsets that are open, were open for
            long, or did not end well.
        fenced: refused requests of their producers, in order.
        partitions: all partitions that its members owned, or that it has committed.
        waiting: records behind the last stable offset, by partition, as far as known.
        unused_ids: (when, sequence, id) of pending members that never joined.
        initial_delays_ms: the lengths of initial windows that were seen.
        owned: how many partitions each of the present members has; None: not known.
        owned_topics: number of topics of these partitions; 0: not known.
        gaps: (first, last) sequences of events that are missing.
        set_back_ns: the largest step by which the clock was set back: durations around
            it are too short. A broker's own clock is never set back.
        events: the number of events of the group.
        found: findings that the stream carries, by key; None: it was withdrawn.
    """

    group: str
    since_ns: int | None
    until_ns: int | None
    since_generation: int
    rebalances: Sequence[Account]
    quiet: Sequence[UnreadAccount]
    unread_since: Sequence[Unread]
    members: Mapping[str, Member]
    lives: Sequence[Life]
    returns: Mapping[str, Return]
    refusals: Sequence[Refusal]
    foreign_commits: Sequence[ForeignCommit]
    loose_offsets: Sequence[LooseOffsets]
    too_large: Sequence[TooLarge]
    replacements: Sequence[Replacement]
    conversions: Sequence[Conversion]
    rewound: Sequence[Rewound]
    repeated: Sequence[Repeated]
    skips: Sequence[Skip]
    strikes: Sequence[Strike]
    advances: Sequence[Advance]
    commands: Sequence[Command]
    transactions: Sequence[ObservedTransaction]
    fenced: Sequence[Fenced]
    partitions: frozenset[Partition]
    waiting: Mapping[Partition, int]
    unused_ids: Sequence[tuple[int, int, str]]
    initial_delays_ms: Sequence[int]
    owned: Mapping[str, int] | None
    owned_topics: int
    gaps: Sequence[tuple[int, int]]
    set_back_ns: int
    events: int
    found: Mapping[str, Finding | None]
    ended_by_test: frozenset[str] = frozenset()
    of_test: frozenset[str] = frozenset()

    def conversions_of(self, rebalance: Account) -> list[Conversion]:
        """The conversions in the turn that started a rebalance: just before it."""
        at_ns, until = rebalance.started_ns, rebalance.started_sequence
        found = [c for c in self.conversions if c.at_ns == at_ns and c.sequence < until]
        if not found:
            return []
        starts = (r.started_sequence for r in self.rebalances if r.started_ns == at_ns)
        since = max((each for each in starts if each < until), default=0)
        return [each for each in found if each.sequence > since]

    @property
    def is_consumer(self) -> bool:
        """True if its last rebalance was one of a consumer group (KIP-848)."""
        return bool(self.rebalances) and self.rebalances[-1].group_type == "consumer"
