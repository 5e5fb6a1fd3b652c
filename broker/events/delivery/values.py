"""Values of the account of delivery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from kohort.broker.events.delivery_words import REASONS, SKIP_REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Records that the group was sent once more.

    Attributes:
        topic, partition: the partition.
        first, end: their offsets; `end` is the one behind them.
        records: their number, without markers and gaps.
        is_certain: the first reader, or its group, had committed an offset above them,
            or tried to. False: they were received and not committed, so the application
            may have handled them.
        is_due: no reader has received them yet, but the next one will, as the
            committed offset stands.
        reason: a key of `REASONS`.
        first_reader: member id of the first reader; "": from before the account.
        reader: member id of the second one; "": there is none yet.
        time_ns: when they were sent again, by the machine's clock.
    """

    topic: str
    partition: int
    first: int
    end: int
    records: int
    is_certain: bool
    is_due: bool
    reason: str
    first_reader: str
    reader: str
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Records above the group's position that no member was sent.

    Attributes:
        topic, partition: the partition.
        first, end: their offsets; `end` is the one behind them.
        records: their number; deleted records count by their offsets.
        reason: a key of `SKIP_REASONS`.
        reader: member id of the reader that began behind them.
        time_ns: when it began, by the machine's clock.
    """

    topic: str
    partition: int
    first: int
    end: int
    records: int
    reason: str
    reader: str
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WentBack:
    """A commit below the committed offset.

    Attributes:
        topic, partition: the partition.
        previous, offset: the committed offset before, and now.
        reason: ``commit``, ``transaction``, or ``admin``: by no member of the group.
        member_id, client_id, host: the sender; "": unknown.
        generation: the group's.
        time_ns: when, by the machine's clock.
    """

    topic: str
    partition: int
    previous: int
    offset: int
    reason: Literal["commit", "transaction", "admin"]
    member_id: str
    client_id: str
    host: str
    generation: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A partition whose new owner has not fetched yet: its `again` may change."""

    topic: str
    partition: int
    owner: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of the records that a group was sent.

    Attributes:
        group: its id.
        records: different records that its members received.
        committed: those of them below a commit.
        uncommitted: those that are neither committed nor given back.
        sent: records in responses; clients may have dropped some.
        unknown: records sent to readers that may belong to this group or another one.
        again: records that were sent again, or will be (`Again.is_due`).
        skipped: records that no member was sent.
        went_back: commits below the committed offset.
        open: partitions whose new owner has not fetched yet.
        complete_from: by "topic-partition", the offset from which on the account is
            complete, where it is not from the start.
    """

    group: str
    records: int
    committed: int
    uncommitted: int
    sent: int
    unknown: int
    again: tuple[Again, ...]
    skipped: tuple[Skipped, ...]
    went_back: tuple[WentBack, ...]
    open: tuple[Open, ...]
    complete_from: Mapping[str, int]

    @property
    def again_certain(self) -> int:
        """Records that were handled, says the client, and sent again."""
        return sum(row.records for row in self.again if row.is_certain)

    @property
    def again_possible(self) -> int:
        """Records that were received, not committed, and sent again."""
        return sum(row.records for row in self.again if not row.is_certain)

    @property
    def skipped_records(self) -> int:
        """The number of skipped records."""
        return sum(row.records for row in self.skipped)

    @property
    def is_settled(self) -> bool:
        """True if no partition waits for its new owner."""
        return not self.open

    @property
    def words(self) -> str:
        """The whole account in one sentence."""
        if not self.records and not self.skipped_records:
            return "no records were received"
        parts = [*_parts(self)] or ["each delivered once and committed"]
        return f"{_many(self.records)}: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        """JSON's types, with the sums and the sentence."""
        lists = ("again", "skipped", "went_back", "open")
        return {
            "words": self.words,
            **{each.name: getattr(self, each.name) for each in fields(self)},
            # `asdict` takes five times as long.
            **{name: [*map(_row, getattr(self, name))] for name in lists},
            "again_certain": self.again_certain,
            "again_possible": self.again_possible,
            "skipped_records": self.skipped_records,
            "is_settled": self.is_settled,
        }

    def __str__(self) -> str:
        """The sentence, and a line for each row."""
        return "\n".join([f"group {self.group}: {self.words}", *_lines(self)])


def _row(row: Again | Skipped | WentBack | Open) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


def _parts(delivery: Delivery) -> Iterator[str]:
    if delivery.again_certain:
        yield f"{delivery.again_certain} handled and sent again"
    if delivery.again_possible:
        yield f"{delivery.again_possible} sent again, perhaps handled before"
    if delivery.skipped_records:
        yield f"{delivery.skipped_records} skipped"
    if delivery.went_back:
        count = len(delivery.went_back)
        times = "once" if count == 1 else f"{count} times"
        yield f"the committed offset went back {times}"
    if delivery.uncommitted:
        yield f"{delivery.uncommitted} not committed"
    if delivery.unknown:
        yield f"{delivery.unknown} sent to unknown readers"
    if delivery.open:
        count = len(delivery.open)
        yield f"{count} {'move' if count == 1 else 'moves'} open"


def _lines(delivery: Delivery) -> Iterator[str]:
    for again in delivery.again:
        grade = "handled before" if again.is_certain else "perhaps handled before"
        when = "will be sent again" if again.is_due else "sent again"
        who = f" to {again.reader}" if again.reader else ""
        first = f", first sent to {again.first_reader}" if again.first_reader else ""
        yield (
            f"  {_range(again)}: {_many(again.records)} {when}{who}, {grade}{first}"
            f" ({REASONS.get(again.reason, again.reason)})"
        )
    for skipped in delivery.skipped:
        yield (
            f"  {_range(skipped)}: {_many(skipped.records)} skipped"
            f" ({SKIP_REASONS.get(skipped.reason, skipped.reason)})"
        )
    for back in delivery.went_back:
        who = back.client_id or back.member_id or "an admin"
        yield (
            f"  {back.topic}-{back.partition}: {who} committed {back.offset} after"
            f" {back.previous}"
        )
    for row in delivery.open:
        yield f"  {row.topic}-{row.partition}: {row.owner} has not fetched yet"
    for name, offset in delivery.complete_from.items():
        yield f"  {name}: complete from offset {offset} on"


def _range(row: Again | Skipped) -> str:
    return f"{row.topic}-{row.partition} offsets {row.first} to {row.end - 1}"


def _many(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"
