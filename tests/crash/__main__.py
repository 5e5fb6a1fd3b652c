"""Kills a broker under load, again and again, and says what it lost.

    python -m tests.crash --kills 200

Exits 0 if nothing that was acknowledged is lost, 1 if something is; then the data
directory, the journals and the broker's log are kept.
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
from tests.crash.run import Report, Run, Settings
from tests.crash.served import BrokerError

SHOWN = 20


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, help="replays a schedule; random without")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="as --set"
    )
    return parser.parse_args()


def _show(report: Report) -> None:
    kinds = ", ".join(f"{count} {kind.value}" for kind, count in report.kills.items())
    print(
        f"\nkills: {report.kills.total()} ({kinds}) in {report.seconds:.0f} s; "
        f"longest start {report.longest_start_s:.2f} s\n"
        f"acknowledged: {report.records} records, {report.commits} offsets, "
        f"{report.steps} steps of topic owners\n"
        f"consumed by groups: {report.consumed} records\n"
        f"Stable groups found as they were: {report.resumed}\n"
        f"violations: {len(report.violations)}"
    )
    for each in report.violations[:SHOWN]:
        print(f"  {each}")
    if len(report.violations) > SHOWN:
        print(f"  and {len(report.violations) - SHOWN} more")


def main() -> int:
    """Runs it, and prints what happened."""
    asked = _asked()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    folder = Path(tempfile.mkdtemp(prefix="kohort-crash-"))
    config = dict(each.split("=", 1) for each in asked.config)
    print(f"seed {seed}; everything is in {folder}", flush=True)
    began = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    settings = Settings(asked.kills, seed, asked.nodes, folder, config)
    run = Run(settings, progress)
    try:
        report = run.play()
    except (BrokerError, WorkerError) as error:
        report = run.report
        report.violations.append(str(error))
    _show(report)
    if report.violations:
        again = f"--kills {asked.kills} --seed {seed} --nodes {asked.nodes}"
        print(f"kept: {folder}; again: python -m tests.crash {again}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
