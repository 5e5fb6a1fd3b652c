"""The facts that events tell of a group: values, from which findings are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohort.broker.events.account import Account
from kohort.broker.events.account.membership import Life, Member
from kohort.broker.events.account.values import Return, Unread


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was refused.

    Attributes:
        at_ns: when.
        sequence: of the event.
        member_id: the member id in the request; "" for none.
        member: the client that sent it, as far as the event says.
        error: the error's name.
        cause: of a JoinGroup, as ``member_refused`` has it; "commit" for a commit.
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
    """A static member that came back under a new id (KIP-345).

    Attributes:
        at_ns: when.
        sequence: of the event.
        instance_id: which static member.
        old: its old member id.
        new: its new one.
        silent_ns: how long the broker had not heard of the old one; None: not known.
    """

    at_ns: int
    sequence: int
    instance_id: str
    old: str
    new: str
    silent_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts of a group.

    Attributes:
        group: its id.
        since_ns: its first event; None: it has none.
        until_ns: its last, or now, where that is known.
        since_generation: the generation at which its events begin. Above 0: nothing is
            known of the time before.
        rebalances: the account of each, in order; the last one may be under way.
        unread_since: partitions without a reader that no account has yet: a static
            member that came back without a rebalance, or an Empty group.
        members: by id, all that were ever seen.
        lives: of member ids, in order of their beginnings.
        returns: of the processes of members that went, by the ids of those.
        refusals: of JoinGroups and commits, in order.
        too_large: records that the log refused, in order.
        replacements: of static members, in order.
        unused_ids: (when, sequence, id) of pending members that never joined.
        initial_delays_ms: the lengths of initial windows that were seen.
        owned: how many partitions each of the present members has; None: not known.
        gaps: (first, last) sequences of events that are missing.
        set_back_ns: how far the clock was set back, at most: durations around that
            are too short. A broker's own never is.
        events: how many events of the group there are.
    """

    group: str
    since_ns: int | None
    until_ns: int | None
    since_generation: int
    rebalances: Sequence[Account]
    unread_since: Sequence[Unread]
    members: Mapping[str, Member]
    lives: Sequence[Life]
    returns: Mapping[str, Return]
    refusals: Sequence[Refusal]
    too_large: Sequence[TooLarge]
    replacements: Sequence[Replacement]
    unused_ids: Sequence[tuple[int, int, str]]
    initial_delays_ms: Sequence[int]
    owned: Mapping[str, int] | None
    gaps: Sequence[tuple[int, int]]
    set_back_ns: int
    events: int
