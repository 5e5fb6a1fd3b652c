"""Distributions of random numbers: latencies, pauses, times of processing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Final

from kohort.protocol.slotted import slotted

CONSTANT: Final = "constant"
_Z99: Final = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""


@slotted
class Distribution:
    """A distribution of non-negative numbers.

    Its words in a scenario: a number is always the same; ``{uniform = [a, b]}`` lies
    between two; ``{exponential = mean}``; ``{median = m, p99 = p}`` is log-normal, as
    latencies and pauses nearly are.
    """

    kind: str
    a: float
    b: float = 0.0

    def draw(self, random: Random) -> float:
        """The next number."""
        kind = self.kind
        if kind == CONSTANT:
            return self.a
        if kind == "uniform":
            return self.a + (self.b - self.a) * random.random()
        if kind == "exponential":
            return -self.a * math.log(1.0 - random.random())
        return self.a * math.exp(self.b * random.gauss(0.0, 1.0))

    def scaled(self, factor: float) -> Distribution:
        """The distribution of the numbers times a factor."""
        is_range = self.kind == "uniform"
        return Distribution(
            self.kind, self.a * factor, self.b * factor if is_range else self.b
        )


def constant(value: float) -> Distribution:
    """Always the same number."""
    return Distribution(CONSTANT, value)


def read(value: object) -> Distribution:
    """The distribution that a scenario names; see `Distribution`.

    Raises:
        ValueError: it is none; the message says what is allowed.
    """
    match value:
        case bool():
            pass
        case int() | float() if value >= 0:
            return constant(float(value))
        case {"uniform": [int() | float() as a, int() | float() as b], **rest} if (
            not rest and 0 <= a <= b
        ):
            return Distribution("uniform", float(a), float(b))
        case {"exponential": int() | float() as mean, **rest} if not rest and mean >= 0:
            return Distribution("exponential", float(mean))
        case {"median": int() | float() as median, "p99": int() | float() as p99}:
            if isinstance(value, Mapping) and len(value) == 2 and 0 < median <= p99:
                sigma = math.log(p99 / median) / _Z99
                return Distribution("log-normal", float(median), sigma)
    raise ValueError(
        f"{value!r}: must be a number from 0 on, {{uniform = [least, most]}}, "
        "{exponential = mean} or {median = ..., p99 = ...}"
    )
