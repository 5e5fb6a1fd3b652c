"""Moves coordinators, partitions and nodes under groups of real members.

    python -m tests.moves --moves 100

Exits 0 if every group settles and no commit is lost, else 1; then the journals and
the broker's log are kept.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.load import WorkerError
from tests.crash.served import BrokerError
from tests.moves.cluster import MoveError
from tests.moves.play import Play, Report, Settings

SHOWN = 20


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.moves", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--seed", type=int, help="replays the moves; random without")
    return parser.parse_args()


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _show(report: Report) -> None:
    print(
        f"\n{_counted(report.done)} in {report.seconds:.0f} s, "
        f"told by {_counted(report.ways)}\n"
        f"generations: {report.generations}\n"
        f"acknowledged: {report.records} records, {report.commits} offsets\n"
        f"consumed by groups: {report.consumed} records\n"
        f"violations: {len(report.violations)}"
    )
    for each in report.violations[:SHOWN]:
        print(f"  {each}")


def main() -> int:
    """Plays it, and prints what happened."""
    asked = _asked()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    folder = Path(tempfile.mkdtemp(prefix="kohort-moves-"))
    print(f"seed {seed}; everything is in {folder}", flush=True)
    began = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    play = Play(Settings(asked.moves, seed, folder), progress)
    try:
        report = play.play()
    except (BrokerError, MoveError, WorkerError) as error:
        report = play.report
        report.violations.append(str(error))
    _show(report)
    if report.violations:
        again = f"--moves {asked.moves} --seed {seed}"
        print(f"kept: {folder}; again: python -m tests.moves {again}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
