"""Transactions against a broker that is killed and moved: reports anomalies.

    python -m tests.exactly_once --transactions 10000 --kills 10 --moves 40

Exits 0 if there is none, else 1; then the data directory, the history and the broker's
log are kept. With --bootstrap, the broker is one that runs already, for example Apache
Kafka; it is neither killed nor moved. It needs group.min.session.timeout.ms=1000.
"""

from __future__ import annotations

import argparse
import sys

from tests.exactly_once.program import BUGS
from tests.exactly_once.run import Report, Run, Settings
from tests.long_runs import LongRun, parser_of


def _asked() -> argparse.Namespace:
    parser = parser_of("tests.exactly_once", __doc__)
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--bootstrap", metavar="HOST:PORT")
    parser.add_argument("--bug", choices=BUGS, default="", help="to be found")
    asked = parser.parse_args()
    if asked.bootstrap and (asked.kills or asked.moves):
        parser.error("--bootstrap goes with --kills 0 --moves 0")
    return asked


def _told(report: Report) -> str:
    ended = ", ".join(f"{n} {outcome.value}" for outcome, n in report.ended.items())
    done = ", ".join(f"{count} {name}" for name, count in report.done.items())
    refused = ", ".join(f"{count} {name}" for name, count in report.refused.items())
    total = sum(report.ended.values())
    return (
        f"transactions: {total} ({ended}) in {report.seconds:.0f} s\n"
        f"disturbances: {done or 'none'}; {report.joins.total()} joins of workers\n"
        f"refused: {refused or 'none'}\n"
        f"records polled: {report.polled}"
    )


def main() -> int:
    """Runs it, and prints the results."""
    asked = _asked()
    long = LongRun("exactly-once", asked.seed)
    address = None
    if asked.bootstrap:
        host, _, port = asked.bootstrap.rpartition(":")
        address = host, int(port)
    settings = Settings(
        asked.transactions,
        asked.kills,
        asked.moves,
        long.seed,
        long.folder,
        bootstrap=address,
        bug=asked.bug,
    )
    report = Run(settings, long.progress).play()
    again = (
        f"python -m tests.exactly_once --transactions {asked.transactions} "
        f"--kills {asked.kills} --moves {asked.moves}"
    )
    return long.finish(report, _told(report), again)


if __name__ == "__main__":
    sys.exit(main())
