"""The checker finds each anomaly, and none in a correct history."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.exactly_once.checker import check
from tests.exactly_once.history import (
    Acked,
    Asked,
    Complaint,
    History,
    Log,
    OffsetRead,
    Outcome,
    Place,
    Polled,
    Sent,
    Sought,
    Staged,
    Value,
)

SOURCE: Place = ("source", 0)
TARGET: Place = ("target", 0)
COMMITTED, ABORTED, UNKNOWN = Outcome


class Story:
    """A history, and the logs at its end; each record takes the next offset."""

    def __init__(self) -> None:
        self.history = History()
        self.everything: dict[Place, list[tuple[int, bytes]]] = {SOURCE: [], TARGET: []}
        self.hidden: set[bytes] = set()
        self.instance = self.history.initialize("p")

    def begin(self, instance: int | None = None) -> int:
        """A transaction of the latest instance of the producer, or of another one."""
        return self.history.begin("p", instance or self.instance)

    def write(
        self,
        transaction: int,
        *numbers: int,
        place: Place = SOURCE,
        source: tuple[int, int] | None = None,
        is_visible: bool = True,
    ) -> None:
        """An acknowledged batch of these records."""
        values = tuple(Value(transaction, n, source).encode() for n in numbers)
        log = self.everything[place]
        self.history.add(Sent(transaction, place, values))
        self.history.add(Acked(transaction, place, len(log), values))
        for value in values:
            log.append((len(log), value))
            if not is_visible:
                self.hidden.add(value)

    def end(self, transaction: int, outcome: Outcome) -> None:
        """The end, after the request to commit if it is not aborted."""
        if outcome is not ABORTED:
            self.history.add(Asked(transaction))
        self.history.end(transaction, outcome)

    def process(self, offset: int, *, is_visible: bool = True) -> None:
        """A worker's transaction with the output of one input."""
        transaction = self.begin()
        source = (0, offset)
        self.write(transaction, 0, place=TARGET, source=source, is_visible=is_visible)
        self.history.add(Staged(transaction, ((0, offset + 1),)))
        self.end(transaction, COMMITTED if is_visible else ABORTED)

    def poll(
        self,
        *offsets: int,
        after: int,
        position: int = 0,
        is_committed: bool = True,
        place: Place = SOURCE,
    ) -> None:
        """A poll of the reader r that got the records at these offsets."""
        rows = dict(self.everything[place])
        got = [(offset, rows.get(offset, b"0/0")) for offset in offsets]
        self.history.add(Polled("r", is_committed, place, position, after, got))

    def found(self) -> list[str]:
        """The kinds of the violations."""
        logs = {
            place: Log([row for row in log if row[1] not in self.hidden], log)
            for place, log in self.everything.items()
        }
        found = check(self.history.events, logs, "source", "target")
        return [each.partition(":")[0] for each in found]


@pytest.fixture
def story() -> Story:
    """A committed transaction of three inputs, each with its output."""
    story = Story()
    first = story.begin()
    story.write(first, 0, 1, 2)
    story.end(first, COMMITTED)
    for offset in range(3):
        story.process(offset)
    return story


def aborted(story: Story, outcome: Outcome = ABORTED) -> None:
    """A transaction of two records, at offsets 3 and 4, that committed readers skip."""
    transaction = story.begin()
    story.write(transaction, 0, 1, is_visible=False)
    story.end(transaction, outcome)


def test_a_correct_history(story: Story) -> None:
    """Committed and aborted transactions, and those with an unknown outcome."""
    story.poll(0, 1, after=2)
    aborted(story)
    aborted(story, UNKNOWN)
    story.process(0, is_visible=False)
    story.poll(2, position=2, after=7)
    story.history.add(Sought("r", SOURCE, 1))
    story.poll(1, 2, 3, 4, position=1, after=5, is_committed=False)
    story.history.add(OffsetRead("r", 0, -1))
    story.history.add(OffsetRead("r", 0, 2))
    story.history.add(OffsetRead("r", 0, 3))
    transaction = story.begin()
    story.write(transaction, 0, place=TARGET)
    story.history.add(Asked(transaction))  # and no response
    assert story.found() == []


def test_an_impossible_response(story: Story) -> None:
    """A refusal without a reason."""
    story.history.add(Complaint("EndTxn: INVALID_TXN_STATE"))
    assert story.found() == ["response"]


