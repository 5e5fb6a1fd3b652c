"""Kohort's assignors of consumer groups beside those of Apache Kafka 4.3."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.differential.consumer_assignors import (
    Json,
    Kohort,
    commands_of,
    compared,
)
from tests.workers.libraries import _build_java, _built, need

HERE = Path(__file__).parent
RECORDED = HERE.parents[1] / "data" / "consumer_assignors.jsonl"
"""Pairs of a command and Kafka's result."""
SMALL = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
TIMEOUT_S = 300.0
CLUSTERS = 1000


@pytest.fixture(scope="module")
def class_path() -> str:
    """The program and Kafka's group coordinator, built once."""
    need("java", "mvn")
    target = _built(HERE / "assignors", _build_java) / "target"
    return f"{target / 'classes'}:{target / 'dependency' / '*'}"


def played_by_kafka(class_path: str, commands: Iterable[Json]) -> list[Any]:
    """The results of Assignors.java."""
    done = subprocess.run(
        ["java", *SMALL, "-cp", class_path, "Assignors"],
        input="".join(f"{json.dumps(command)}\n" for command in commands),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [compared(json.loads(line)) for line in done.stdout.splitlines()]


def recorded() -> tuple[list[Json], list[Any]]:
    """The recorded commands, and Kafka's results."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    return [command for command, _ in pairs], [result for _, result in pairs]


def test_recorded_groups_are_assigned_as_by_kafka() -> None:
    """Some small groups, without Java."""
    commands, results = recorded()
    for command, ours, theirs in zip(
        commands, Kohort().play(commands), results, strict=True
    ):
        assert ours == theirs, command


@pytest.mark.interop
def test_the_recorded_results_are_those_of_kafka(class_path: str) -> None:
    """The file could be recorded again."""
    commands, results = recorded()
    assert played_by_kafka(class_path, commands) == results


@pytest.mark.interop
def test_random_groups_are_assigned_as_by_kafka(class_path: str) -> None:
    """Partition for partition, and record for record; the topics have equal hashes."""
    commands = [each for seed in range(CLUSTERS) for each in commands_of(seed)]
    assert len(commands) > 10 * CLUSTERS
    results = played_by_kafka(class_path, commands)
    for command, ours, theirs in zip(
        commands, Kohort().play(commands), results, strict=True
    ):
        assert ours == theirs, command
