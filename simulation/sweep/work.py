"""Plays tasks of a sweep, and keeps the results of each in a file of its own.

A file is named by all that determines its results: the scenario with its changes, the
seeds, and the version of kohort. It appears whole. So a sweep that was interrupted goes
on where it was, and one with more values or seeds plays only these.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from kohort.simulation.scenario.measures import Measures
from kohort.simulation.scenario.runs import Task, begun, forget, quiet, replacing
from kohort.simulation.sweep.grid import MEASURED, Settings

EVENT: Final = "event"
RESULT: Final = "result"

Row = Mapping[str, Any]
"""The result of a run: ``settings``, ``seed``, and ``numbers`` by name."""


def rows_of(
    settings: Settings, seeds: Sequence[int], measures: Sequence[Measures]
) -> str:
    """The results of a task: a line of JSON for each run."""
    lines = []
    for seed, found in zip(seeds, measures, strict=True):
        numbers = {number.name: number.of(found) for number in MEASURED}
        row = {"settings": dict(settings), "seed": seed, "numbers": numbers}
        lines.append(json.dumps(row) + "\n")
    return "".join(lines)


class Results:
    """The results of tasks, in a folder.

    Args:
        folder: need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, task: Task) -> Path:
        about = metadata.version("kohort"), task.scenario.digest(task.seeds)
        return self._folder / f"{sha256(repr(about).encode()).hexdigest()[:32]}.jsonl"

    def has(self, task: Task) -> bool:
        """Returns whether a task is done."""
        return self._path(task).exists()

    def rows(self, task: Task) -> list[Row]:
        """The results of a task that is done."""
        return [*map(json.loads, self._path(task).read_text().splitlines())]

    def keep(self, task: Task, text: str) -> None:
        """Keeps the results of a task; see `rows_of`."""
        write(self._path(task), text)


def write(path: Path, text: str) -> None:
    """Writes a file, whole, in place of the one before."""
    with replacing(path) as file:
        file.write(text.encode())


# -- in an executor


def packed(number: int, settings: Settings, task: Task) -> str:
    """A task as text, with a number for its results; see `lines`."""
    return json.dumps([number, settings, task])


def lines(text: str) -> Iterator[tuple[str, str]]:
    """Plays a task; yields its events and its results.

    Args:
        text: the task; see `packed`.

    Yields:
        `EVENT` and a line of JSON without its end, or `RESULT` and the number of the
        task with `rows_of`, as JSON.
    """
    number, settings, values = json.loads(text)
    task = Task(*values)
    scenario, found = task.scenario, []
    for seed in task.seeds:
        waiting = io.BytesIO()
        with quiet():
            run = begun(scenario, seed, waiting.write)
            for _ in run.steps():
                yield from _taken(waiting)
        yield from _taken(waiting)
        found.append(run.measures())
        del run
        forget()
    yield RESULT, json.dumps([number, rows_of(settings, task.seeds, found)])


def _taken(waiting: io.BytesIO) -> Iterator[tuple[str, str]]:
    """Takes the events that have been written."""
    for line in waiting.getvalue().splitlines():
        yield EVENT, line.decode()
    waiting.seek(0)
    waiting.truncate()
