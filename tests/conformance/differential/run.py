"""Plays the sequences of many seeds, and collects the differences."""

from __future__ import annotations

import asyncio
import random
import sys

from tests.conformance.differential import group_steps, log_steps, report
from tests.conformance.differential.group_side import GroupSide, make_topics
from tests.conformance.differential.judge import Finding, Judge
from tests.conformance.differential.log_side import LogSide
from tests.conformance.differential.profiles import Profile
from tests.conformance.differential.sequence import Sequence
from tests.conformance.play import probe

AT_WORK = 12
"""Sequences that are at work at a time; the others wait for timers. More of them would
make bursts so slow that timers run out in them."""
AT_WORK_ON_LOGS = 32
"""Of sequences without timers."""
JOBS = 200


def made(seed: int, profile: Profile) -> Sequence:
    """The sequence of a seed."""
    rng = random.Random(seed)
    if profile.makes == "log":
        return log_steps.sequence(rng)
    return group_steps.sequence(rng, profile)


def say(line: str) -> None:
    """Tells the user, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def judge_of(reference: str, broker: str, profile: Profile) -> Judge:
    """A judge of two brokers, `HOST:PORT` each, that have started."""
    targets = []
    for address in (reference, broker):
        host, _, port = address.rpartition(":")
        target = await probe(host, int(port))
        await make_topics(target)
        targets.append(target)
    if profile.makes == "log":
        gate = asyncio.Semaphore(AT_WORK_ON_LOGS)
        return Judge(targets[0], targets[1], LogSide, gate)
    return Judge(targets[0], targets[1], GroupSide, asyncio.Semaphore(AT_WORK))


async def compare(
    judge: Judge, profile: Profile, seeds: range, *, jobs: int = JOBS, shown: int = 10
) -> dict[int, Finding]:
    """Plays sequences, and prints the differences; returns them by seed.

    Args:
        judge: of the brokers.
        profile: theirs.
        seeds: of the sequences.
        jobs: sequences at a time.
        shown: differences that are shortened and printed in full.
    """
    findings: dict[int, Finding] = {}
    left = iter(seeds)

    async def worker() -> None:
        for seed in left:
            finding = await judge.look_at(made(seed, profile))
            if finding is None:
                continue
            findings[seed] = finding
            if len(findings) > shown:
                say(f"seed {seed} differs, too")
                continue
            finding = findings[seed] = await judge.shorten(finding)
            say(f"seed {seed} differs, {len(finding.sequence.steps)} steps:")
            for line in report.told(finding.played, finding.outcomes):
                say(line)

    await asyncio.gather(*(worker() for _ in range(jobs)))
    verdicts = ", ".join(f"{count} {name}" for name, count in judge.counted.items())
    say(f"{len(seeds)} sequences, {len(findings)} differ; {verdicts}")
    return findings
