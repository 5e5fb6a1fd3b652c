"""Judges the observations of a cell: facts, and the words of the table."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tests.clients_table.evidence import MEMBERS

from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.clients_table.evidence import Evidence
    from tests.clients_table.rows import Row

SHOWN_S = 2.0
"""Shorter times are not shown: they are due to a busy machine."""


@dataclass(slots=True)
class Facts:
    """The facts of one cell.

    Attributes:
        is_back: both members work again within the limit.
        back_s: from the end of the power or fault until then.
        limit_s: the limit.
        strikes: number of strikes of the faults; 0 for verbs.
        rebalances: joins completed since the beginning.
        new_ids: client ids of members that joined under a new member id.
        reconnects: connections opened since the beginning, by client id.
        twice: records delivered again that had not been committed.
        twice_committed: records delivered again although committed: more than
            at-least-once explains.
        lost: records below the committed offset that no member got.
        is_producer: the cell is about produced records, not consumed ones.
        doubled: records that are in the log twice.
        reordered: records that are in the log before an earlier one.
        garbled: records with another value than was written.
        exits: the error with which a member's application ended, by client id.
        errors: other errors that the application got, and their number.
        requests: requests since the beginning, by API.
        last: the group at the end, if it is not well.
        notes: the notes of the faults.
    """

    is_back: bool = False
    back_s: float = 0.0
    limit_s: float = 0.0
    strikes: int = 0
    rebalances: int = 0
    new_ids: list[str] = field(default_factory=list)
    reconnects: dict[str, int] = field(default_factory=dict)
    twice: int = 0
    twice_committed: int = 0
    lost: int = 0
    garbled: int = 0
    is_producer: bool = False
    doubled: int = 0
    reordered: int = 0
    exits: dict[str, str] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    last: str = ""
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Its fields, without those at their defaults."""
        return {name: value for name, value in asdict(self).items() if value}


def judge(evidence: Evidence) -> Facts:
    """Finds the facts."""
    since, end = evidence.done_ns, evidence.ended_ns
    facts = Facts(
        is_back=evidence.back_ns is not None,
        limit_s=evidence.limit_s,
        strikes=evidence.strikes,
        notes=[*evidence.notes],
        last="" if evidence.back_ns else evidence.last,
    )
    if evidence.back_ns is not None:
        facts.back_s = round(max(0, evidence.back_ns - evidence.undone_ns) / 1e9, 1)
    later = [event for event in evidence.events if since <= event["wall_ns"] < end]
    facts.rebalances = sum(event["kind"] == "join_completed" for event in later)
    facts.new_ids = sorted(
        {
            event["client_id"]
            for event in later
            if event["kind"] == "member_joined" and event["cause"] == "new"
        }
    )
    facts.requests = dict(
        Counter(api for at, _, api, _ in evidence.requests if since <= at < end)
    )
    facts.reconnects = _reconnects(evidence)
    facts.exits = {n: short(e) for n, e in evidence.errors.items() if e is not None}
    facts.errors = dict(
        Counter(
            short(line.event["text"])
            for lines in evidence.lines.values()
            for line in lines
            if line.kind == "note" and since <= line.at_ns < end
        )
    )
    Deliveries(facts).read(evidence)
    return facts


def _reconnects(evidence: Evidence) -> dict[str, int]:
    before: set[int] = set()
    after: dict[str, set[int]] = {name: set() for name in MEMBERS}
    for at, client, _, connection in evidence.requests:
        if at < evidence.done_ns:
            before.add(connection)
        elif at < evidence.ended_ns and client in after and connection not in before:
            after[client].add(connection)
    return {name: len(found) for name, found in after.items() if found}


