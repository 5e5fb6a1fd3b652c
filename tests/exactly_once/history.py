"""The history of a run: what each client sent, and what it got, in one order.

All clients are tasks of one event loop, so the order of the events is one of time: an
event of a request is added before its first byte is written, one of a response after
its last byte was read.

Every record has a distinct value, which tells its transaction, its number in there and,
in the output of a worker, the place of its input.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Place = tuple[str, int]
"""Topic and partition."""
Records = Sequence[tuple[int, bytes]]
"""Offset and value of each."""


class Outcome(enum.Enum):
    """The end of a transaction, as far as its producer knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # or refused, before any attempt to commit was lost
    UNKNOWN = "unknown"  # an attempt to commit has no response


class Value(NamedTuple):
    """The content of a record.

    Attributes:
        transaction: number of the transaction.
        number: of the record in the transaction.
        source: partition and offset of the input, for the output of a worker.
    """

    transaction: int
    number: int
    source: tuple[int, int] | None = None

    def encode(self) -> bytes:
        """The bytes of the record's value."""
        text = f"{self.transaction}/{self.number}"
        if self.source is not None:
            text += "<{}@{}".format(*self.source)
        return text.encode()

    @classmethod
    def decode(cls, value: bytes) -> Value:
        """The content of these bytes."""
        head, _, tail = value.decode().partition("<")
        transaction, number = map(int, head.split("/"))
        if not tail:
            return cls(transaction, number)
        partition, offset = map(int, tail.split("@"))
        return cls(transaction, number, (partition, offset))


class Initialized(NamedTuple):
    """A producer got its id and epoch; earlier instances of its id are fenced.

    Instances are numbered in the order of these events.
    """

    transactional_id: str
    instance: int


class Began(NamedTuple):
    """A producer begins a transaction."""

    transaction: int
    transactional_id: str
    instance: int


class Sent(NamedTuple):
    """A batch will be sent, perhaps repeatedly."""

    transaction: int
    place: Place
    values: tuple[bytes, ...]


class Acked(NamedTuple):
    """A batch was appended; `offset` is -1 if the response has none."""

    transaction: int
    place: Place
    offset: int
    values: tuple[bytes, ...]


class Staged(NamedTuple):
    """Offsets will be committed in a transaction, by partition of the input."""

    transaction: int
    offsets: tuple[tuple[int, int], ...]


class Asked(NamedTuple):
    """A commit will be requested."""

    transaction: int


class Ended(NamedTuple):
    """The producer is done with a transaction."""

    transaction: int
    outcome: Outcome


class Sought(NamedTuple):
    """A reader continues elsewhere."""

    reader: str
    place: Place
    offset: int


class Polled(NamedTuple):
    """A reader got the records from `position` up to, without, `after`."""

    reader: str
    is_committed: bool
    place: Place
    position: int
    after: int
    records: Records


class OffsetRead(NamedTuple):
    """A client got a committed offset of the group; -1 for none."""

    reader: str
    partition: int
    offset: int


class Complaint(NamedTuple):
    """A response that no correct broker gives."""

    text: str


Event = (
    Initialized
    | Began
    | Sent
    | Acked
    | Staged
    | Asked
    | Ended
    | Sought
    | Polled
    | OffsetRead
    | Complaint
)


class Log(NamedTuple):
    """A partition at the end: the records of both isolation levels."""

    committed: Records
    everything: Records


class History:
    """Collects the events of a run.

    Attributes:
        events: in their order.
        begun: number of transactions so far.
        ended: number of transactions by outcome.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.begun = 0
        self.ended = dict.fromkeys(Outcome, 0)
        self._instances = 0

    def add(self, event: Event) -> None:
        """Adds an event."""
        self.events.append(event)

    def initialize(self, transactional_id: str) -> int:
        """Adds `Initialized`; returns the number of the instance."""
        self._instances += 1
        self.add(Initialized(transactional_id, self._instances))
        return self._instances

    def begin(self, transactional_id: str, instance: int) -> int:
        """Adds `Began`; returns the number of the transaction."""
        self.begun += 1
        self.add(Began(self.begun, transactional_id, instance))
        return self.begun

    def end(self, transaction: int, outcome: Outcome) -> None:
        """Adds `Ended`."""
        self.ended[outcome] += 1
        self.add(Ended(transaction, outcome))

    def save(self, path: Path) -> None:
        """Writes one event per line."""
        with path.open("w") as file:
            file.writelines(f"{event}\n" for event in self.events)