def test_lost_writes(story: Story) -> None:
    """An acknowledged record is gone; a committed one is not visible."""
    story.everything[TARGET].pop()
    assert set(story.found()) == {"lost write", "input lost"}
    story = Story()
    aborted(story, COMMITTED)
    assert story.found() == ["lost write"] * 2


def test_a_record_in_the_place_of_another(story: Story) -> None:
    """An acknowledged offset has another record."""
    log = story.everything[SOURCE]
    log[0], log[1] = (0, log[1][1]), (1, log[0][1])
    assert set(story.found()) == {"lost write", "strange"}


def test_aborted_reads(story: Story) -> None:
    """A reader got records of an aborted transaction; or they are visible at last."""
    aborted(story)
    story.poll(0, 1, 2, 3, after=5)
    # No commit was requested either.
    assert story.found() == ["aborted read", "intermediate read"]
    story.hidden.clear()
    assert "aborted read" in story.found()


def test_intermediate_reads(story: Story) -> None:
    """A part of a transaction is visible; or a reader got it before the commit."""
    aborted(story, UNKNOWN)
    story.hidden.pop()
    assert "intermediate read" in story.found()
    story = Story()
    transaction = story.begin()
    story.write(transaction, 0, place=TARGET)
    story.poll(0, after=1, place=TARGET)
    story.end(transaction, COMMITTED)
    assert story.found() == ["intermediate read"]


def test_duplicates(story: Story) -> None:
    """A batch was appended twice."""
    log = story.everything[TARGET]
    log.append((3, log[2][1]))
    assert set(story.found()) == {"duplicate", "input twice"}


@pytest.mark.parametrize("is_committed", [True, False])
def test_skipped_polls(story: Story, is_committed: bool) -> None:
    """A reader passed over a record."""
    story.poll(0, 2, after=3, is_committed=is_committed)
    assert story.found() == ["skipped poll"]


def test_repeated_polls(story: Story) -> None:
    """A record came twice, or before the position."""
    story.poll(0, 0, 1, after=2)
    assert story.found() == ["repeated poll"]
    story.history.events.pop()
    story.history.add(Sought("r", SOURCE, 1))
    story.poll(0, 1, position=1, after=2)
    assert "repeated poll" in story.found()


def test_a_reader_that_goes_back(story: Story) -> None:
    """A poll starts elsewhere than where the last one ended."""
    story.poll(0, 1, after=2)
    story.poll(0, 1, after=2)
    assert story.found() == ["strange"]


def test_records_of_no_client(story: Story) -> None:
    """A reader got a record, or the log has one, that was never sent."""
    story.poll(0, 1, 2, 3, after=4)
    assert story.found() == ["strange"]
    story.history.events.pop()
    story.everything[TARGET].append((3, b"99/0"))
    assert story.found() == ["strange"]


def test_fenced_producers(story: Story) -> None:
    """An instance writes, or commits, after the next one is there."""
    old = story.instance
    transaction = story.begin()
    story.write(transaction, 0, place=TARGET, is_visible=False)
    story.instance = story.history.initialize("p")
    story.history.initialize("another id")
    story.end(transaction, ABORTED)
    assert story.found() == []
    late = story.begin(old)
    story.write(late, 0, place=TARGET, is_visible=False)
    story.end(late, ABORTED)
    assert story.found() == ["fenced"]
    later = story.begin(old)
    story.end(later, UNKNOWN)
    assert story.found() == ["fenced"]
    last = story.begin(old)
    story.end(last, COMMITTED)
    assert story.found() == ["fenced"] * 2


@pytest.mark.parametrize(
    ("offsets", "count"), [((1, 2, 3), 0), ((-1, 3), 0), ((2, 1), 1), ((7,), 1)]
)
def test_offsets(story: Story, offsets: Sequence[int], count: int) -> None:
    """Offsets go forward, and each belongs to a transaction that was to commit."""
    transaction = story.begin()
    story.history.add(Staged(transaction, ((0, 7),)))
    for offset in offsets:
        story.history.add(OffsetRead("r", 0, offset))
    assert story.found() == ["offset"] * count


def test_offsets_apart_from_their_records(story: Story) -> None:
    """The output of an input is missing, or there twice, or has no input."""
    story.process(1)
    assert story.found() == ["input twice"]
    story.everything[TARGET] = []
    assert story.found().count("input lost") == 3
    story = Story()
    story.process(0)
    assert story.found() == ["aborted read"]
