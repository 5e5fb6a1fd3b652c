"""The account of a rebalance as a value, with the fields and rows of its event.

Attributes have the names, types and meanings that `kohort.broker.events.schema` gives
them at ``rebalance_account``; lists are tuples here, and partitions are `Parts`.

All times are the broker's clock (`time_ns` of events), in ns since the epoch, and never
run backwards within a group. All durations are differences of those, in ns, so that the
pieces of a duration add up to it exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import islice
from typing import Any, ClassVar, Final, Self

Event = Mapping[str, Any]
"""One event: a JSON object as `kohort.broker.events.schema` has it."""

Partition = tuple[str, int]
"""(topic, partition)."""

Parts = Mapping[str, tuple[int, ...]]
"""Partitions by topic, both in order."""


class Outcome(StrEnum):
    """Outcome of a rebalance: `kohort.broker.events.words.OUTCOMES`."""

    COMPLETED = "completed"
    EMPTIED = "emptied"
    INTERRUPTED = "interrupted"
    MOVED = "moved"
    CUT = "cut"
    UNSEEN = "unseen"
    UNDER_WAY = "under_way"


class Gone(StrEnum):
    """Departure of a member: `kohort.broker.events.words.DEPARTURES`."""

    LEFT = "left"
    REMOVED = "removed"
    EXPIRED = "expired"
    KICKED = "kicked"
    COMMANDED = "commanded"
    REPLACED = "replaced"
    UNSEEN = "unseen"


class Span:
    """A row with a start and an end."""

    __slots__ = ()
    since_ns: int
    until_ns: int

    @property
    def duration_ns(self) -> int:
        """From its start to its end."""
        return self.until_ns - self.since_ns


@dataclass(frozen=True, slots=True)
class Departure:
    """Row ``departure``: a member that left or was removed."""

    member_id: str
    how: Gone


@dataclass(frozen=True, slots=True)
class Return(Span):
    """Row ``return``: a process that went and came back as another member."""

    member_id: str
    previous_id: str
    how: Gone
    since_ns: int
    until_ns: int
    is_restart: bool


@dataclass(frozen=True, slots=True)
class RefusedJoin:
    """Row ``refused_join``: a JoinGroup that was refused."""

    who: str
    cause: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Row ``wait``: the wait for a member, as the coordinator measured it."""

    member_id: str
    waited_ns: int
    came: bool
    told_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Piece(Span):
    """Row ``piece``: a piece of a rebalance's duration."""

    what: str
    since_ns: int
    until_ns: int
    ended_by: str
    member_id: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pause(Span):
    """Row ``pause``: the time in which an eager member did not process records.

    It begins with the JoinGroup, before which the member has revoked all its
    partitions, and ends with SyncGroup's answer. The broker sees neither the
    revocation, which is a little earlier, nor the first fetch, which is a little later.
    """

    member_id: str
    since_ns: int
    until_ns: int
    count: int | None
    ended_by: str


@dataclass(frozen=True, slots=True)
class Step(Span):
    """Row ``step``: a step of a member of a consumer group to its target."""

    member_id: str
    what: str
    since_ns: int
    until_ns: int
    count: int
    holders: tuple[str, ...]
    ended_by: str


@dataclass(frozen=True, slots=True)
class Move:
    """Row ``move``: partitions that moved from one member to another."""

    source: str | None
    target: str
    is_return: bool
    gap_ns: int | None
    count: int
    parts: Parts


@dataclass(frozen=True, slots=True)
class Holding:
    """Row ``holding``: partitions of a member."""

    member_id: str
    parts: Parts


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Row ``log_end``: the ends of the logs of a topic's partitions."""

    topic: str
    offsets: tuple[int, ...]
    records: int


