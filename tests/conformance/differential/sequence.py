"""A sequence of steps, and the times to play it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

Step = dict[str, Any]
"""A step as JSON: `do` is the kind, the other fields depend on it. Steps name members
by actor, so that any part of a sequence can be played."""

MARGIN_S = 0.5
"""Between the last step of a burst and the first timer that might fire."""
LEAST_MARGIN_S = 0.2
"""Between the end of its results and that timer."""


@dataclass(frozen=True)
class Sequence:
    """Steps, and the timers that may fire among them.

    Attributes:
        steps: in order.
        timers_ms: timeouts that are short enough to fire; empty if all are long.
    """

    steps: list[Step]
    timers_ms: tuple[int, ...] = ()

    @property
    def burst_s(self) -> float:
        """The longest time of a burst in which no timer fires."""
        return self.calm_s + LEAST_MARGIN_S - MARGIN_S

    @property
    def calm_s(self) -> float:
        """The time from the start of a burst in which no timer fires."""
        if not self.timers_ms:
            return math.inf
        return min(self.timers_ms) / 1000 - LEAST_MARGIN_S

    @property
    def quiet_s(self) -> float:
        """Time without a change after which no timer is left."""
        # After a window with an arrival, an initial delay has another one.
        return 2 * max(self.timers_ms) / 1000 + 0.3 if self.timers_ms else 0.0

    def without(self, start: int, end: int) -> Sequence:
        """The sequence without the steps from one position to another."""
        return replace(self, steps=self.steps[:start] + self.steps[end:])

    def up_to(self, number: int) -> Sequence:
        """Its first steps."""
        return replace(self, steps=self.steps[:number])
