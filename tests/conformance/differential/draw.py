"""Random steps: the fields of each kind, in a table.

A step of a kind is drawn by its weight, and then each of its fields. Whoever draws
decides how: `random.Random(seed)` makes the same sequence each time, hypothesis's
`randoms()` one that it can shorten.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.conformance.differential.sequence import Step

Draw = Callable[[random.Random], Any]
"""Draws a value."""
Fields = Mapping[str, Draw]
"""The fields of a step. A dict that is drawn for "*" is a part of the step."""


def one(*values: Any) -> Draw:
    """One of the values."""
    return lambda rng: rng.choice(values)


def often(weights: Mapping[Any, float]) -> Draw:
    """One of the values, by its weight."""
    return lambda rng: rng.choices([*weights], [*weights.values()])[0]


def number(least: int, most: int) -> Draw:
    """A number, both ends included."""
    return lambda rng: rng.randint(least, most)


def maybe(probability: float, draw: Draw, otherwise: Any = None) -> Draw:
    """A drawn value, or else the other one."""
    return lambda rng: draw(rng) if rng.random() < probability else otherwise


def row(**fields: Draw) -> Draw:
    """A dict of drawn values."""
    return lambda rng: drawn(fields, rng)


def drawn(fields: Fields, rng: random.Random) -> Step:
    """The fields of a step."""
    step = {name: draw(rng) for name, draw in fields.items()}
    return step | (step.pop("*", None) or {})


def kind(weight: float, *parts: Fields, **fields: Draw) -> tuple[float, Fields]:
    """A kind of steps: its weight, and its fields; some may be those of others."""
    made: dict[str, Draw] = {}
    for part in (*parts, fields):
        made |= part
    return weight, made


class Kinds:
    """The kinds of steps of a scene, each made by `kind`."""

    def __init__(self, **kinds: tuple[float, Fields]) -> None:
        self._kinds = kinds

    def step(
        self,
        rng: random.Random,
        actors: Draw,
        among: Collection[str] = (),
        but: Collection[str] = (),
    ) -> Step:
        """A step of any kind.

        Args:
            rng: makes the choices.
            actors: draws the actor.
            among: the kinds to choose from; all by default.
            but: kinds that are left out.
        """
        kinds = [k for k in among or self._kinds if k not in but]
        (do,) = rng.choices(kinds, [self._kinds[k][0] for k in kinds])
        return {"do": do, "actor": actors(rng)} | drawn(self._kinds[do][1], rng)
