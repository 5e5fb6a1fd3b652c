"""Sums up the results of a sweep: means, intervals, and settings that meet a goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from kohort.protocol.slotted import slotted
from kohort.simulation.scenario.comparing import Interval, interval
from kohort.simulation.sweep.grid import MEASURED, Goal, Settings
from kohort.simulation.sweep.work import Row

_PLACES: Final = ("settings", "config")
"""Tables whose keys are Kafka's."""


@slotted
class Point:
    """A combination of settings, and its runs.

    Attributes:
        settings: the settings.
        numbers: the mean of each number, by name.
    """

    settings: Settings
    numbers: Mapping[str, Interval]

    def meets(self, goal: Goal) -> bool:
        """Returns whether the number is below the goal, with its interval if known."""
        found = self.numbers[goal.number.name]
        return (found.mean if found.high is None else found.high) <= goal.most


def summed_up(rows: Iterable[Row]) -> list[Point]:
    """The points of a sweep, in the order of their first runs."""
    by_settings: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        by_settings.setdefault(tuple(row["settings"].items()), []).append(row)
    return [
        Point(
            dict(settings),
            {
                number.name: interval([row["numbers"][number.name] for row in runs])
                for number in MEASURED
            },
        )
        for settings, runs in by_settings.items()
    ]


def short(keys: Iterable[str]) -> dict[str, str]:
    """Names of keys for readers: Kafka's own, or the last part, if no two are alike."""
    names = {}
    for key in keys:
        names[key] = key.rpartition(".")[2]
        for place in _PLACES:
            if f".{place}." in key:
                names[key] = key.partition(f".{place}.")[2]
    known = [*names.values()]
    return {key: n if known.count(n) == 1 else key for key, n in names.items()}


def recommendation(
    grid: Mapping[str, Sequence[str]], points: Sequence[Point], goals: Sequence[Goal]
) -> str:
    """The settings that meet all of some goals, in words."""
    passing = [point.settings for point in points if all(map(point.meets, goals))]
    if not passing:
        first = goals[0].number.name
        best = min(points, key=lambda point: point.numbers[first].mean)
        names = short(grid)
        nearest = ", ".join(f"{names[k]}={v}" for k, v in best.settings.items())
        return (
            f"no settings of this grid; the nearest are {nearest}, with a mean of"
            f" {best.numbers[first].mean:,.1f}"
        )
    return "; ".join(_clauses(grid, passing, ()))


def _clauses(
    grid: Mapping[str, Sequence[str]],
    passing: Sequence[Settings],
    within: Sequence[str],
) -> Iterator[str]:
    """Describes a part of the grid: as ranges of its keys, or else value by value.

    Args:
        grid: the keys that are not fixed.
        passing: the settings that meet the goal.
        within: the keys that are fixed, with their values.
    """
    names = short(grid)
    sides = {
        key: [v for v in values if any(s[key] == v for s in passing)]
        for key, values in grid.items()
    }
    if len(passing) == prod(map(len, sides.values())):
        limits = [
            _limit(names[key], sides[key], values)
            for key, values in grid.items()
            if len(sides[key]) < len(values)
        ]
        found = " and ".join(limits) or "all settings of this grid"
        yield f"with {', '.join(within)}: {found}" if within else found
        return
    # First the keys whose values have no order.
    key = min(sides, key=lambda key: (all(map(_is_number, grid[key])), len(grid[key])))
    others = {other: values for other, values in grid.items() if other != key}
    for value in sides[key]:
        some = [settings for settings in passing if settings[key] == value]
        yield from _clauses(others, some, (*within, f"{names[key]}={value}"))


def _limit(name: str, side: Sequence[str], values: Sequence[str]) -> str:
    if all(map(_is_number, values)):
        in_order, inner = sorted(values, key=float), sorted(side, key=float)
        if inner == in_order[: len(inner)]:
            return f"{name} at most {inner[-1]}"
        if inner == in_order[-len(inner) :]:
            return f"{name} at least {inner[0]}"
    return f"{name}={' or '.join(side)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
