"""The cost of events in `kohort serve`: CPU of the process, with events and without.

    python -m bench.events_served                  # CPU time
    python -m bench.events_served --instructions   # by valgrind, repeatable; Linux

Brokers at default settings (but for an initial rebalance delay of 0, as in the
benchmark) run side by side and get the same requests in turns: `on` is
`kohort serve`, `off` the same whose stream makes no events. `--base FOLDER` adds
another version of kohort, by the `src` folder of its checkout. Instructions are those
of the process; the kernel's work for it is in its CPU time only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.group_load import GroupLoad

RUNS = ("churn", "heartbeat", "commit")
TIMES = {"churn": 5, "heartbeat": 40, "commit": 5}
"""How often each is done in a round: some 100 ms of CPU."""
SOURCE = Path(__file__).parents[1] / "src"

_START = """
import sys
from kohort.control.cli import main
if sys.argv.pop(1) == "off":
    from kohort.broker.server import Broker
    make = Broker.__init__
    def make_silent(self, *args, **options):
        make(self, *args, **options)
        self.events.listening = False
    Broker.__init__ = make_silent
main()
"""
"""The program of a broker: its first argument is `on` or `off`."""


class Measured:
    """A broker in a separate process, and a group on it.

    Args:
        name: `on`, `off` or `base`.
        source: the folder to import kohort from.
        members: of the group.
        counted: whether instructions are counted, not time.
    """

    def __init__(
        self,
        name: str,
        source: Path,
        members: int,
        *,
        counted: bool,
        more: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._counted = counted
        self._folder = tempfile.TemporaryDirectory()
        self._dumps = self._total = 0
        argv = [sys.executable, "-c", _START, "off" if name == "off" else "on"]
        argv += ["serve", "--port=0", "--set=group.initial.rebalance.delay.ms=0", *more]
        if counted:
            out = f"--callgrind-out-file={self._folder.name}/out"
            argv = ["valgrind", "-q", "--tool=callgrind", out, *argv]
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
        with (Path(self._folder.name) / "stderr").open("wb") as log:
            self._process = subprocess.Popen(
                argv, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        found = re.search(r"on ([\d.]+):(\d+)", said)
        assert found is not None, said
        self.load = GroupLoad((found[1], int(found[2])), members)

    def cost(self, run: str, times: int) -> float:
        """The cost of each request, or of each member's part in a rebalance.

        Returns:
            Microseconds, or thousands of instructions.
        """
        before = self._spent()
        count: int = getattr(self.load, run)(times)
        return (self._spent() - before) / 1_000 / count

    def _spent(self) -> int:
        """CPU time in nanoseconds, or instructions."""
        pid = self._process.pid
        if not self._counted:
            tasks = Path(f"/proc/{pid}/task").iterdir()
            return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks)
        control = ["callgrind_control", f"--dump={self._dumps}", str(pid)]
        subprocess.run(
            control, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._dumps += 1
        text = Path(f"{self._folder.name}/out.{self._dumps}").read_text()
        found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
        assert found is not None
        self._total += int(found[1])
        return self._total

    def stop(self) -> None:
        """Ends it."""
        self.load.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


class Rounds:
    """Costs of rounds, by run and by broker."""

    def __init__(self) -> None:
        self.costs: dict[str, dict[str, list[float]]] = {}

    def add(self, run: str, name: str, cost: float) -> None:
        """One more."""
        self.costs.setdefault(run, {}).setdefault(name, []).append(cost)

    def print(self, unit: str) -> None:
        """The median of each, and the median and the least of the ratios."""
        print(f"| {unit} | off | on | more | least | base | on to base |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for run, costs in self.costs.items():
            off, on = costs["off"], costs["on"]
            more = [b / a - 1 for a, b in zip(off, on, strict=True)]
            cells = [statistics.median(off), statistics.median(on)]
            row = f"| {run} | {cells[0]:.1f} | {cells[1]:.1f} "
            row += f"| {statistics.median(more):.1%} | {min(on) / min(off) - 1:.1%} "
            base = costs.get("base")
            if base is None:
                row += "| | "
            else:
                ratios = [b / a - 1 for a, b in zip(base, on, strict=True)]
                row += f"| {statistics.median(base):.1f} "
                row += f"| {statistics.median(ratios):+.1%} "
            print(f"{row}|")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instructions", action="store_true", help="see above")
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="see above")
    parser.add_argument("--members", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, help="(15; of instructions 3)")
    parser.add_argument(
        "--before", type=int, default=30, help="rebalances to begin with (%(default)s)"
    )
    asked = parser.parse_args()
    sources = {"off": SOURCE, "on": SOURCE}
    if asked.base is not None:
        sources["base"] = asked.base
    counted = asked.instructions
    times = dict.fromkeys(RUNS, 2) if counted else TIMES
    rounds = Rounds()
    with contextlib.ExitStack() as opened:
        brokers = []
        for name, source in sources.items():
            broker = Measured(name, source, asked.members, counted=counted)
            opened.callback(broker.stop)
            brokers.append(broker)
            broker.load.churn(asked.before)
        for number in range(asked.rounds or (3 if counted else 15)):
            for run in RUNS:
                # Each is the first one as often as the others.
                start = number % len(brokers)
                for broker in brokers[start:] + brokers[:start]:
                    rounds.add(run, broker.name, broker.cost(run, times[run]))
    rounds.print("1000 instructions" if counted else "us of CPU")


if __name__ == "__main__":
    main()
