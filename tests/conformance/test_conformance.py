"""Transcripts of Apache Kafka 4.3, replayed against kohort and against Kafka itself.

README.md beside this file describes the transcripts and how to run them by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from tests import apache_kafka
from tests.conformance import goldens
from tests.conformance.coordinator_stage import CoordinatorStage, play_at_once
from tests.conformance.env import Target
from tests.conformance.goldens import Events, Golden
from tests.conformance.play import JOBS, play, play_all, probe
from tests.conformance.profiles import PROFILES
from tests.conformance.registry import Scenario, load
from tests.idle_time import IdleTimeLoop

from kohort.broker.server import Broker

AT_ONCE = 36
"""Scenarios at a time on kohort: they mostly wait."""
RACE_RUNS = 6
"""Runs of each race against kohort: odd runs send their requests in the other order."""
HEAP_MB = 1024
"""Kafka's heap, as scenarios announce requests of 100 MB."""
GOLDEN = Path(__file__).parent / "golden"


def _scenarios(profile: str) -> list[Scenario]:
    return [each for each in load().values() if each.profile == profile]


async def _differences(
    target: Target,
    expected: Mapping[str, Golden],
    scenarios: Iterable[Scenario],
    jobs: int,
    runs: int | None = None,
) -> dict[Scenario, str]:
    """Diffs of the scenarios with another transcript than expected."""
    found: dict[Scenario, str] = {}
    async for played in play_all(target, scenarios, jobs, runs):
        assert not played.skipped
        name = played.scenario.name
        if diff := goldens.differences(expected[name], played.runs):
            found[played.scenario] = "\n".join([name, *diff])
    return found


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.usefixtures("loop_time")
def test_the_coordinator_answers_as_kafka_did(profile: str) -> None:
    """Every scenario but races gives Kafka's transcript on a coordinator alone.

    Its invariants hold after every event.
    """
    expected = goldens.read(GOLDEN, profile)
    different = []
    for scenario in _scenarios(profile):

        async def played(each: Scenario = scenario) -> Events:
            events, skipped = await play(CoordinatorStage(PROFILES[profile]), each, 0)
            assert not skipped
            return events

        if scenario.runs == 1 and not scenario.quirk:
            events = play_at_once(played())
            diff = goldens.differences(expected[scenario.name], [events])
            different += [scenario.name, *diff] if diff else []
    assert not different, "\n".join(different)


@pytest.mark.parametrize(
    ("profile", "every"),
    [
        ("default", False),
        *(pytest.param(p, True, marks=pytest.mark.long) for p in sorted(PROFILES)),
    ],
)
@pytest.mark.usefixtures("loop_time")
def test_kohort_answers_as_kafka_did(profile: str, *, every: bool) -> None:
    """Races, or all scenarios, give one of Kafka's transcripts over the wire."""
    scenarios = [each for each in _scenarios(profile) if each.runs > 1 or every]
    expected = goldens.read(GOLDEN, profile)

    async def differences() -> dict[Scenario, str]:
        async with Broker(PROFILES[profile]) as broker:
            target = await probe(broker.host, broker.port)
            return await _differences(target, expected, scenarios, AT_ONCE, RACE_RUNS)

    with asyncio.Runner(loop_factory=IdleTimeLoop) as runner:
        different = runner.run(differences())
    unexplained = [diff for each, diff in different.items() if not each.quirk]
    assert not unexplained, "\n\n".join(unexplained)


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_each_golden_has_its_scenario(profile: str) -> None:
    """No transcript is without its scenario, and no scenario without transcript."""
    names = {each.name for each in _scenarios(profile)}
    assert names == goldens.read(GOLDEN, profile).keys()


@pytest.mark.interop
@pytest.mark.parametrize("profile", sorted(PROFILES))
async def test_kafka_answers_as_it_did(profile: str) -> None:
    """Kafka still gives the goldens, quirks included.

    Differing scenarios are played again, one after the other: a slow machine may miss
    an interval.
    """
    expected = goldens.read(GOLDEN, profile)
    with apache_kafka.running(PROFILES[profile], HEAP_MB) as kafka:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        target = await probe(host, int(port))
        different = await _differences(target, expected, _scenarios(profile), JOBS)
        different = await _differences(target, expected, different, 1)
    assert not different, "\n\n".join(different.values())
