"""Plays the sequences of many seeds, and collects the differences."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.conformance.differential import (
    consumer_steps,
    group_steps,
    log_steps,
    report,
    transaction_steps,
)
from tests.conformance.differential.consumer_side import ConsumerSide
from tests.conformance.differential.group_side import GroupSide, make_topics
from tests.conformance.differential.judge import Finding, Judge
from tests.conformance.differential.lockstep import SLOW, MakeSide
from tests.conformance.differential.log_side import LogSide
from tests.conformance.differential.profiles import Profile
from tests.conformance.differential.sequence import Sequence as Steps
from tests.conformance.differential.transaction_side import TransactionSide, prepare
from tests.conformance.env import Stage, Target
from tests.conformance.play import probe

AT_WORK = 12
"""Sequences at work at a time; the others wait for timers. With more of them, bursts
would be slow enough for timers to fire in them."""
FEW_AT_WORK = 2
"""The limit for sequences that were slow nevertheless, as on a busy machine."""
JOBS = 200
NAMES = 48
"""Names that surely use each partition of the brokers' internal topics."""
SIDES: dict[str, MakeSide] = {
    "groups": GroupSide,
    "consumers": ConsumerSide,
    "mixed": ConsumerSide,
    "log": LogSide,
    "transactions": TransactionSide,
}


def made(seed: int, profile: Profile) -> Steps:
    """The sequence of a seed."""
    return drawn(random.Random(seed), profile)


def drawn(rng: random.Random, profile: Profile) -> Steps:
    """A random sequence."""
    if profile.makes == "log":
        return log_steps.sequence(rng)
    if profile.makes == "transactions":
        return transaction_steps.sequence(rng)
    if profile.makes == "groups":
        return group_steps.sequence(rng, profile)
    return consumer_steps.sequence(rng, profile)


def say(line: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def targets_of(*addresses: str) -> list[Target]:
    """Brokers that have started, `HOST:PORT` each, with everything that steps need."""
    targets = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        targets.append(target := await probe(host, int(port), NAMES))
        await make_topics(target)
        await prepare(target, NAMES)
    return targets


def judge_of(
    targets: Sequence[Stage], profile: Profile, gate: asyncio.Semaphore | None = None
) -> Judge:
    """A judge of two brokers; judges of the same ones share a gate."""
    reference, broker = targets
    gate = gate or asyncio.Semaphore(AT_WORK)
    return Judge(reference, broker, SIDES[profile.makes], gate)


async def compare(
    judge: Judge, profile: Profile, seeds: range, *, jobs: int = JOBS, shown: int = 10
) -> dict[int, Finding]:
    """Plays sequences, and prints the differences; returns them by seed.

    Sequences that were slow are played again at the end, few at a time.

    Args:
        judge: of the brokers.
        profile: theirs.
        seeds: of the sequences.
        jobs: sequences at a time.
        shown: differences that are shortened and printed in full.
    """
    findings: dict[int, Finding] = {}
    sequences = {seed: made(seed, profile) for seed in seeds}

    async def worker(judge: Judge, left: Iterator[int]) -> None:
        for seed in left:
            finding = await judge.look_at(sequences[seed])
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

    left = iter(seeds)
    await asyncio.gather(*(worker(judge, left) for _ in range(jobs)))
    if judge.slow:
        left = iter([seed for seed in seeds if sequences[seed] in judge.slow])
        del judge.counted[SLOW]
        calmer = replace(judge, gate=asyncio.Semaphore(FEW_AT_WORK))
        await asyncio.gather(*(worker(calmer, left) for _ in range(jobs)))
    verdicts = ", ".join(f"{count} {name}" for name, count in judge.counted.items())
    say(f"{len(seeds)} sequences, {len(findings)} differ; {verdicts}")
    return findings
