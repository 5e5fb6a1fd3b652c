"""Kills a broker under load, repeatedly, and reports lost data.

    python -m tests.crash --kills 200

Exits 0 if no acknowledged data is lost, 1 if some is; then the data directory and all
logs are kept.
"""

from __future__ import annotations

import argparse
import sys

from tests.crash.run import Report, Run, Settings
from tests.long_runs import LongRun, parser_of


def _asked() -> argparse.Namespace:
    parser = parser_of("tests.crash", __doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="as --set"
    )
    return parser.parse_args()


def _told(report: Report) -> str:
    kinds = ", ".join(f"{count} {kind.value}" for kind, count in report.kills.items())
    return (
        f"kills: {report.kills.total()} ({kinds}) in {report.seconds:.0f} s; "
        f"longest start {report.longest_start_s:.2f} s\n"
        f"acknowledged: {report.records} records, {report.commits} offsets, "
        f"{report.steps} steps of topic owners\n"
        f"consumed by groups: {report.consumed} records\n"
        f"Stable groups found as they were: {report.resumed}"
    )


def main() -> int:
    """Runs it, and prints the results."""
    asked = _asked()
    config = dict(each.split("=", 1) for each in asked.config)
    long = LongRun("crash", asked.seed)
    settings = Settings(asked.kills, long.seed, asked.nodes, long.folder, config)
    report = Run(settings, long.progress).play()
    again = f"python -m tests.crash --kills {asked.kills} --nodes {asked.nodes}"
    return long.finish(report, _told(report), again)


if __name__ == "__main__":
    sys.exit(main())
