"""A sweep: its scenario, the grid of its settings, its seeds and its goals."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from math import prod
from pathlib import Path
from typing import Any, Final

from kohort.protocol.slotted import slotted
from kohort.simulation.scenario import happenings, model, reading
from kohort.simulation.scenario.measures import NUMBERS, REBALANCES, Number
from kohort.simulation.scenario.model import Scenario
from kohort.simulation.scenario.reading import ScenarioError, Table
from kohort.simulation.scenario.runs import Task, task_of
from kohort.simulation.scenario.toml import is_distribution, value_of

MOST_RUNS: Final = 1_000_000
MEASURED: Final[Sequence[Number]] = (REBALANCES, *NUMBERS)
"""The numbers of a sweep. CPU is none of them: results must not depend on machines."""
_BY_NAME: Final = {number.name: number for number in MEASURED}

Settings = Mapping[str, str]
"""The keys of a grid, and one value of each."""


@slotted
class Goal:
    """A number that shall be small.

    Attributes:
        number: the number.
        most: the largest value that meets the goal, on average per run.
    """

    number: Number
    most: float

    @property
    def title(self) -> str:
        """The goal in words."""
        return f"{self.number.title.strip()} at most {self.most:g} per run"


@slotted
class Sweep:
    """A sweep.

    Attributes:
        name: that of its file.
        title: one line.
        grid: the values of each key.
        points: the scenario with each combination of them.
        seeds: a run of each point for each.
        seeds_per_task: runs that are played together.
        goals: its goals.
    """

    name: str
    title: str
    grid: Mapping[str, Sequence[str]]
    points: Sequence[tuple[Settings, Scenario]]
    seeds: Sequence[int]
    seeds_per_task: int
    goals: Sequence[Goal]

    def tasks(self, lake: Path | None = None) -> Iterator[tuple[Settings, Task]]:
        """The tasks, with the settings of each.

        Args:
            lake: gets their events; None: no events are kept.
        """
        for settings, scenario in self.points:
            for first in range(0, len(self.seeds), self.seeds_per_task):
                seeds = self.seeds[first : first + self.seeds_per_task]
                yield settings, task_of(scenario, seeds, lake=lake)


def ready_sweeps() -> dict[str, str]:
    """The sweeps that kohort brings, by name: their TOML."""
    folder = resources.files("kohort.simulation").joinpath("sweeps")
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    return {each.name.removesuffix(".toml"): each.read_text() for each in found}


def load(
    name: str,
    changes: Sequence[tuple[str, str]] = (),
    seeds: Sequence[int] | None = None,
) -> Sweep:
    """Reads a sweep.

    Args:
        name: of a ready one, or of a file.
        changes: keys and values of the scenario to change in all runs.
        seeds: in place of its own.

    Raises:
        ScenarioError: there is none, or it or its scenario has a mistake.
    """
    ready = ready_sweeps()
    toml, folder = ready.get(name), Path()
    try:
        if toml is None:
            toml, folder = Path(name).read_text(), Path(name).parent
        values = tomllib.loads(toml)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        names = ", ".join(ready)
        raise ScenarioError(f"{name}: {reason}; ready sweeps are {names}") from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}: {error}") from None
    return parse(Path(name).stem, values, folder, changes, seeds)


def parse(
    name: str,
    values: Mapping[str, Any],
    folder: Path,
    changes: Sequence[tuple[str, str]] = (),
    seeds: Sequence[int] | None = None,
) -> Sweep:
    """Checks the values of a sweep.

    Args:
        name: its name.
        values: as TOML has them.
        folder: where the file of its scenario is searched for.
        changes: see `load`.
        seeds: see `load`.

    Raises:
        ScenarioError: it has a mistake.
    """
    root = Table("", values)
    of = root.take("scenario", reading.text)
    file = folder / of
    base = model.load(str(file) if file.exists() else of)
    always = {key: _text(value) for key, value in _leaves(root.take("set", dict, {}))}
    base = base.changed([*always.items(), *changes])
    happenings.read(base)
    grid = {
        key: _values(f"grid.{key}", value)
        for key, value in _leaves(root.take("grid", dict))
    }
    own = root.take("seeds", reading.seeds, range(10))
    sweep = Sweep(
        name,
        root.take("title", reading.text, name),
        grid,
        _points(base, grid),
        seeds or own,
        root.take("seeds_per_task", reading.count(1, MOST_RUNS), 5),
        [*_goals(root.table("goals"))],
    )
    root.close()
    runs = len(sweep.points) * len(sweep.seeds)
    if runs > MOST_RUNS:
        raise ScenarioError(f"grid: has {runs:,} runs, the limit is {MOST_RUNS:,}")
    return sweep


def _points(
    base: Scenario, grid: Mapping[str, Sequence[str]]
) -> list[tuple[Settings, Scenario]]:
    if not grid or prod(map(len, grid.values())) > MOST_RUNS:
        raise ScenarioError(f"grid: must have 1 to {MOST_RUNS:,} combinations")
    combinations = [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]
    return [(each, base.changed(each.items())) for each in combinations]


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys with dots, and their values; tables are keys with dots, too."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not is_distribution(key):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _values(place: str, values: Any) -> list[str]:
    if not isinstance(values, list) or not values:
        raise ScenarioError(f"{place}: {values!r}: must be a list of values")
    return [*dict.fromkeys(map(_text, values))]


def _text(value: Any) -> str:
    """A value as ``--set`` takes it."""
    return value if isinstance(value, str) else value_of(value)


def _goals(table: Table) -> Iterator[Goal]:
    for name, number in _BY_NAME.items():
        most = table.take(name, reading.number, None)
        if most is not None:
            yield Goal(number, most)
    table.close()
