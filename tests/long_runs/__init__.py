"""Long runs: how they end, what they report, and their command line.

A run plays a load and disturbs the broker meanwhile. Whatever ends it before its time
is a `RunError`; `play` turns that into violations.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 20


class RunError(Exception):
    """Ends a run: the broker, a client or a command failed.

    Args:
        found: one sentence for each violation.
    """

    def __init__(self, *found: str) -> None:
        super().__init__("\n".join(found))
        self.found = found


def hold(found: list[str]) -> None:
    """Ends the run if there are violations."""
    if found:
        raise RunError(*found)


@dataclass(slots=True)
class Report:
    """Result of a run.

    Attributes:
        violations: one sentence each; none if the broker lost nothing.
        seconds: duration of the run.
    """

    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0


def play(
    report: Report, story: Callable[[], object], close: Callable[[], object]
) -> None:
    """Plays a story to its end, or to the first error; the report has the violations.

    Args:
        report: of the run.
        story: the load, the disturbances and the checks.
        close: ends all processes, after an error, too.
    """
    began = time.monotonic()
    try:
        story()
    except* RunError as group:
        report.violations += [line for error in _leaves(group) for line in error.found]
    finally:
        close()
    report.seconds = time.monotonic() - began


def _leaves(group: BaseExceptionGroup[RunError]) -> Iterator[RunError]:
    """The errors in a group, also those in its groups."""
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def parser_of(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m MODULE`, with the option --seed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=(doc or "").partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, help="replays a run; random by default")
    return parser


class LongRun:
    """A run in a temporary folder, which is kept if there are violations.

    Args:
        name: a word for the folder.
        seed: of the run; None for a random one.
        parent: of the folder; None for the system's.

    Attributes:
        folder: for data, journals and logs.
        seed: of the run.
    """

    def __init__(self, name: str, seed: int | None, parent: Path | None = None) -> None:
        self.seed = random.randrange(1 << 32) if seed is None else seed
        self.folder = Path(tempfile.mkdtemp(prefix=f"kohort-{name}-", dir=parent))
        self._began = time.monotonic()
        print(f"seed {self.seed}; everything is in {self.folder}", flush=True)

    def progress(self, line: str) -> None:
        """Prints a line after the seconds since the start."""
        print(f"{time.monotonic() - self._began:6.0f} s  {line}", flush=True)

    def finish(self, report: Report, told: str, again: str) -> int:
        """Prints the results; removes the folder if there are no violations.

        Args:
            report: of the run.
            told: its figures, as text.
            again: the command that repeats the run, without its seed.

        Returns:
            The exit status.
        """
        violations = report.violations
        print(f"\n{told}\nviolations: {len(violations)}")
        for each in violations[:SHOWN]:
            print(f"  {each}")
        if len(violations) > SHOWN:
            print(f"  and {len(violations) - SHOWN} more")
        if violations:
            print(f"kept: {self.folder}; again: {again} --seed {self.seed}")
            return 1
        shutil.rmtree(self.folder)
        return 0
