"""Plays random sequences of requests against two brokers, and compares.

    python -m tests.conformance.differential REFERENCE:PORT BROKER:PORT --seed 1

Both brokers get the same requests; after each one their responses, and their state of
the group or partition, have to agree. Differences are shortened, and printed. Exit
status 1 if there are any. README.md in the folder above has the details.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.conformance.differential.profiles import PROFILES
from tests.conformance.differential.run import (
    JOBS,
    compare,
    judge_of,
    say,
    targets_of,
)


async def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.differential",
        description=(__doc__ or "").partition("\n")[0],
    )
    addresses = parser.add_argument_group("brokers, both with the profile's settings")
    addresses.add_argument("reference", nargs="?", metavar="REFERENCE:PORT")
    addresses.add_argument("broker", nargs="?", metavar="BROKER:PORT")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="default")
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence")
    parser.add_argument("--jobs", type=int, default=JOBS, help="sequences at a time")
    parser.add_argument("--show", type=int, default=10, help="differences to shorten")
    parser.add_argument(
        "--properties", action="store_true", help="print the profile's settings"
    )
    arguments = parser.parse_args()
    profile = PROFILES[arguments.profile]
    if arguments.properties:
        say("\n".join(f"{name}={value}" for name, value in profile.settings.items()))
        return 0
    if arguments.broker is None:
        parser.error("two brokers are needed")
    targets = await targets_of(arguments.reference, arguments.broker)
    judge = judge_of(targets, profile)
    seeds = range(arguments.seed, arguments.seed + arguments.sequences)
    findings = await compare(
        judge, profile, seeds, jobs=arguments.jobs, shown=arguments.show
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
