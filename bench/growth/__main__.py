"""Growth of the cost of operations with the size of groups, topics and the log.

Starts a broker for each size, does the same operations to each, in turns, and prints
the broker's CPU time for one operation at each size, the best of all rounds, and the
ratio of the largest size's to the least of the others:

    python -m bench.growth
    python -m bench.growth --quick --check
    python -m bench.growth --only Metadata Fetch

Linux only: the CPU time of another process is read.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import sys
import time
from collections.abc import Sequence

from bench.growth import fetches, groups, loads, topics
from bench.growth.scene import Row

ROWS = [*groups.ROWS, *loads.ROWS, *topics.ROWS, *fetches.ROWS]


def costs_of(row: Row, sizes: Sequence[int], rounds: int) -> list[float]:
    """The least cost at each size, in us, of rounds in which the sizes take turns.

    Costs that seem to grow get up to four times as many further rounds: other work of
    the machine can only add to a cost.
    """
    with contextlib.ExitStack() as stack:
        measures = [stack.enter_context(row.scene(size)) for size in sizes]
        costs = [math.inf for _ in sizes]
        for done in range(5 * rounds):
            if done >= rounds and growth_of(costs) <= row.bound:
                break
            costs = [min(cost, f()) for cost, f in zip(costs, measures, strict=True)]
        return costs


def growth_of(costs: Sequence[float]) -> float:
    """The cost of the largest size, in the least cost of the others."""
    return costs[-1] / min(costs[:-1])


def main() -> int:
    """Measures and prints a table; returns 1 if a cost grows with `--check`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--check", action="store_true", help="fail past a bound")
    parser.add_argument("--only", nargs="+", help="rows with one of these words")
    parser.add_argument("--rounds", type=int, help="3, or 2 with --quick")
    asked = parser.parse_args()
    rounds = asked.rounds or (2 if asked.quick else 3)
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}; broker CPU time in us, "
        f"the best of {rounds} rounds\n\n"
        "| operation, and growth of | sizes | us | per | ratio | bound, because |\n"
        "| --- | ---: | ---: | --- | ---: | --- |"
    )
    grown = []
    for row in ROWS:
        if asked.only and not any(word in row.name for word in asked.only):
            continue
        sizes = row.quick if asked.quick else row.sizes
        costs = costs_of(row, sizes, rounds)
        ratio = growth_of(costs)
        print(
            f"| {row.name} | {' / '.join(f'{size:,}' for size in sizes)} "
            f"| {' / '.join(f'{cost:.4g}' for cost in costs)} | {row.unit} "
            f"| {ratio:.2f} | {row.bound}: {row.reason} |",
            flush=True,
        )
        if ratio > row.bound:
            grown.append(row.name)
    for name in grown:
        print(f"grows: {name}", file=sys.stderr)
    return 1 if grown and asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
