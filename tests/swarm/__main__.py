"""Random worlds in virtual time, checked from outside: the swarm.

    python -m tests.swarm --seconds 300 --seed 1

Each seed gives a world; see `tests.swarm.worlds`. The first violation ends the swarm:
the world is reduced to the smallest one that still fails, and printed as a scenario
with the command that replays it, and the exit code is 1. With --bug, a bug is planted
first.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.long_runs import parser_of
from tests.swarm.bugs import BUGS, plant
from tests.swarm.worlds import world

from kohort.simulation.checking.run import Finding
from kohort.simulation.checking.shrink import find, report
from kohort.simulation.scenario.runs import quiet

CHUNK = 20
"""Worlds of a task."""
PROGRESS_S = 30.0
SHRINK_S = 60.0


def played(seeds: range) -> tuple[int, Finding | None]:
    """Plays some worlds, up to the first violation; returns their number, too."""
    for number, seed in enumerate(seeds, 1):
        with quiet():
            found = find("swarm", world(seed), seed)
        if found is not None:
            return number, found
    return len(seeds), None


def _chunks(first: int, most: int | None, until: float) -> Iterator[range]:
    """The seeds, until the time is over."""
    last = sys.maxsize if most is None else first + most
    while first < last and time.monotonic() < until:
        yield range(first, min(first + CHUNK, last))
        first += CHUNK


def swarm(first: int, most: int | None, seconds: float) -> tuple[int, Finding | None]:
    """Plays worlds on all cores; returns their number, and the first violation."""
    began = shown = time.monotonic()
    tasks = _chunks(first, most, began + seconds)
    count, cores = 0, os.cpu_count() or 1
    with multiprocessing.Pool(cores) as pool:
        # A few tasks at a time: the pool would take all of them at once.
        waiting = [
            pool.apply_async(played, (seeds,))
            for _, seeds in zip(range(2 * cores), tasks, strict=False)
        ]
        while waiting:
            number, found = waiting.pop(0).get()
            count += number
            if found is not None:
                return count, found
            if (seeds := next(tasks, None)) is not None:
                waiting.append(pool.apply_async(played, (seeds,)))
            if time.monotonic() - shown >= PROGRESS_S:
                shown = time.monotonic()
                print(f"{shown - began:6.0f} s  {count:,} worlds", flush=True)
    return count, None


def main() -> int:
    """Runs it, and prints the results."""
    parser = parser_of("tests.swarm", __doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--worlds", type=int, help="no limit by default")
    parser.add_argument("--bug", choices=BUGS, help="to be found")
    asked = parser.parse_args()
    seed = time.time_ns() % 2**32 if asked.seed is None else asked.seed
    print(f"worlds from seed {seed} on", flush=True)
    if asked.bug:
        plant(asked.bug)
    count, found = swarm(seed, asked.worlds, asked.seconds)
    if found is not None:
        with quiet():
            print(report("swarm", world(found.seed), found, SHRINK_S))
    print(f"{count:,} worlds, {'1 violation' if found else 'no violations'}")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main())
