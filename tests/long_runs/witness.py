"""The responses to all clients, as their workers report them."""

from __future__ import annotations

import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.workers.lines import Record
from tests.workers.process import Line


@dataclass(frozen=True, slots=True)
class Poll:
    """Records of one partition that a member got in one poll."""

    first: int
    last: int
    count: int
    checksum: int


def checksum(records: Iterable[tuple[int, bytes, bytes]]) -> int:
    """A checksum of the offsets, keys and values from one poll."""
    crc = 0
    for offset, key, value in records:
        crc = zlib.crc32(b"%d %s %s\n" % (offset, key, value), crc)
    return crc


class Witness:
    """Hears all workers of a run.

    Attributes:
        changed: notified after each line, and guards the rest.
        produced: (producer, number) by (partition, offset): acknowledged records.
        unplaced: (producer, partition, number) acknowledged without an offset.
        gave_up: of producers, records that they send no more.
        ends: by partition, one more than the last acknowledged offset.
        sent: by (group, partition), all offsets that a committer ever sent.
        acked: by (group, partition), the furthest acknowledged commit.
        commits: by group, the number of acknowledged offsets.
        consumed: by (group, partition), the polls of members.
        owners: by (group, partition, generation or epoch), the member that owned it.
        contradictions: responses that cannot both be true.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.produced: dict[tuple[int, int], tuple[str, int]] = {}
        self.unplaced: set[tuple[str, int, int]] = set()
        self.gave_up: list[str] = []
        self.ends: Counter[int] = Counter()
        self.sent: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        self.acked: Counter[tuple[str, int]] = Counter()
        self.commits: Counter[str] = Counter()
        self.consumed: defaultdict[tuple[str, int], list[Poll]] = defaultdict(list)
        self.owners: dict[tuple[str, int, int], str] = {}
        self.contradictions: list[str] = []

    def now_acked(self) -> Counter[tuple[str, int]]:
        """A copy of `acked`."""
        with self.changed:
            return self.acked.copy()

    def now_ended(self) -> Counter[int]:
        """A copy of `ends`."""
        with self.changed:
            return self.ends.copy()

    def now_committed(self) -> Counter[str]:
        """A copy of `commits`."""
        with self.changed:
            return self.commits.copy()

    def take(self, name: str, line: Line) -> None:
        """Takes the event of a producer, or of a group."""
        event = line.event
        match line.kind:
            case "acked":
                self._produced(
                    name, event["partition"], event["number"], event["offset"]
                )
            case "gave_up":
                self.gave_up.append(
                    f"{name} gave up record {event['number']} of partition "
                    f"{event['partition']}: {event['reason']}"
                )
            case "sent":
                for partition, offset in event["offsets"]:
                    self.sent[name, partition].add(offset)
            case "committed":
                for partition, offset in event["offsets"]:
                    place = name, partition
                    self.acked[place] = max(self.acked[place], offset)
                self.commits[name] += len(event["offsets"])
            case "consumed":
                self._consumed(name, event["records"])
            case "owns" if event["generation"] is not None:
                self._owned(name, line.client, event["generation"], event["partitions"])

    def _owned(
        self, group: str, member: str, generation: int, partitions: Iterable[int]
    ) -> None:
        for place in partitions:
            before = self.owners.setdefault((group, place, generation), member)
            if before != member:
                self.contradictions.append(
                    f"partition {place} had two owners in generation {generation} of "
                    f"{group}: {before} and {member}"
                )

    def _consumed(self, group: str, records: Sequence[Record]) -> None:
        by_partition: dict[int, list[tuple[int, bytes, bytes]]] = {}
        for place, offset, key, value in records:
            row = offset, key.encode(), value.encode()
            by_partition.setdefault(place, []).append(row)
        for place, rows in by_partition.items():
            poll = Poll(rows[0][0], rows[-1][0], len(rows), checksum(rows))
            self.consumed[group, place].append(poll)

    def _produced(
        self, producer: str, partition: int, number: int, offset: int
    ) -> None:
        if offset < 0:
            self.unplaced.add((producer, partition, number))
            return
        place = partition, offset
        before = self.produced.setdefault(place, (producer, number))
        if before != (producer, number):
            self.contradictions.append(
                f"partition {partition} offset {offset} was acknowledged for record "
                f"{before[1]} of {before[0]} and for record {number} of {producer}"
            )
        self.ends[partition] = max(self.ends[partition], offset + 1)
