"""The passages of readers through a partition, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from kohort.broker.events.delivery.segments import END
from kohort.broker.notice import Client

MOST_ROWS: Final = 1_000
"""Rows of a kind per partition; the earliest go."""
CLOSING_NS: Final = 100_000_000
"""Time from a commit to LeaveGroup up to which the commit is part of the close. It
takes 1 to 3 ms, and more on a busy machine."""
STEADY: Final = 3
"""Commits of a member from which its steps are known."""
DROPPABLE: Final = 3
"""Responses after a rebalance from which on a client drops nothing because of it."""
DROPPABLE_ON_ERROR: Final = 2
"""The same, of the response with an error: kafkajs drops its other partitions."""

PAUSED: Final = "paused"
REVOKED: Final = "revoked"
LEFT: Final = "left"
REPLACED: Final = "replaced"
IN_REBALANCE: Final = frozenset({PAUSED, REVOKED})
ORDERLY: Final = frozenset({PAUSED, REVOKED, LEFT})


class Seen(NamedTuple):
    """A range of offsets that a member received.

    Attributes:
        reader: its member id; "": from before the account.
        is_handled: whether an offset above it was committed, or a commit refused.
    """

    reader: str
    is_handled: bool


@dataclass(slots=True, eq=False)
class Repeat:
    """Offsets received again: `Again`, not counted yet."""

    first: int
    end: int
    seen: Seen
    reason: str
    reader: str
    wall_ns: int
    told: int | None = None
    """The end of what an event has told already."""


@dataclass(slots=True, eq=False)
class Gap:
    """Offsets skipped: `Skipped`, not counted yet."""

    first: int
    end: int
    reason: str
    reader: str
    wall_ns: int
    is_told: bool = False
    """Whether an event has told it."""


@dataclass(slots=True, eq=False)
class Release:
    """The end of a passage.

    Attributes:
        member_id: the reader.
        how: `PAUSED` (it joined, and is eager), `REVOKED`, or how the member went.
        wall_ns: when.
        committed: the group's offset then, or after a later commit of the member.
        start: the first offset that it asked for.
        received: the offset behind the last record that it received.
        after_departure: whether a member that left began the rebalance.
        gave_back: whether it committed as it released the partition.
        repeated: offsets that the next reader received again.
    """

    member_id: str
    how: str
    wall_ns: int
    committed: int | None
    start: int
    received: int
    after_departure: bool = False
    gave_back: bool = False
    repeated: int = 0


@dataclass(slots=True, eq=False)
class Passage:
    """A member reads the partition, from an offset on.

    Attributes:
        member_id: the member.
        client: its connection.
        start: the first offset that it asked for.
        position: the offset behind the last record that it received.
        sent: the end of a response that it may not have read yet.
        sent_ns: when the last records were sent.
        reason: why it received records again, if it does.
        release: its end; None: it goes on.
        has_learnt: whether the member knows of that.
        claimed: the offset of its last commit.
        is_unread: whether the connection broke before it had read the last response.
        droppable: while above 0, records that it has received may be dropped, and
            asked for again: librdkafka drops what it has fetched ahead of partitions
            that a cooperative rebalance leaves to it, kafkajs a response with an error
            for another partition.
        dropped: the offset that it asked for when it had dropped records; until it asks
            for a later one, it may do that again. -1: none.
    """

    member_id: str
    client: Client
    start: int
    position: int
    sent: int
    reason: str
    release: Release | None = None
    has_learnt: bool = False
    sent_ns: int = 0
    claimed: int | None = None
    is_unread: bool = False
    droppable: int = 0
    dropped: int = -1

    @property
    def done(self) -> int:
        """The offset up to which it has handled everything, according to itself."""
        return self.start if self.claimed is None else self.claimed

    def claim(self, offset: int) -> int:
        """Notes a commit; returns its distance from the one before."""
        step = max(offset - self.done, 0)
        self.claimed = offset
        return step


class Pace:
    """The distances between a member's commits, in offsets of all partitions.

    A service that commits at regular distances may have handled more since. One whose
    last commit is nearer has committed because it had to stop.

    Attributes:
        claims: the number of commits, without those in rebalances.
        least, most: the distances of these, before the last commit.
        last: the distance of the last commit.
        last_ns: the time of it.
        is_transactional: whether its group commits in transactions: an abort undoes
            what it has not committed.
    """

    __slots__ = (
        "_is_regular",
        "claims",
        "is_transactional",
        "last",
        "last_ns",
        "least",
        "most",
    )

    def __init__(self) -> None:
        self.claims = 0
        self.least = END
        self.most = 0
        self.last = 0
        self.last_ns = 0
        self.is_transactional = False
        self._is_regular = False

    def claim(self, step: int, wall_ns: int, *, in_rebalance: bool) -> None:
        """Notes a commit."""
        if self._is_regular and self.last:
            self.least = min(self.least, self.last)
            self.most = max(self.most, self.last)
        self.last = step
        self.last_ns = wall_ns
        self._is_regular = not in_rebalance
        self.claims += self._is_regular

    @property
    def is_usual(self) -> bool:
        """Whether the last commit was one of many, as far as its distance shows."""
        return 0 < self.most <= self.last

    @property
    def step(self) -> int | None:
        """The distance of all commits; None if they differ, or are too few."""
        if self.claims < STEADY or self.least != self.most:
            return None
        return max(self.most, self.last)