@dataclass(frozen=True, slots=True)
class Unread(Span):
    """Row ``unread``: partitions without a reader.

    The broker looks the last two up when it publishes the row: see `Accounting`.
    """

    member_id: str
    reader: str | None
    cause: str
    since_ns: int
    until_ns: int
    count: int
    parts: Parts
    records: int | None = None
    log_ends: tuple[LogEnd, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One rebalance: its cause, course, members and cost.

    The fields are those of ``rebalance_account`` in `kohort.broker.events.schema`. The
    sums among them are properties here.
    """

    kind: ClassVar[str] = "rebalance_account"

    run: str
    node: int
    group: str
    generation: int | None
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    host: str | None
    cause: str
    reason: str | None
    started_sequence: int
    previous_state: str
    previous_generation: int
    culprits: tuple[str, ...]
    departures: tuple[Departure, ...]
    returns: tuple[Return, ...]
    silent_ns: int | None
    is_second_half: bool
    is_same_offer: bool | None
    outcome: Outcome
    started_ns: int
    joined_ns: int | None
    ended_ns: int
    settled_ns: int
    join_ended_by: str | None
    pieces: tuple[Piece, ...]
    waits: tuple[Wait, ...]
    expected: tuple[str, ...]
    members: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    latecomers: tuple[str, ...]
    missing: tuple[str, ...]
    refused: tuple[RefusedJoin, ...]
    protocol: str | None
    leader: str | None
    leader_cause: str | None
    previous_leader: str | None
    is_eager: bool | None
    bytes: int | None
    metadata_bytes: int | None
    pauses: tuple[Pause, ...]
    steps: tuple[Step, ...]
    group_type: str
    moves: tuple[Move, ...] | None
    kept: tuple[Holding, ...] | None
    given_up: tuple[Holding, ...] | None
    unread: tuple[Unread, ...]
    unprocessed_ns: int
    is_whole: bool
    is_ownership_whole: bool

    @property
    def key(self) -> str:
        """Key of the rebalance: see `key_of`."""
        return _KEY.format(self.run, self.node, self.started_sequence)

    @property
    def duration_ns(self) -> int:
        """From its start to its end: the group was not Stable."""
        return self.ended_ns - self.started_ns

    @property
    def join_ns(self) -> int:
        """Time that the group waited for JoinGroups."""
        end = self.ended_ns if self.joined_ns is None else self.joined_ns
        return end - self.started_ns

    @property
    def sync_ns(self) -> int:
        """Time that the group waited for the leader's assignment."""
        return self.duration_ns - self.join_ns

    @property
    def paused_ns(self) -> int:
        """Total pauses of all members that had partitions."""
        return sum(row.duration_ns for row in self.pauses if row.count != 0)

    @property
    def unread_ns(self) -> int:
        """Partition-time without a reader, as far as it is downtime."""
        return unread_ns(self.unread)

    @property
    def unread_empty_ns(self) -> int:
        """Partition-time without a reader while the group was Empty."""
        return sum(r.duration_ns * r.count for r in self.unread if r.cause == EMPTY)

    @property
    def moved_count(self) -> int:
        """Partitions that moved from one member to another."""
        return sum(row.count for row in self.moves or () if row.source is not None)

    @property
    def first_count(self) -> int:
        """Partitions without a known previous owner."""
        return sum(row.count for row in self.moves or () if row.source is None)

    @property
    def kept_count(self) -> int:
        """Partitions that stayed with their owner."""
        return sum(count(row.parts) for row in self.kept or ())

    @property
    def given_up_count(self) -> int:
        """Partitions taken from a member that have no new owner yet."""
        return sum(count(row.parts) for row in self.given_up or ())

    @property
    def least_moved_count(self) -> int:
        """The fewest partitions that had to move for shares of these sizes.

        Counts kept and moved partitions. It does not matter which member has which
        share: the largest one before may become the largest one after.
        """
        before = dict.fromkeys(self.members, 0)
        after = dict(before)
        for holding in self.kept or ():
            size = count(holding.parts)
            for shares in (before, after):
                shares[holding.member_id] = shares.get(holding.member_id, 0) + size
        for move in self.moves or ():
            if move.source is not None:
                before[move.source] = before.get(move.source, 0) + move.count
                after[move.target] = after.get(move.target, 0) + move.count
        befores = sorted(before[each] for each in self.members)
        afters = sorted(after[each] for each in self.members)
        return sum(afters) - sum(map(min, befores, afters))

    @property
    def partition_count(self) -> int:
        """Partitions that the rebalance was about."""
        changed = self.moved_count + self.first_count + self.given_up_count
        return changed + self.kept_count

    def own_fields(self) -> dict[str, Any]:
        """The fields of its event, without those of every event."""
        return _whole(self.render)

    def render(self, made: dict[str, Any]) -> Iterator[None]:
        """Adds its `own_fields` to `made`; yields after each `ROWS` rows."""
        return _render(self, _OWN, made)

    @classmethod
    def of(cls, event: Event) -> Self:
        """Reads the account from its event."""
        # Older streams do not have these.
        known = {"unprocessed_ns": 0, "steps": [], "group_type": "classic", **event}
        return cls(**{name: _from_json(name, known.get(name)) for name in _NAMES})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadAccount:
    """Partition-time without a reader outside of rebalances.

    The fields are those of ``unread_account`` in `kohort.broker.events.schema`.
    """

    kind: ClassVar[str] = "unread_account"

    run: str
    node: int
    group: str
    generation: int | None
    cause: str
    closed_sequence: int
    unread: tuple[Unread, ...]

    @property
    def key(self) -> str:
        """Key of the account: see `key_of`."""
        return _KEY.format(self.run, self.node, f"{self.cause}/{self.closed_sequence}")

    @property
    def settled_ns(self) -> int:
        """The end of the latest row."""
        return max(row.until_ns for row in self.unread)

    @property
    def unread_ns(self) -> int:
        """Partition-time without a reader, as far as it is downtime."""
        return unread_ns(self.unread)

    @property
    def unread_empty_ns(self) -> int:
        """Partition-time without a reader while the group was Empty."""
        return sum(r.duration_ns * r.count for r in self.unread if r.cause == EMPTY)

    def render(self, made: dict[str, Any]) -> Iterator[None]:
        """Adds the fields of its event to `made`, in pieces as `Account.render`."""
        return _render(self, _OWN_UNREAD, made)

    def own_fields(self) -> dict[str, Any]:
        """The fields of its event, without those of every event."""
        return _whole(self.render)

    @classmethod
    def of(cls, event: Event) -> Self:
        """Reads the account from its event."""
        names = (each.name for each in fields(cls))
        return cls(**{name: _from_json(name, event.get(name)) for name in names})


def unread_ns(rows: Iterable[Unread]) -> int:
    """The partition-time of rows that counts as downtime."""
    return sum(r.duration_ns * r.count for r in rows if r.cause not in NOT_DOWN)


def _whole(render: Callable[[dict[str, Any]], Iterator[None]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in render(made):
        pass
    return made


def _render(
    account: Account | UnreadAccount, names: Iterable[str], made: dict[str, Any]
) -> Iterator[None]:
    for name in names:
        value = getattr(account, name)
        if name not in _ROWS or value is None:
            made[name] = _to_json(value)
            continue
        rows = made[name] = []
        left = iter(value)
        while piece := [_to_json(row) for row in islice(left, ROWS)]:
            rows += piece
            yield


def key_of(event: Event) -> str:
    """Key of an account: run, node, and the sequence of its first or last event.

    Of a rebalance its ``rebalance_started``; otherwise the event that closed the gaps.
    """
    if event["kind"] == UnreadAccount.kind:
        return UnreadAccount.of(event).key
    return _KEY.format(event["run"], event["node"], event["started_sequence"])


ROWS: Final = 10
"""Rows per step of `Account.render`: some 30 us, as long as an event takes."""

EMPTY: Final = "group_empty"
"""The cause of gaps while the group is Empty."""

WORK_ENDED: Final = "work_ended"
"""The cause of gaps after the end of a group's work: no member joined any more."""

NOT_DOWN: Final = frozenset({EMPTY, WORK_ENDED})
"""Causes of time that is no downtime."""

_KEY: Final = "{}/{}/{}"
_NAMES: Final = tuple(each.name for each in fields(Account))
_COMMON: Final = frozenset(
    {"run", "node", "group", "generation", "member_id", "instance_id", "client_id"}
    | {"host", "reason"}
)
_SUMS: Final = (
    *("duration_ns", "join_ns", "sync_ns", "paused_ns", "unread_ns", "unread_empty_ns"),
    *("moved_count", "least_moved_count", "first_count", "kept_count"),
    "given_up_count",
)
_OWN: Final = (*(name for name in _NAMES if name not in _COMMON), *_SUMS)
_OWN_UNREAD: Final = (
    "cause",
    "closed_sequence",
    "unread",
    "unread_ns",
    "unread_empty_ns",
)
_ROWS: Final[Mapping[str, type]] = {
    "departures": Departure,
    "returns": Return,
    "refused": RefusedJoin,
    "pieces": Piece,
    "waits": Wait,
    "pauses": Pause,
    "steps": Step,
    "moves": Move,
    "kept": Holding,
    "given_up": Holding,
    "unread": Unread,
}
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_NOT_SCALAR: Final = frozenset(
    {"how", "missing", "holders", "parts", "log_ends", "offsets"}
)
"""Attributes of rows that are not JSON scalars."""
_ATTRIBUTES: Final = {
    row: tuple(each.name for each in fields(row)) for row in (*_ROWS.values(), LogEnd)
}

_OLDER_NAMES: Final = {"moves": {"unread_ns": "gap_ns"}}
"""Names of attributes in older streams, by the field of the rows."""


def _to_json(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, Mapping):
        return [{"topic": t, "partitions": [*p]} for t, p in value.items()]
    made = {name: getattr(value, name) for name in _ATTRIBUTES[type(value)]}
    for name in _NOT_SCALAR & made.keys():
        made[name] = _to_json(made[name])
    return made


def _from_json(name: str, value: Any) -> Any:
    if name == "outcome":
        return Outcome(value)
    if not isinstance(value, list):
        return value
    row = _ROWS.get(name)
    if row is None:
        return tuple(value)
    names = _OLDER_NAMES.get(name, {})
    return tuple(
        row(**{names.get(k, k): _of_row(k, v) for k, v in each.items()})
        for each in value
    )


def _of_row(name: str, value: Any) -> Any:
    if name == "parts":
        return {part["topic"]: tuple(part["partitions"]) for part in value}
    if name == "how":
        return Gone(value)
    if name == "log_ends" and value is not None:
        names = ("topic", "offsets", "records")
        return tuple(LogEnd(*(_of_row(n, each[n]) for n in names)) for each in value)
    return tuple(value) if isinstance(value, list) else value


def parts(partitions: Iterable[Partition]) -> Parts:
    """Partitions by topic."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in topics.items()}


def partitions(rows: Iterable[Mapping[str, Any]] | None) -> list[Partition]:
    """The partitions in a list of ``part`` rows of an event."""
    return [(p["topic"], n) for p in rows or () for n in p["partitions"]]


def count(held: Parts) -> int:
    """The number of partitions."""
    return sum(map(len, held.values()))
