"""The same seed gives the same events, to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = """
duration = "150s"
[brokers]
nodes = 3
[network]
latency_ms = { median = 1, p99 = 20 }
[topics.orders]
partitions = 12
rate = 0.1
[topics.bills]
partitions = 5
[groups.eager]
members = 4
[groups.cooperative]
members = 4
protocol = "cooperative"
static = true
commits = "sync"
record_ms = { exponential = 20 }
pauses = { every_s = { exponential = 60 }, ms = { uniform = [10, 12000] } }
[groups.cooperative.settings]
"session.timeout.ms" = 10000
[groups.consumer]
members = 4
protocol = "consumer"
commits = "async"
record_ms = 30
[[happenings]]
at = 40
do = "roll"
group = "cooperative"
at_once = 2
[[happenings]]
at = 60
do = "crash"
group = "eager"
members = 2
restart_after_s = { uniform = [1, 20] }
[[happenings]]
at = 80
do = "crash-node"
node = 1
[[happenings]]
at = 90
do = "start-node"
node = 1
[[happenings]]
at = 85
do = "cut"
group = "consumer"
members = 2
seconds = 50
[[happenings]]
at = 120
do = "grow"
topic = "bills"
partitions = 9
[[faults]]
at = 100
until = 110
api = ["Heartbeat", "OffsetCommit"]
probability = 0.3
error = "NOT_COORDINATOR"
"""
"""All protocols, and what depends on the order of things."""


def events(python: str, folder: Path, seed: int, hash_seed: str) -> bytes:
    """The events of a run in another process."""
    folder.mkdir()
    scenario = folder / "all.toml"
    scenario.write_text(SCENARIO)
    command = ["simulate", str(scenario), "--seed", str(seed), "--out", str(folder)]
    subprocess.run(
        [python, "-m", "kohort", *command],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    return (folder / f"all-{seed}.jsonl").read_bytes()


def test_hashes_of_strings_change_nothing(tmp_path: Path) -> None:
    """Another seed does."""
    first = events(sys.executable, tmp_path / "1", 1, "1")
    assert first.count(b"\n") > 300
    assert b'"kind":"delivery_account"' in first
    assert events(sys.executable, tmp_path / "2", 1, "2") == first
    assert events(sys.executable, tmp_path / "3", 2, "1") != first


@pytest.mark.long
def test_versions_of_python_change_nothing(tmp_path: Path) -> None:
    """``KOHORT_PYTHONS`` has interpreters with kohort, with colons between them."""
    others = os.environ.get("KOHORT_PYTHONS", "")
    if not others:
        reason = "KOHORT_PYTHONS has no other interpreters"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    first = events(sys.executable, tmp_path / "own", 1, "random")
    for number, python in enumerate(others.split(":")):
        found = events(python, tmp_path / str(number), 1, "random")
        assert found == first, python
