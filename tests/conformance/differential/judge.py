"""Decides whether a sequence shows a difference, and shortens it.

Requests that are sent together have more than one allowed outcome. If the broker's
outcome differs from the reference's, the reference gets the sequence alone, several
times: it is a difference only if none of these runs ends as the broker's did.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from tests.conformance.differential.lockstep import (
    DIFFERENT,
    SAME,
    SLOW,
    MakeSide,
    Played,
    play,
)
from tests.conformance.differential.sequence import Sequence
from tests.conformance.env import Stage

TRIES = 4
AGAIN = 2
RUNS = 40
"""Runs of the reference for requests that are sent together."""
FIRST = 6
"""Runs of the reference before all others."""
ENOUGH = 20
"""Runs of the reference after which a difference counts."""


@dataclass
class Finding:
    """A sequence that shows a difference.

    Attributes:
        sequence: shortened as far as possible.
        played: its last play.
        outcomes: of the reference alone, see the head of this module.
    """

    sequence: Sequence
    played: Played
    outcomes: Counter[str] | None = None


@dataclass
class Judge:
    """Plays sequences on both brokers.

    Attributes:
        reference: Apache Kafka.
        broker: compared with it.
        make: a side for a broker.
        gate: limits the number of sequences at work at a time.
        runs: see `RUNS`.
        counted: number of each verdict; "races" are different outcomes that the
            reference has, too, "unjudged" those after steps that hardly ever end in the
            same way.
        slow: the sequences that were slow in each try.
    """

    reference: Stage
    broker: Stage
    make: MakeSide
    gate: asyncio.Semaphore
    runs: int = RUNS
    counted: Counter[str] = field(default_factory=Counter)
    slow: list[Sequence] = field(default_factory=list)

    async def look_at(
        self, sequence: Sequence, tries: int = TRIES, again: int = AGAIN
    ) -> Finding | None:
        """Returns a difference that the sequence shows, or None.

        Args:
            sequence: to play.
            tries: maximum number of plays, to get past choices and races.
            again: number of times that it has to differ, if requests are sent one after
                the other.
        """
        differed = 0
        last = SLOW
        for _ in range(tries):
            both = [self.reference, self.broker]
            played = await play(both, self.make, sequence, self.gate)
            last = played.verdict
            if last == SAME:
                break
            if last != DIFFERENT:
                continue
            if not played.is_raced:
                differed += 1
                if differed == again:
                    return Finding(sequence, played)
                continue
            outcome = played.outcome(1)
            last_step = played.moments[-1].number
            outcomes = await self._outcomes(sequence.up_to(last_step), outcome)
            if outcome[-1] in outcomes:
                self.counted["races"] += 1
            elif outcomes.total() >= ENOUGH:
                return Finding(sequence, played, outcomes)
            else:
                self.counted["unjudged"] += 1
            if sequence.timers_ms:
                break  # another run would take a minute
        self.counted[last] += 1
        if last == SLOW:
            self.slow.append(sequence)
        return None

    async def _outcomes(
        self, sequence: Sequence, wanted: tuple[str, ...]
    ) -> Counter[str]:
        """The outcomes of the last step on the reference alone.

        Every other run sends simultaneous requests in another order. Only runs count in
        which the earlier steps ended as they did here. It ends when the last step has
        ended as wanted, or often enough in another way.
        """
        found: Counter[str] = Counter()

        async def one(number: int) -> None:
            order = random.Random(number) if number % 2 else None
            played = await play([self.reference], self.make, sequence, self.gate, order)
            outcome = played.outcome(0)
            if played.verdict != SLOW and outcome[:-1] == wanted[:-1]:
                found[outcome[-1]] += 1

        # Most are found soon; and with waits, many runs can wait together.
        for numbers in (range(FIRST), range(FIRST, self.runs)):
            await asyncio.gather(*(one(number) for number in numbers))
            if wanted[-1] in found:
                break
        return found

    async def shorten(self, finding: Finding) -> Finding:
        """Removes steps, first many and then one at a time, while it differs."""
        steps = finding.played.moments[-1].number
        finding = replace(finding, sequence=finding.sequence.up_to(steps))
        size = max(1, steps // 2)
        while True:
            end = len(finding.sequence.steps) - 1  # the last step shows the difference
            while end > 0:
                start = max(0, end - size)
                shorter = finding.sequence.without(start, end)
                found = await self.look_at(shorter, tries=2, again=1)
                finding = found or finding
                end = start
            if size == 1:
                return finding
            size //= 2
