"""Transcripts of Apache Kafka 4.3, replayed against kohort: the judge of its groups.

README.md beside this file says what is in them and how to run them by hand.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kohort.broker.server import Broker

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from profiles import PROFILES  # noqa: E402 - a program of its own, not a package


@pytest.mark.parametrize("profile", sorted(PROFILES))
async def test_kohort_answers_as_kafka_did(profile: str) -> None:
    """Every scenario of the profile gives the transcript that Kafka gave."""
    async with Broker(PROFILES[profile]) as broker:
        replay = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "run.py"),
            f"--bootstrap={broker.bootstrap_servers}",
            f"--golden={HERE / 'golden'}",
            f"--profile={profile}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await replay.communicate()
    text = output.decode()
    assert replay.returncode == 0, text
    assert " 0 failed" in text
    assert "skipped" not in text
