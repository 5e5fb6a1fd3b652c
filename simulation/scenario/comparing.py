"""Compares two scenarios: the better one, by how much, with intervals from the seeds.

Runs with the same seed are a pair. The interval of a mean is Student's: with the 95 %
quantile of t for as many pairs as there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import Final

from kohort.protocol.slotted import slotted
from kohort.simulation.scenario.measures import Measures, Number, numbers_of

FEWEST: Final = 5
"""Runs for an interval: the expansion of t is within 1 % from here on."""
CONFIDENCE: Final = 0.95
_Z: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@slotted
class Interval:
    """A mean and its 95 % interval; without bounds: too few numbers."""

    mean: float
    low: float | None
    high: float | None

    @property
    def is_clear(self) -> bool:
        """True if it does not include 0."""
        return (
            self.low is not None
            and self.high is not None
            and (self.low > 0 or self.high < 0)
        )


def quantile(freedom: int) -> float:
    """Student's t for the interval, from 4 degrees of freedom on.

    The expansion of Cornish and Fisher (Abramowitz and Stegun, 26.7.5).
    """
    z = _Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / float(freedom) ** power for power, term in enumerate(terms))


def interval(values: Sequence[float]) -> Interval:
    """The mean of some numbers, and its interval."""
    mean, count = fmean(values), len(values)
    if count < FEWEST:
        return Interval(mean, None, None)
    reach = quantile(count - 1) * stdev(values) / math.sqrt(count)
    return Interval(mean, mean - reach, mean + reach)


@slotted
class Difference:
    """A number in two scenarios.

    Attributes:
        number: the number.
        first, second: its means.
        by: the second one less the first one, in pairs.
    """

    number: Number
    first: float
    second: float
    by: Interval

    @property
    def better(self) -> int:
        """The better scenario, 0 or 1; -1: neither clearly is."""
        is_less = self.number.is_better_less
        if is_less is None or not self.by.is_clear:
            return -1
        return int((self.by.mean < 0) == is_less)

    def cells(self) -> tuple[str, str, str, str, str]:
        """A row of a table, with the headings `HEADINGS`."""
        number, by = self.number, self.by
        known = by.low is not None and by.high is not None
        bounds = f"{by.low:+,.1f} to {by.high:+,.1f}" if known else None
        means = f"{self.first:,.1f}", f"{self.second:,.1f}", f"{by.mean:+,.1f}"
        return number.title, *means, bounds or "too few"


def compare(first: Sequence[Measures], second: Sequence[Measures]) -> list[Difference]:
    """Compares runs of two scenarios with the same seeds, in the same order."""
    found = []
    for number in numbers_of([*first, *second]):
        ours, theirs = [*map(number.of, first)], [*map(number.of, second)]
        by = interval([b - a for a, b in zip(ours, theirs, strict=True)])
        found.append(Difference(number, fmean(ours), fmean(theirs), by))
    return found


def verdict(
    differences: Sequence[Difference], names: tuple[str, str], pairs: int
) -> str:
    """Names the better scenario, in a sentence.

    Partitions without a reader decide; without a clear difference there, the first
    number with one.
    """
    if pairs < FEWEST:
        return f"There are too few seeds for intervals: at least {FEWEST} are needed."
    in_order = sorted(differences, key=lambda each: each.number.name != "unread_s")
    clear = [each for each in in_order if each.better >= 0]
    if not clear:
        return "Neither is clearly better: each 95 % interval includes 0."
    main, *others = clear
    _, first, second, by, bounds = main.cells()
    said = (
        f"{names[main.better]} is better: {first} {main.number.title} per run in"
        f" {names[0]}, {second} in {names[1]}, a difference of {by}"
        f" (95 % interval {bounds}, {pairs} pairs)."
    )
    for text, is_same in (("also better", True), ("worse", False)):
        named = [
            each.number.title.strip()
            for each in others
            if (each.better == main.better) == is_same
        ]
        if named:
            said += f" It is {text} in: {'; '.join(named)}."
    return said
