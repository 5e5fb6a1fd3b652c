"""Decides whether a sequence shows a difference, and shortens it.

Requests that are sent together have more than one allowed outcome. If the broker's is
not that of the reference, the reference gets the sequence alone, several times: it is
a difference only if none of these runs ends as the broker's did.
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
from tests.conformance.env import Target

TRIES = 4
AGAIN = 2
FIRST = 6
"""Runs of the reference before all others."""
ENOUGH = 20
"""Runs of the reference after which a difference is one."""


@dataclass
class Finding:
    """A sequence that shows a difference.

    Attributes:
        sequence: as short as it could be made.
        played: how it went the last time.
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
        gate: limits how many sequences are at work at a time.
        runs: times that the reference gets requests that are sent together.
        counted: how often each verdict was given; "races" are different outcomes that
            the reference has, too, "unjudged" those after steps that hardly ever end
            in the same way.
    """

    reference: Target
    broker: Target
    make: MakeSide
    gate: asyncio.Semaphore
    runs: int = 40
    counted: Counter[str] = field(default_factory=Counter)

    async def look_at(
        self, sequence: Sequence, tries: int = TRIES, again: int = AGAIN
    ) -> Finding | None:
        """A difference that the sequence shows, if it does.

        Args:
            sequence: is played.
            tries: times that it is played at most, to get past choices and races.
            again: times that it has to differ, where requests go one after the other.
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
                break  # once more would take a minute
        self.counted[last] += 1
        return None

    async def _outcomes(
        self, sequence: Sequence, wanted: tuple[str, ...]
    ) -> Counter[str]:
        """How the last step ends on the reference alone.

        Every other run sends what is sent together in another order. Only runs count
        in which the steps before the last ended as they did here. It is over when the
        last step has ended as wanted, or often enough in another way.
        """
        found: Counter[str] = Counter()

        async def one(number: int) -> None:
            order = random.Random(number) if number % 2 else None
            played = await play([self.reference], self.make, sequence, self.gate, order)
            outcome = played.outcome(0)
            if played.verdict != SLOW and outcome[:-1] == wanted[:-1]:
                found[outcome[-1]] += 1

        # Most are seen soon; and where there are waits, many runs share one.
        for numbers in (range(FIRST), range(FIRST, self.runs)):
            await asyncio.gather(*(one(number) for number in numbers))
            if wanted[-1] in found:
                break
        return found

    async def shorten(self, finding: Finding) -> Finding:
        """Leaves out steps, first many and then one at a time, while it differs."""
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
