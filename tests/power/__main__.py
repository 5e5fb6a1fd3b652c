"""Cuts a broker's power, repeatedly, and prints the losses.

    python -m tests.power --seed 7 --cuts 2000

Exits 0 if no data that was on the disk is lost, 1 if some is; then the images are kept.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.power.disk import KINDS, Kind
from tests.power.run import Failure, Report, Run, Settings

from kohort.broker import telemetry

SHOWN = 5
PROMISED: tuple[Kind, ...] = ("journal", "folders")
"""The kinds of disk on which kohort loses nothing."""
FLUSHES = ("1", "default")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.power", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, help="replays a run; random without")
    parser.add_argument("--cuts", type=int, default=1000, help="of each run")
    parser.add_argument(
        "--disk", choices=KINDS, help=f"{' and '.join(PROMISED)} without"
    )
    parser.add_argument(
        "--flush", choices=FLUSHES, help="log.flush.interval.messages; both without"
    )
    return parser.parse_args()


def _progress(report: Report) -> None:
    if report.lives % 20 == 0:
        print(f"     life {report.lives}, {report.cuts} cuts", flush=True)


def _show(report: Report) -> None:
    """The counts of a run, and one failure of each shape: its text without numbers."""
    print(
        f"{report.cuts} cuts in {report.lives} lives of {report.steps} steps and "
        f"{report.calls} calls; {report.records} records acknowledged; "
        f"failures: {len(report.failures)}",
        flush=True,
    )
    shapes: dict[str, list[Failure]] = {}
    for each in report.failures:
        shape = re.sub(r"\S*[/\d]\S*", "#", each.wrong[0])
        shapes.setdefault(shape, []).append(each)
    for alike in shapes.values():
        each = alike[0]
        print(
            f"  {len(alike)} times, as in life {each.life}, cut at {each.cut} in "
            f"{each.step}: {each.image}"
        )
        for line in each.wrong[:SHOWN]:
            print(f"    {line}")


def main() -> int:
    """Runs the test, and prints the results."""
    asked = _asked()
    telemetry.configure(level="critical")
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    memory = Path("/dev/shm")
    folder = Path(
        tempfile.mkdtemp(
            prefix="kohort-power-", dir=memory if memory.is_dir() else None
        )
    )
    disks = PROMISED if asked.disk is None else (asked.disk,)
    flushes = FLUSHES if asked.flush is None else (asked.flush,)
    began = time.monotonic()
    reports = []
    for disk, flush in itertools.product(disks, flushes):
        where = folder / f"{disk}-{flush}"
        settings = Settings(seed, asked.cuts, disk, flush == "1", where)
        reports.append(Run(settings, _progress).play())
        print(f"{time.monotonic() - began:4.0f} s  {disk}, flush {flush}: ", end="")
        _show(reports[-1])
    failures = sum(len(report.failures) for report in reports)
    cuts = sum(report.cuts for report in reports)
    print(f"seed {seed}: {cuts} power cuts, {failures} that lost something")
    if failures:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
