"""Transcripts of Apache Kafka 4.3, replayed against kohort: the judge of its groups.

README.md beside this file describes the transcripts and how to run them by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance import goldens
from tests.conformance.play import JOBS, play_all, probe
from tests.conformance.profiles import PROFILES
from tests.conformance.registry import load

from kohort.broker.server import Broker

AT_ONCE = {"default": JOBS}
"""Scenarios at a time: those of the other profiles wait more than they work."""
GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("profile", sorted(PROFILES))
async def test_kohort_answers_as_kafka_did(profile: str) -> None:
    """Every scenario of the profile gives the transcript that Kafka gave."""
    scenarios = [each for each in load().values() if each.profile == profile]
    expected = goldens.read(GOLDEN, profile)
    assert {each.name for each in scenarios} == expected.keys()
    different: dict[str, str] = {}
    async with Broker(PROFILES[profile]) as broker:
        target = await probe(broker.host, broker.port)
        async for played in play_all(target, scenarios, AT_ONCE.get(profile, 36)):
            assert not played.skipped
            name = played.scenario.name
            diff = goldens.differences(expected[name], played.events)
            if diff and not played.scenario.quirk:
                different[name] = "\n".join(diff)
    assert not different, "\n\n".join(f"{n}\n{d}" for n, d in different.items())
