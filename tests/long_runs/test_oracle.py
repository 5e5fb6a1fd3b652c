"""The oracle detects each violation, and none in a correct run."""

from __future__ import annotations

import pytest
from tests.long_runs import oracle
from tests.long_runs.oracle import Committed
from tests.long_runs.witness import Witness
from tests.workers.lines import key_of, text_of, value_of
from tests.workers.process import Line

Records = list[tuple[int, bytes, bytes]]


def log(*numbers: int) -> dict[int, Records]:
    """Partition 0 with these records of producer p."""
    return {
        0: [
            (offset, key_of("p", 0), value_of(number))
            for offset, number in enumerate(numbers)
        ]
    }


class Clients:
    """Clients whose reports the test makes."""

    def __init__(self) -> None:
        self.witness = Witness()

    def say(self, name: str, event: str, **fields: object) -> None:
        """One event of a producer, or of a group."""
        self.witness.take(name, Line(0, {"event": event, **fields}))

    def acknowledge(self, **records: int) -> None:
        """Acknowledges records n0, n1, ... of producer p at these offsets."""
        for name, offset in records.items():
            number = int(name.removeprefix("n"))
            self.say("p", "acked", partition=0, number=number, offset=offset)

    def consume(self, group: str, records: Records) -> None:
        """A poll of a member."""
        rows = [(0, o, key.decode(), value.decode()) for o, key, value in records]
        self.say(group, "consumed", records=rows)


@pytest.fixture
def clients() -> Clients:
    """Clients that have done nothing yet."""
    return Clients()


def found(clients: Clients, there: dict[int, Records], sent: int = 3) -> list[str]:
    """The kinds of violations by producers."""
    return [
        each.partition(":")[0]
        for each in oracle.producers(clients.witness, there, {"p": [sent]})
    ]


def test_nothing_is_wrong(clients: Clients) -> None:
    """Acknowledged records exist; others may exist, or not."""
    clients.acknowledge(n0=0, n1=1)
    assert found(clients, log(0, 1)) == []
    assert found(clients, log(0, 1, 2)) == []


def test_lost_records(clients: Clients) -> None:
    """A record is missing at the end, or another one has its place."""
    clients.acknowledge(n0=0, n1=1)
    assert found(clients, log(0)) == ["lost"]
    assert found(clients, log(0, 2)) == ["lost"]
    there = {0: [(0, key_of("p", 0), value_of(0)), (1, b"p/1", value_of(1))]}
    assert found(clients, there) == ["lost"]


def test_records_that_are_lost_without_an_offset(clients: Clients) -> None:
    """The acknowledgement of a repeated batch may have no offset; it counts."""
    clients.acknowledge(n0=0, n1=-1)
    assert found(clients, log(0, 1)) == []
    assert found(clients, log(0, 2)) == ["lost"]


def test_duplicates(clients: Clients) -> None:
    """A duplicated record is a violation, even if it was never acknowledged."""
    clients.acknowledge(n0=0)
    assert found(clients, log(0, 0)) == ["duplicate"]
    assert found(clients, log(0, 1, 2, 1)) == ["duplicate"]


def test_order(clients: Clients) -> None:
    """A record before an earlier one is a violation; a gap is none."""
    assert found(clients, log(0, 2)) == []
    assert found(clients, log(0, 2, 1)) == ["order"]


def test_records_that_nobody_sent(clients: Clients) -> None:
    """Numbers that were not reached, and unknown producers, are violations."""
    assert found(clients, log(0, 1), sent=1) == ["made up"]
    there = {0: [(0, key_of("q", 0), value_of(0))]}
    assert found(clients, there) == ["made up"]


def test_contradictions_and_surrender(clients: Clients) -> None:
    """One offset for two records, and a record given up, are violations."""
    clients.acknowledge(n0=0, n1=0)
    clients.say("p", "gave_up", partition=0, number=2, reason="45")
    wrong = oracle.producers(clients.witness, log(0), {"p": [3]})
    assert wrong == [
        "partition 0 offset 0 was acknowledged for record 0 of p and for record 1 of p",
        "p gave up record 2 of partition 0: 45",
    ]


def test_two_owners(clients: Clients) -> None:
    """A partition of two members in one generation is a violation, later it is none."""
    for member, generation in (("a", 4), ("b", 5), ("c", 5)):
        clients.say(
            "g", "owns", partitions=[0], generation=generation, **{"as": member}
        )
    assert oracle.producers(clients.witness, log(), {}) == [
        "partition 0 had two owners in generation 5 of g: b and c"
    ]


def test_ends() -> None:
    """A partition that ends before an acknowledged record is a violation."""
    assert oracle.ends({0: 5, 1: 2}, [5, 3]) == []
    assert len(oracle.ends({0: 5, 1: 2}, [4, 2])) == 1


def test_commits(clients: Clients) -> None:
    """A lost or older commit, and an invented one, are violations."""
    for offset in (3, 7):
        clients.say("g", "sent", offsets=[(0, offset)])
        clients.say("g", "committed", offsets=[(0, offset)])
    clients.say("g", "sent", offsets=[(0, 9)])

    def wrong(committed: Committed) -> list[str]:
        witness = clients.witness
        lines = [
            *oracle.offsets(witness.acked, committed),
            *oracle.committers(witness, committed, text_of),
        ]
        return [each.partition(":")[0] for each in lines]

    assert wrong({("g", 0): (7, text_of("g", 7))}) == []
    assert wrong({("g", 0): (9, text_of("g", 9))}) == []
    assert wrong({("g", 0): (3, text_of("g", 3))}) == ["commit lost"]
    assert wrong({("g", 0): (-1, "")}) == ["commit lost"]
    assert wrong({}) == ["commit lost"]
    assert wrong({("g", 0): (8, text_of("g", 8))}) == ["made up"]
    assert wrong({("g", 0): (7, text_of("g", 9))}) == ["made up"]


def test_inspected() -> None:
    """Directory and broker must agree, both ways."""
    there = {("g", 0): (3, "x"), ("g", 1): (4, "")}
    assert oracle.inspected(there, {**there, ("g", 2): (-1, "")}) == []
    assert len(oracle.inspected(there, {("g", 0): (3, "")})) == 2
    assert len(oracle.inspected({}, there)) == 2


def test_consumed(clients: Clients) -> None:
    """A group must get all records, and only existing ones."""
    there = log(0, 1, 2, 3)
    clients.consume("whole", there[0][:3])
    clients.consume("whole", there[0][1:])
    clients.consume("gap", there[0][:1])
    clients.consume("gap", there[0][2:])
    clients.consume("short", there[0][:2])
    clients.consume("strange", log(0, 1, 3, 2)[0])
    witness = clients.witness

    def wrong(group: str) -> list[str]:
        return [
            each.removeprefix(f"{group}, partition 0: ").partition(":")[0]
            for each in oracle.members(witness, there, [group])
        ]

    assert wrong("whole") == []
    assert wrong("gap") == ["not consumed"]
    assert wrong("short") == ["not consumed"]
    assert wrong("strange") == ["consumed what is not in the log"]
    assert wrong("absent") == ["not consumed"]
