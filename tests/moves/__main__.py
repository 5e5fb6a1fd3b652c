"""Moves coordinators, partitions and nodes under groups of real members.

    python -m tests.moves --moves 100

Exits 0 if every group settles and no commit is lost, else 1; then all logs are kept.
"""

from __future__ import annotations

import argparse
import sys

from tests.long_runs import LongRun, parser_of
from tests.moves.play import Play, Report, Settings


def _asked() -> argparse.Namespace:
    parser = parser_of("tests.moves", __doc__)
    parser.add_argument("--moves", type=int, default=100)
    return parser.parse_args()


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _told(report: Report) -> str:
    return (
        f"{_counted(report.done)} in {report.seconds:.0f} s, "
        f"told by {_counted(report.ways)}\n"
        f"generations: {report.generations}\n"
        f"acknowledged: {report.records} records, {report.commits} offsets\n"
        f"consumed by groups: {report.consumed} records"
    )


def main() -> int:
    """Plays it, and prints the results."""
    asked = _asked()
    long = LongRun("moves", asked.seed)
    report = Play(Settings(asked.moves, long.seed, long.folder), long.progress).play()
    again = f"python -m tests.moves --moves {asked.moves}"
    return long.finish(report, _told(report), again)


if __name__ == "__main__":
    sys.exit(main())
