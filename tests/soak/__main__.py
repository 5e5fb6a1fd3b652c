"""Soaks a broker: 300 members in 30 groups, churn and faults; then looks for leftovers.

    python -m tests.soak --minutes 30

Exits 0 if memory stays flat, nothing is left over, and no acknowledged record or commit
is lost; else 1, and then data and logs are kept.
"""

from __future__ import annotations

import argparse
import sys

from tests.long_runs import LongRun, parser_of
from tests.soak.run import GROUPS, WORKERS, Soak


def _asked() -> argparse.Namespace:
    parser = parser_of("tests.soak", __doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    return parser.parse_args()


def main() -> int:
    """Soaks, and prints the leftovers."""
    asked = _asked()
    print(f"{len(GROUPS) * WORKERS} members in {len(GROUPS)} groups")
    long = LongRun("soak", asked.seed)
    report = Soak(long.folder, asked.minutes * 60, long.seed, long.progress).play()
    faults = ", ".join(f"{count} {name}" for name, count in report.faults.items())
    told = (
        f"faults: {faults}\n"
        f"acknowledged: {report.records} records, {report.commits} offsets\n"
        f"consumed by groups: {report.consumed} records"
    )
    again = f"python -m tests.soak --minutes {asked.minutes:g}"
    return long.finish(report, told, again)


if __name__ == "__main__":
    sys.exit(main())
