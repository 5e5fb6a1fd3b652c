"""Soaks a broker: 300 members in 30 groups, churn and faults; then finds leftovers.

    python -m tests.soak --minutes 30

Exits 0 if memory stays flat, nothing is left over, and no acknowledged record or commit
is lost; else 1, and then data, journals and logs are kept.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import GROUPS, WORKERS, Soak

SHOWN = 20


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="of the faults; random without")
    return parser.parse_args()


def main() -> int:
    """Soaks, and prints the leftovers."""
    asked = _asked()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    folder = Path(tempfile.mkdtemp(prefix="kohort-soak-"))
    print(
        f"{GROUPS * WORKERS} members in {GROUPS} groups; seed {seed}; "
        f"everything is in {folder}",
        flush=True,
    )
    began = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    soak = Soak(folder, asked.minutes * 60, seed, progress)
    report = asyncio.run(soak.play())
    faults = ", ".join(f"{count} {name}" for name, count in report.faults.items())
    print(
        f"\nfaults: {faults}\n"
        f"acknowledged: {report.records} records, {report.commits} offsets\n"
        f"violations: {len(report.violations)}"
    )
    for each in report.violations[:SHOWN]:
        print(f"  {each}")
    if report.violations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
