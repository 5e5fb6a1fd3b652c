"""Runs conformance scenarios against a broker.

    python -m tests.conformance --bootstrap HOST:PORT --golden tests/conformance/golden

Without --golden, transcripts are recorded to --out. With --golden they are compared
with the goldens in DIR/<profile>.jsonl. Exit status: 0 all equal, 1 a difference, 2 no
scenario could be run.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import sys
from pathlib import Path

from tests.conformance import goldens
from tests.conformance.connection import ScenarioError
from tests.conformance.goldens import Golden, collected
from tests.conformance.play import JOBS, Played, play_all, probe
from tests.conformance.profiles import PROFILES
from tests.conformance.registry import Scenario, load


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", metavar="HOST:PORT")
    parser.add_argument("--profile", default="default", choices=sorted(PROFILES))
    parser.add_argument("--out", type=Path, help="write to OUT/<profile>.jsonl")
    parser.add_argument("--golden", type=Path, help="compare with DIR/<profile>.jsonl")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="shell pattern")
    parser.add_argument("--skip", metavar="PATTERN", default="", help="shell pattern")
    parser.add_argument("--jobs", type=int, default=JOBS, help="scenarios at a time")
    parser.add_argument("--runs", type=int, help="of each race")
    parser.add_argument(
        "--strict", action="store_true", help="differences in quirks are failures"
    )
    parser.add_argument("--list", action="store_true", help="list scenarios and exit")
    parser.add_argument(
        "--properties",
        action="store_true",
        help="print the server properties of --profile and exit",
    )
    arguments = parser.parse_args()
    if not arguments.bootstrap and not (arguments.list or arguments.properties):
        parser.error("--bootstrap is needed")
    return arguments


class _Report:
    """Prints the result of each scenario, and counts."""

    def __init__(self, expected: dict[str, Golden] | None, strict: bool) -> None:
        self._expected = expected
        self._strict = strict
        self.passed = self.failed = self.skipped = self.quirks = 0

    def add(self, played: Played) -> None:
        """Prints a line, and a diff below it if there is one."""
        scenario, took = played.scenario, f"({played.seconds:.1f} s)"
        if len(played.runs) > 1:
            took += self._shares(played)
        if played.skipped:
            self.skipped += 1
            print(f"SKIP {scenario.name} {played.skipped}")
        elif self._expected is None:
            self.passed += 1
            print(f"RECORDED {scenario.name} {took}")
        elif not (diff := self._differences(played)):
            self.passed += 1
            print(f"OK {scenario.name} {took}")
        else:
            is_quirk = scenario.quirk and not self._strict
            self.quirks += is_quirk
            self.failed += not is_quirk
            kind = "QUIRK" if is_quirk else "DIFF"
            print(f"{kind} {scenario.name} {took}: {scenario.summary}")
            print("\n".join("    " + line for line in diff))
        sys.stdout.flush()

    def _differences(self, played: Played) -> list[str]:
        assert self._expected is not None
        golden = self._expected.get(played.scenario.name)
        if golden is None:
            return ["no golden"]
        return goldens.differences(golden, played.runs)

    def _shares(self, played: Played) -> str:
        """The share of each transcript in a race, beside its share in Kafka."""
        golden = (self._expected or {}).get(played.scenario.name)
        found = collected(played.scenario.summary, played.runs)
        if golden is None:
            return f" {[runs for runs, _ in found.outcomes]}"
        runs_by_events = {str(events): runs for runs, events in found.outcomes}
        runs = [runs_by_events.get(str(events), 0) for _, events in golden.outcomes]
        return f" {runs}, Kafka {[runs for runs, _ in golden.outcomes]}"

    def finish(self) -> int:
        """Prints the counts; returns the exit status."""
        if self.skipped:
            print(f"{self.skipped} skipped")
        if self.quirks:
            print(f"{self.quirks} differ in a quirk of real Kafka, not counted")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


async def _run(arguments: argparse.Namespace, chosen: list[Scenario]) -> int:
    host, _, port = arguments.bootstrap.rpartition(":")
    try:
        target = await probe(host, int(port))
    except (OSError, ScenarioError) as error:
        print(f"{arguments.bootstrap} is of no use: {error}", file=sys.stderr)
        return 2
    profile = arguments.profile
    expected = goldens.read(arguments.golden, profile) if arguments.golden else None
    report = _Report(expected, arguments.strict)
    recorded: dict[str, Golden] = {}
    async for played in play_all(target, chosen, arguments.jobs, arguments.runs):
        report.add(played)
        if not played.skipped:
            scenario = played.scenario
            recorded[scenario.name] = collected(scenario.summary, played.runs)
    if arguments.out:
        # Scenarios that were not played keep their recording.
        before = goldens.read(arguments.out, profile)
        goldens.write(arguments.out, profile, before | recorded)
    return report.finish()


def _main() -> int:
    arguments = _arguments()
    if arguments.properties:
        for key, value in PROFILES[arguments.profile].items():
            print(f"{key}={value}")
        return 0
    chosen = [
        each
        for each in load().values()
        if fnmatch.fnmatch(each.name, arguments.only)
        and not fnmatch.fnmatch(each.name, arguments.skip)
        and (arguments.list or each.profile == arguments.profile)
    ]
    if arguments.list:
        for each in sorted(chosen, key=lambda each: (each.profile, each.name)):
            quirk = "quirk: " if each.quirk else ""
            print(f"{each.profile}\t{each.name}\t{quirk}{each.summary}")
        return 0
    if not chosen:
        print("no scenario matches", file=sys.stderr)
        return 2
    return asyncio.run(_run(arguments, chosen))


if __name__ == "__main__":
    sys.exit(_main())
