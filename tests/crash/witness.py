"""The responses to all clients, according to their journals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.crash.journal import Tail


@dataclass(frozen=True, slots=True)
class Poll:
    """Records of one partition that a member got in one poll."""

    first: int
    last: int
    count: int
    checksum: int


class Witness:
    """Reads all journals of a run while they grow.

    Args:
        journals: their paths.

    Attributes:
        produced: (producer, number) by (partition, offset): acknowledged records.
        unplaced: (producer, partition, number) acknowledged without an offset.
        gave_up: lines of producers about records that they send no more.
        ends: by partition, one more than the last acknowledged offset.
        sent: by (group, partition), all offsets that a committer ever sent.
        acked: by (group, partition), the furthest acknowledged commit.
        commits: by group, the number of acknowledged offsets.
        consumed: by (group, partition), the polls of members.
        contradictions: responses that cannot both be true.
    """

    def __init__(self, journals: Iterable[Path]) -> None:
        self._tails = [Tail(path) for path in journals]
        self.produced: dict[tuple[int, int], tuple[str, int]] = {}
        self.unplaced: set[tuple[str, int, int]] = set()
        self.gave_up: list[str] = []
        self.ends: Counter[int] = Counter()
        self.sent: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        self.acked: Counter[tuple[str, int]] = Counter()
        self.commits: Counter[str] = Counter()
        self.consumed: defaultdict[tuple[str, int], list[Poll]] = defaultdict(list)
        self.contradictions: list[str] = []

    def read(self) -> None:
        """Reads the lines since the last call."""
        for tail in self._tails:
            for words in tail.lines():
                self._take(words)

    def _take(self, words: list[str]) -> None:
        match words:
            case ["acked", producer, partition, number, offset]:
                self._produced(producer, int(partition), int(number), int(offset))
            case ["acked", group, partition, offset]:
                place = group, int(partition)
                self.acked[place] = max(self.acked[place], int(offset))
                self.commits[group] += 1
            case ["sent", group, partition, offset]:
                self.sent[group, int(partition)].add(int(offset))
            case ["consumed", group, partition, *numbers]:
                self.consumed[group, int(partition)].append(Poll(*map(int, numbers)))
            case ["gave-up", *_]:
                self.gave_up.append(" ".join(words))
            case _:
                raise ValueError(f"no line of a journal: {words}")

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
