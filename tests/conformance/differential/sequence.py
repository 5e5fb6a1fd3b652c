"""A sequence of steps, and what it needs to be played."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

Step = dict[str, Any]
"""What to do, as JSON: `do` is the kind, the other fields depend on it. Steps name
members by actor, so that any part of a sequence can be played."""

MARGIN_S = 0.5
"""Between the last step of a burst and the first timer that might run out."""
LEAST_MARGIN_S = 0.2
"""Between the end of what came of it and that timer."""


@dataclass(frozen=True)
class Sequence:
    """Steps, and the timers that may run out among them.

    Attributes:
        steps: in order.
        timers_ms: timeouts that are short enough to run out; empty if all are long.
    """

    steps: list[Step]
    timers_ms: tuple[int, ...] = ()

    @property
    def burst_s(self) -> float:
        """The longest that steps between two waits may take: no timer runs out."""
        return self.calm_s + LEAST_MARGIN_S - MARGIN_S

    @property
    def calm_s(self) -> float:
        """The time from the start of a burst in which no timer runs out."""
        if not self.timers_ms:
            return math.inf
        return min(self.timers_ms) / 1000 - LEAST_MARGIN_S

    @property
    def quiet_s(self) -> float:
        """No timer is left that runs out if nothing has changed for as long."""
        # An initial delay whose window had an arrival goes on for another one.
        return 2 * max(self.timers_ms) / 1000 + 0.3 if self.timers_ms else 0.0

    def without(self, start: int, end: int) -> Sequence:
        """The sequence without the steps from one position to another."""
        return replace(self, steps=self.steps[:start] + self.steps[end:])

    def up_to(self, number: int) -> Sequence:
        """Its first steps, so many."""
        return replace(self, steps=self.steps[:number])
