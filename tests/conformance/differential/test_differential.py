"""The tester itself; and, marked `interop`, kohort beside Apache Kafka 4.3."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import apache_kafka, commands
from tests.conformance.coordinator_stage import CoordinatorStage, play_at_once
from tests.conformance.differential import report
from tests.conformance.differential.group_side import make_topics
from tests.conformance.differential.judge import RUNS, Finding, Judge
from tests.conformance.differential.lockstep import SAME, SLOW, Played, play
from tests.conformance.differential.profiles import PROFILES, Profile
from tests.conformance.differential.run import (
    AT_WORK,
    SIDES,
    compare,
    drawn,
    judge_of,
    made,
    targets_of,
)
from tests.conformance.differential.sequence import Sequence, Step

DEFAULT = PROFILES["default"]
GROUPS = [
    name
    for name, profile in PROFILES.items()
    if profile.makes in ("groups", "consumers", "mixed")
]
ONE, OTHER = range(1, 1001, 15), range(5, 1001, 15)
SEEDS = {
    "default": ONE,
    "max2": OTHER,
    "consumers": range(1, 1001, 25),
    "mixed": range(1, 1001, 20),
    "mixed-max2": range(5, 1001, 50),
    "sessions": ONE,
    "delay": OTHER,
    "log": ONE,
    "transactions": ONE,
}
"""Sequences of each profile that kohort and Apache Kafka play. A seed has the same
steps in profiles with the same timers, which therefore share the seeds."""


def join(actor: str) -> Step:
    """A join of a static member, which needs no second request."""
    fields = {"version": 9, "rebalance": 60_000, "session": 30_000, "protocols": 0}
    return {"do": "join", "actor": actor, **fields}


async def judge(profile: Profile, small: dict[str, str]) -> Judge:
    """A judge of two coordinators, the second one with other settings."""
    stages = [
        CoordinatorStage(profile.settings),
        CoordinatorStage(profile.settings | small),
    ]
    for stage in stages:
        await make_topics(stage)
    return judge_of(stages, profile)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_seed_makes_one_sequence(name: str) -> None:
    """The same seed gives the same steps, another one gives others."""
    profile = PROFILES[name]
    assert made(7, profile) == made(7, profile)
    assert made(7, profile) != made(8, profile)


@pytest.mark.usefixtures("loop_time")
@pytest.mark.parametrize("name", ["default", "consumers", "mixed"])
def test_a_coordinator_does_not_differ_from_its_like(name: str) -> None:
    """Group sequences have equal results on two with equal settings."""
    profile = PROFILES[name]

    async def played() -> None:
        judging = await judge(profile, {})
        for seed in range(1, 9):
            assert await judging.look_at(made(seed, profile)) is None
        assert judging.counted[SAME] > 4

    play_at_once(played())


@pytest.mark.usefixtures("loop_time")
@settings(max_examples=settings().max_examples * 4)
@given(rng=st.randoms(use_true_random=False), name=st.sampled_from(GROUPS))
def test_the_coordinator_keeps_its_invariants(rng: random.Random, name: str) -> None:
    """After every event of random groups, whatever requests and timers come."""

    async def played() -> Played:
        stage = CoordinatorStage(PROFILES[name].settings)
        await make_topics(stage)
        sequence, side = drawn(rng, PROFILES[name]), SIDES[PROFILES[name].makes]
        return await play([stage], side, sequence, asyncio.Semaphore())

    assert play_at_once(played()).verdict == SAME


@pytest.mark.usefixtures("loop_time")
def test_a_difference_is_shortened_and_told() -> None:
    """Only the two joins of six steps remain; the text has both brokers' responses."""
    steps: list[Step] = [
        {"do": "fetch", "actor": "A"},
        join("S"),
        {"do": "heartbeat", "actor": "S", "version": 4},
        {"do": "list", "actor": "A", "version": 5},
        join("T"),
        {"do": "fetch", "actor": "A"},
    ]

    async def found() -> Finding:
        judging = await judge(DEFAULT, {"group.max.size": "1"})
        finding = await judging.look_at(Sequence(steps))
        assert finding is not None
        return await judging.shorten(finding)

    finding = play_at_once(found())
    assert [step["actor"] for step in finding.sequence.steps] == ["S", "T"]
    text = "\n".join(report.told(finding.played, finding.outcomes))
    assert "! 2 T JoinGroup v9 differs" in text
    assert 'reference "no answer"' in text
    assert "GROUP_MAX_SIZE_REACHED" in text


@pytest.mark.usefixtures("loop_time")
def test_an_outcome_of_requests_sent_together_is_looked_for() -> None:
    """The reference gets them several times; it never refuses the other's outcome."""
    together: Step = {"do": "together", "steps": [join("S"), join("T")]}

    async def found() -> Finding | None:
        judging = await judge(DEFAULT, {"group.max.size": "1"})
        return await judging.look_at(Sequence([{**together, "actor": "S"}]))

    finding = play_at_once(found())
    assert finding is not None
    assert finding.outcomes is not None
    assert finding.outcomes.total() == RUNS
    assert not [each for each in finding.outcomes if "REACHED" in each]
    text = "\n".join(report.told(finding.played, finding.outcomes))
    assert f"not seen in {RUNS} runs on the reference" in text


@pytest.mark.interop
@pytest.mark.timeout(1_500, method="thread")
@pytest.mark.parametrize(
    "names",
    [
        ["default", "sessions", "consumers", "mixed", "log", "transactions"],
        ["delay"],
        ["max2", "mixed-max2"],
    ],
)
async def test_kohort_does_as_kafka_does(names: list[str]) -> None:
    """Random sequences have the same responses; nearly all could be judged.

    Profiles with the same settings are played on the same brokers at once: sequences of
    some wait for timers while those of others work.
    """
    config = PROFILES[names[0]].settings
    assert all(PROFILES[name].settings == config for name in names)
    keys = [f"--set={key}={value}" for key, value in config.items()]
    with (
        apache_kafka.running(config) as kafka,
        commands.serving(*keys) as kohort,
    ):
        targets = await targets_of(kafka.bootstrap_servers, kohort.addresses[0])
        gate = asyncio.Semaphore(AT_WORK)
        judges = {name: judge_of(targets, PROFILES[name], gate) for name in names}
        found = await asyncio.gather(
            *(
                compare(judging, PROFILES[name], SEEDS[name], shown=3)
                for name, judging in judges.items()
            )
        )
    assert not any(found)
    for name, judging in judges.items():
        assert judging.counted[SLOW] < len(SEEDS[name]) / 20