class Deliveries:
    """Counts records delivered again, lost, or garbled.

    At-least-once explains a second delivery of a record if it was not committed: at the
    time of the member's assignment; within one assignment, as far as the member knows,
    as the response to its commit may be lost.

    Args:
        facts: collects the counts.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.committed: Counter[int] = Counter()
        # By member and partition: the number of its assignments, and the commit at the
        # last.
        self.begins: dict[tuple[str, int], tuple[int, int]] = {}
        self.owned: dict[str, frozenset[int]] = {}
        # By partition and offset: the last member that got it, and in which assignment.
        self.given: dict[tuple[int, int], tuple[str, int]] = {}
        self.acknowledged: Counter[tuple[str, int]] = Counter()

    def read(self, evidence: Evidence) -> None:
        """Reads all commits, assignments and consumed records, by time."""
        said: list[tuple[int, int, str, Mapping[str, Any]]] = [
            (event["wall_ns"], 0, "", {**event, "event": event["kind"]})
            for event in evidence.events
            if event["kind"] == "offsets_committed"
        ]
        said += [
            (line.at_ns, 1, name, line.event)
            for name, lines in evidence.lines.items()
            for line in lines
        ]
        readers: dict[str, Callable[[str, Mapping[str, Any]], None]] = {
            "offsets_committed": self._commit,
            "committed": self._acknowledge,
            "owns": self._assign,
            "consumed": self._consume,
        }
        for _, _, name, what in sorted(said, key=lambda each: each[:2]):
            if what["event"] in readers:
                readers[what["event"]](name, what)
        self.facts.lost = sum(
            (partition, offset) not in self.given
            for partition, end in self.committed.items()
            for offset in range(end)
        )

    def _commit(self, _: str, event: Mapping[str, Any]) -> None:
        for row in event["offsets"]:
            self.committed[row["partition"]] = row["offset"]

    def _acknowledge(self, name: str, line: Mapping[str, Any]) -> None:
        for partition, offset in line["offsets"]:
            self.acknowledged[name, partition] = offset

    def _assign(self, name: str, line: Mapping[str, Any]) -> None:
        now = frozenset(line["partitions"])
        for each in now - self.owned.get(name, frozenset()):
            count, _ = self.begins.get((name, each), (0, 0))
            self.begins[name, each] = (count + 1, self.committed[each])
        self.owned[name] = now

    def _consume(self, name: str, line: Mapping[str, Any]) -> None:
        for partition, offset, _, value in line["records"]:
            self.facts.garbled += value != f"{partition}:{offset}"
            count, begin = self.begins.get((name, partition), (0, 0))
            before = self.given.get((partition, offset))
            self.given[partition, offset] = (name, count)
            if before == (name, count):
                begin = self.acknowledged[name, partition]
            if before is not None and offset >= begin:
                self.facts.twice += 1
            elif before is not None:
                self.facts.twice_committed += 1


_NAMES = re.compile(r"(?<![A-Za-z])(_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|_FATAL)\b")
_CLASSES = re.compile(r"\b([A-Z][A-Za-z]*(?:Error|Exception)|(?<=errors\.)\w+)\b")
_NUMBER = re.compile(r"code=\d+,val=(\d+)|code=UNKNOWN\b")
_ADDRESS = re.compile(r"[\d.]+:\d+(->[\d.]+:\d+)?")
LONGEST = 60


def short(text: str) -> str:
    """The error's name in a library's message, or the beginning of the message."""
    text = text.rpartition("commit failed: ")[2]
    # The last class is the cause of the others. Java's messages name APIs, too.
    names = [] if "org.apache.kafka" in text else _NAMES.findall(text)[:1]
    found = names or _CLASSES.findall(text)[-1:]
    number = _NUMBER.search(text)
    if number is not None:
        found = [ErrorCode(int(number[1] or -1)).name]
    if not found:
        text = _ADDRESS.sub("...", re.sub(r"^partition \d+: ", "", text))
        found = [text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."]
    return str(found[0])


def about(count: int) -> str:
    """A number that differs from play to play, in words."""
    if count < 10:
        return "a few records"
    digits = 10 ** (len(str(count)) - 1)
    return f"some {count // digits * digits:,} records"


DEFECTS = {
    "hangs",
    "loses records",
    "delivers garbled records",
    "doubles records",
    "reorders records",
}


def verdict(facts: Facts, row: Row) -> str:
    """The kind of outcome, by which repeated plays of a cell are compared."""
    if row.is_fault and not facts.strikes:
        return "not struck"
    if facts.exits:
        return "exits"
    if not facts.is_back:
        return "hangs"
    if facts.lost:
        return "loses records"
    if facts.garbled:
        return "delivers garbled records"
    if facts.doubled or (facts.twice_committed and not row.rereads):
        return "doubles records"
    if facts.reordered:
        return "reorders records"
    return "comes back"


def words(facts: Facts, row: Row) -> str:
    """The cell, in Markdown: few words, a defect in bold."""
    kind = verdict(facts, row)
    if kind == "not struck":
        return "does not ask"
    if kind == "exits":
        parts = [_how_it_ended(facts)]
    elif kind == "hangs":
        parts = [f"**hangs**, {facts.limit_s:.0f} s and more"]
    else:
        parts = _how_back(facts)
    again = "{count} again that were committed"
    if not row.rereads:
        again = f"**{again}**"
    parts += [
        text.format(count=about(count))
        for text, count in (
            ("**{count} lost**", facts.lost),
            ("**{count} twice**", facts.doubled),
            ("**out of order**", facts.reordered),
            ("**{count} garbled**", facts.garbled),
            (again, facts.twice_committed),
            ("{count} again", facts.twice),
        )
        if count
    ]
    told = sorted(facts.errors, key=lambda each: -facts.errors[each])
    if told and kind != "exits":
        parts.append(f"raises `{told[0]}`")
    return ", ".join(parts)


def _how_it_ended(facts: Facts) -> str:
    who = "both exit" if len(facts.exits) == len(MEMBERS) else "exits"
    if facts.is_producer:
        who = "raises"
    errors = sorted(set(facts.exits.values()))
    return f"{who}: {', '.join(f'`{each}`' for each in errors)}"


def _how_back(facts: Facts) -> list[str]:
    parts = []
    if facts.is_producer:
        parts.append("all acknowledged")
    elif len(facts.new_ids) == len(MEMBERS):
        parts.append("both with new member ids")
    elif facts.new_ids:
        parts.append("new member id")
    elif facts.rebalances:
        parts.append("rejoins, same ids")
    elif facts.requests.get("JoinGroup"):
        parts.append("joins again, no rebalance")
    else:
        parts.append("goes on")
    if facts.rebalances > 1:
        parts.append(f"{facts.rebalances} rebalances")
    if facts.back_s >= SHOWN_S:
        parts.append(f"after {facts.back_s:.0f} s")
    return parts
