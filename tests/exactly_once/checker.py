"""Violations of exactly-once semantics in a history. Pure.

`check` follows the anomalies of Jepsen's workload for Kafka. Each violation is one
sentence, which begins with its kind:

    lost write          committed or acknowledged, and not in the log
    aborted read        a committed reader got a record of an aborted transaction
    intermediate read   part of a transaction is visible, or all of it too early
    duplicate           a record is in the log twice
    skipped poll        a reader passed over a record of its isolation level
    repeated poll       a reader got a record twice, or went back
    strange             a record, an offset or an order that no client made
    fenced              a producer wrote or committed after another took over its id
    offset              a committed offset that is not that of a transaction that asked
                        for its commit, or that went back
    input lost          the group passed an input, and its output is missing
    input twice         the output of an input is there twice
    response            a response that no correct broker gives
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.exactly_once.history import (
    Acked,
    Asked,
    Began,
    Complaint,
    Ended,
    Event,
    Initialized,
    Log,
    OffsetRead,
    Outcome,
    Place,
    Polled,
    Records,
    Sent,
    Sought,
    Staged,
    Value,
)

Logs = Mapping[Place, Log]


@dataclass(slots=True)
class Transaction:
    """A transaction, according to the history; times are positions of events.

    Attributes:
        fenced_at: when the next instance of its producer's id was there.
        sent: the place of each value.
        late: values that were sent after `fenced_at`.
    """

    number: int
    transactional_id: str
    instance: int
    fenced_at: int | None = None
    sent: dict[bytes, Place] = field(default_factory=dict)
    late: set[bytes] = field(default_factory=set)
    asked_at: int | None = None
    outcome: Outcome = Outcome.ABORTED

    @property
    def is_fenced(self) -> bool:
        """True if it asked for its commit after its producer was fenced."""
        return None not in {self.fenced_at, self.asked_at} and (
            (self.asked_at or 0) > (self.fenced_at or 0)
        )


def check(events: Sequence[Event], logs: Logs, source: str, target: str) -> list[str]:
    """All violations.

    Args:
        events: of the whole run.
        logs: at the end, when no transaction is open.
        source: topic that the group reads.
        target: topic of its output.
    """
    return [*Checker(events, logs, source, target).violations()]


class Checker:
    """The checks of one history; see `check`."""

    def __init__(
        self, events: Sequence[Event], logs: Logs, source: str, target: str
    ) -> None:
        self._events = events
        self._logs = logs
        self._source = source
        self._target = target
        self._transactions = _transactions(events)
        self._visible = {
            place: {value for _, value in log.committed} for place, log in logs.items()
        }
        self._rows = {place: dict(log.everything) for place, log in logs.items()}

    def violations(self) -> Iterator[str]:
        """One sentence each."""
        yield from (
            f"response: {event.text}"
            for event in self._events
            if isinstance(event, Complaint)
        )
        yield from self._acknowledged()
        for transaction in self._transactions.values():
            yield from self._atomic(transaction)
        for place, log in self._logs.items():
            yield from self._ordered(place, log)
        yield from self._polls()
        yield from self._offsets()
        yield from self._processed()

    # -- records

    def _acknowledged(self) -> Iterator[str]:
        """Acknowledged batches are in the log; none is of a fenced producer."""
        present = {place: set(rows.values()) for place, rows in self._rows.items()}
        for event in self._events:
            if not isinstance(event, Acked):
                continue
            rows = self._rows[event.place]
            for number, value in enumerate(event.values):
                got = rows.get(event.offset + number)
                is_there = value in present[event.place]
                if got != value if event.offset >= 0 else not is_there:
                    yield (
                        f"lost write: {_name(value)} was acknowledged at "
                        f"{_at(event.place, event.offset + number)}, there is {got!r}"
                    )
            late = self._transactions[event.transaction].late.intersection(event.values)
            for value in sorted(late):
                yield (
                    f"fenced: {_name(value)} was sent after another producer had taken "
                    f"over its id, and was acknowledged at "
                    f"{_at(event.place, event.offset)}"
                )

    def _atomic(self, transaction: Transaction) -> Iterator[str]:
        """All of a transaction is visible, or none; a committed one is."""
        sent = transaction.sent
        seen = [value for value, place in sent.items() if value in self._visible[place]]
        missing = sorted(sent.keys() - set(seen))
        name = f"transaction {transaction.number}"
        if transaction.is_fenced and (seen or transaction.outcome is Outcome.COMMITTED):
            yield f"fenced: {name} was committed, and its id was another producer's"
        if transaction.outcome is Outcome.ABORTED:
            for value in seen:
                yield f"aborted read: {_name(value)} is visible at the end"
        elif transaction.outcome is Outcome.COMMITTED:
            for value in missing:
                place = sent[value]
                yield f"lost write: {_name(value)} in {_named(place)} was committed"
        elif seen and missing:
            yield (
                f"intermediate read: of {name}, {len(seen)} records are visible, and "
                f"{len(missing)} are not, such as {_name(missing[0])}"
            )

    def _ordered(self, place: Place, log: Log) -> Iterator[str]:
        """Each record is there once, in the order of its transaction."""
        everything = [value for _, value in log.everything]
        for value, count in Counter(everything).items():
            if count > 1:
                yield f"duplicate: {_name(value)} is in {_named(place)} {count} times"
        last: dict[int, int] = {}
        for value in dict.fromkeys(everything):
            transaction, number, _ = Value.decode(value)
            known = self._transactions.get(transaction)
            if known is None or known.sent.get(value) != place:
                yield f"strange: {value!r} in {_named(place)} was never sent there"
            elif last.get(transaction, -1) > number:
                yield f"strange: {_name(value)} in {_named(place)} comes late"
            last[transaction] = number
        for offset, value in log.committed:
            if self._rows[place].get(offset) != value:
                yield (
                    f"strange: only committed readers get {_name(value)} at "
                    f"{_at(place, offset)}"
                )

    # -- readers

    def _polls(self) -> Iterator[str]:
        """Readers go forward, and get exactly the records of their isolation level."""
        positions: dict[tuple[str, Place], int] = {}
        slices = {place: _Slices(log) for place, log in self._logs.items()}
        for time, event in enumerate(self._events):
            if isinstance(event, Sought):
                positions[event.reader, event.place] = event.offset
            if not isinstance(event, Polled):
                continue
            at = positions.get((event.reader, event.place), 0)
            if event.position != at or event.after < at:
                yield f"strange: {event.reader} at {at} polled {event.position}"
            positions[event.reader, event.place] = event.after
            wanted = slices[event.place].between(
                event.position, event.after, is_committed=event.is_committed
            )
            if [*event.records] != [*wanted]:
                yield from self._differences(event, wanted)
            if event.is_committed:
                yield from self._early(event, time)

    def _differences(self, event: Polled, wanted: Records) -> Iterator[str]:
        who = f"{event.reader} at {_at(event.place, event.position)}"
        offsets = [offset for offset, _ in event.records]
        outside = [o for o in offsets if not event.position <= o < event.after]
        if outside or any(b <= a for a, b in pairwise(offsets)):
            yield f"repeated poll: {who} got the offsets {offsets}"
        got = set(event.records)
        for offset, value in wanted:
            if (offset, value) not in got:
                yield f"skipped poll: {who} did not get {_name(value)} at {offset}"
        for offset, value in got.difference(wanted):
            known = self._transactions.get(Value.decode(value).transaction)
            in_log = self._rows[event.place].get(offset) == value
            if known is None or not in_log:
                yield f"strange: {who} got {value!r} at {offset}, which is not there"
            else:
                yield f"aborted read: {who} got {_name(value)} at {offset}"

    def _early(self, event: Polled, time: int) -> Iterator[str]:
        """No reader of committed records gets one before its commit is requested."""
        for _, value in event.records:
            known = self._transactions.get(Value.decode(value).transaction)
            if known and (known.asked_at is None or known.asked_at > time):
                yield (
                    f"intermediate read: {event.reader} got {_name(value)} before the "
                    f"commit of its transaction was requested"
                )

    # -- offsets

    def _offsets(self) -> Iterator[str]:
        """Committed offsets are of transactions that asked for it, and go forward."""
        staged: dict[int, Staged] = {}
        possible: set[tuple[int, int]] = set()
        seen: dict[tuple[str, int], int] = {}
        for event in self._events:
            if isinstance(event, Staged):
                staged[event.transaction] = event
            elif isinstance(event, Asked) and event.transaction in staged:
                possible.update(staged[event.transaction].offsets)
            elif isinstance(event, OffsetRead):
                _, partition, offset = event
                if offset != -1 and (partition, offset) not in possible:
                    yield (
                        f"offset: {event.reader} read {offset} of partition "
                        f"{partition}, whose commit no transaction had requested"
                    )
                before = seen.get((event.reader, partition), -1)
                if offset < before:
                    yield (
                        f"offset: {event.reader} read {before}, and then {offset}, of "
                        f"partition {partition}"
                    )
                seen[event.reader, partition] = offset

    def _processed(self) -> Iterator[str]:
        """The output of each input is there once."""
        outputs = self._outputs()
        for (topic, partition), log in self._logs.items():
            if topic != self._source:
                continue
            for offset, value in log.committed:
                made = outputs.pop((partition, offset), [])
                name = f"{_name(value)} at {_at((topic, partition), offset)}"
                if not made:
                    yield f"input lost: {name} has no output"
                elif len(made) > 1:
                    yield f"input twice: {name} became {', '.join(map(_name, made))}"
        for (partition, offset), made in outputs.items():
            yield (
                f"aborted read: {_name(made[0])} is the output of offset {offset} of "
                f"partition {partition}, where no committed record is"
            )

    def _outputs(self) -> dict[tuple[int, int], list[bytes]]:
        """Committed records of the target, by the place of their input."""
        found: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        for (topic, _), log in self._logs.items():
            for _, value in log.committed if topic == self._target else ():
                source = Value.decode(value).source
                if source is not None:
                    found[source].append(value)
        return found


class _Slices:
    """Records of a partition between two offsets."""

    def __init__(self, log: Log) -> None:
        self._rows = {True: log.committed, False: log.everything}
        self._offsets = {
            is_committed: [offset for offset, _ in rows]
            for is_committed, rows in self._rows.items()
        }

    def between(self, first: int, after: int, *, is_committed: bool) -> Records:
        offsets = self._offsets[is_committed]
        start, end = bisect_left(offsets, first), bisect_left(offsets, after)
        return self._rows[is_committed][start:end]


def _transactions(events: Sequence[Event]) -> dict[int, Transaction]:
    """All transactions, by number."""
    found: dict[int, Transaction] = {}
    fenced: dict[int, int] = {}  # by instance
    latest: dict[str, int] = {}
    for time, event in enumerate(events):
        match event:
            case Initialized(transactional_id, instance):
                if transactional_id in latest:
                    fenced[latest[transactional_id]] = time
                latest[transactional_id] = instance
            case Began(number, transactional_id, instance):
                found[number] = Transaction(number, transactional_id, instance)
            case Sent(number, place, values):
                transaction = found[number]
                transaction.sent.update(dict.fromkeys(values, place))
                if transaction.instance in fenced:
                    transaction.late.update(values)
            case Asked(number):
                found[number].asked_at = time
                # Until a response says otherwise.
                found[number].outcome = Outcome.UNKNOWN
            case Ended(number, outcome):
                found[number].outcome = outcome
            case _:
                pass
    for transaction in found.values():
        transaction.fenced_at = fenced.get(transaction.instance)
    return found


def _name(value: bytes) -> str:
    transaction, number, source = Value.decode(value)
    name = f"record {number} of transaction {transaction}"
    return name if source is None else f"{name} (of input {source[0]}@{source[1]})"


def _named(place: Place) -> str:
    return "{}-{}".format(*place)


def _at(place: Place, offset: int) -> str:
    return f"{_named(place)}@{offset}"
