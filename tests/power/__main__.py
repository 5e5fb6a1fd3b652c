"""Cuts a broker's power, repeatedly, and prints the losses.

    python -m tests.power --seed 7 --cuts 2000

Exits 0 if no data that was on the disk is lost, 1 if some is; then the images are kept.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from tests import long_runs
from tests.long_runs import LongRun, parser_of
from tests.power.disk import KINDS, Kind
from tests.power.run import Report, Run, Settings

from kohort.broker import telemetry

PROMISED: tuple[Kind, ...] = ("journal", "folders")
"""The kinds of disk on which kohort loses nothing."""
FLUSHES = ("1", "default")
MEMORY = Path("/dev/shm")


def _asked() -> argparse.Namespace:
    parser = parser_of("tests.power", __doc__)
    parser.add_argument("--cuts", type=int, default=1000, help="of each run")
    parser.add_argument(
        "--disk", choices=KINDS, help=f"{' and '.join(PROMISED)} without"
    )
    parser.add_argument(
        "--flush", choices=FLUSHES, help="log.flush.interval.messages; both without"
    )
    return parser.parse_args()


def _told(report: Report) -> str:
    return (
        f"{report.cuts} cuts in {report.lives} lives of {report.steps} steps and "
        f"{report.calls} calls; {report.records} records acknowledged; "
        f"failures: {len(report.failures)}"
    )


def main() -> int:
    """Runs the test, and prints the results."""
    asked = _asked()
    telemetry.configure(level="critical")
    long = LongRun("power", asked.seed, MEMORY if MEMORY.is_dir() else None)
    disks = PROMISED if asked.disk is None else (asked.disk,)
    flushes = FLUSHES if asked.flush is None else (asked.flush,)
    found = long_runs.Report()
    cuts = 0

    def tell(report: Report) -> None:
        if report.lives % 20 == 0:
            long.progress(_told(report))

    for disk, flush in itertools.product(disks, flushes):
        where = long.folder / f"{disk}-{flush}"
        settings = Settings(long.seed, asked.cuts, disk, flush == "1", where)
        report = Run(settings, tell).play()
        long.progress(f"{disk}, flush {flush}: {_told(report)}")
        found.violations += map(str, report.failures)
        cuts += report.cuts
    again = f"python -m tests.power --cuts {asked.cuts}"
    for name in ("disk", "flush"):
        if (chosen := getattr(asked, name)) is not None:
            again += f" --{name} {chosen}"
    return long.finish(found, f"{cuts} power cuts", again)


if __name__ == "__main__":
    sys.exit(main())
