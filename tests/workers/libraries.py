"""The client libraries, and how their workers are started.

A worker that must be built is built once per state of its sources, in a folder below
`$XDG_CACHE_HOME/kohort-interop`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark import ParameterSet

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILD_S = 900.0  # a first build fetches its dependencies


@dataclass(frozen=True, slots=True)
class Library:
    """A client library: `command` builds its worker if it must, and gives its argv."""

    name: str
    command: Callable[[], list[str]]
    # The library's protocol names of assignors, where they differ from ours.
    wire_names: tuple[tuple[str, str], ...] = ()

    def wire_name(self, assignor: str) -> str:
        """The protocol name that DescribeGroups shows."""
        return dict(self.wire_names).get(assignor, assignor)


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.workers.{module}"]


def assignors(first: str, *others: str) -> list[ParameterSet]:
    """Parameters of a test: `first` in every run, the others only in long runs."""
    return [
        pytest.param(first),
        *(pytest.param(each, marks=pytest.mark.long) for each in others),
    ]


def need(*tools: str) -> None:
    """Skips the test if a toolchain is missing; in CI it fails."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"not on this machine: {', '.join(missing)}"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{reason}; CI runs every client library")
    pytest.skip(reason)


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode != 0:
        pytest.fail(
            f"{' '.join(argv)} exited {done.returncode}:\n"
            f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )


def _built(source: Path, build: Callable[[Path], None]) -> Path:
    """Builds in a copy of `source`, unless that was done before; returns the folder."""
    digest = hashlib.sha256()
    for file in sorted(each for each in source.rglob("*") if each.is_file()):
        digest.update(f"{file.relative_to(source)}\0".encode() + file.read_bytes())
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "kohort-interop"
    )
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"{source.name}-{digest.hexdigest()[:16]}"
    with (cache / f"{source.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
            build(target)
            (target / "complete").touch()
    return target


def _build_go(folder: Path) -> None:
    (folder / "bin").mkdir()
    _run(["go", "build", "-o", "bin/", "./..."], folder)


def _build_java(folder: Path) -> None:
    _run(["mvn", "-B", "-q", "compile", "dependency:copy-dependencies"], folder)


def _build_node(folder: Path) -> None:
    _run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], folder)


def _go(program: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        need("go")
        return [str(_built(HERE / "go", _build_go) / "bin" / program)]

    return command


def _java(folder: str, program: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        need("java", "mvn")
        target = _built(HERE / folder, _build_java) / "target"
        return [
            "java",
            # One compiler and a small heap: six run at once on a small machine.
            *("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            "-Xshare:auto",
            "-cp",
            f"{target / 'classes'}:{target / 'dependency' / '*'}",
            program,
        ]

    return command


def _node(program: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        need("node", "npm")
        return ["node", str(_built(HERE / "node", _build_node) / program)]

    return command


KOHORT = Library("kohort", _python("kohort"))
CONFLUENT = Library("confluent", _python("confluent"))
KAFKA_PYTHON = Library("kafka-python", _python("kafka_python"))
AIOKAFKA = Library("aiokafka", _python("aiokafka"))
JAVA = Library("java", _java("java", "Worker"))
# The last release without GROUP_MAX_SIZE_REACHED (KIP-389).
OLD_JAVA = Library("java-2.1", _java("java-old", "OldWorker"))
FRANZ_GO = Library("franz-go", _go("franz"))
SARAMA = Library("sarama", _go("sarama"))
KAFKA_GO = Library("kafka-go", _go("kafkago"))
KAFKAJS = Library(
    "kafkajs", _node("worker.js"), (("roundrobin", "RoundRobinAssigner"),)
)
PLATFORMATIC = Library("platformatic", _node("platformatic.mjs"))

TRANSACTIONAL = (
    *(KOHORT, CONFLUENT, KAFKA_PYTHON, AIOKAFKA),
    *(JAVA, FRANZ_GO, SARAMA, KAFKAJS),
)
"""Libraries with transactions."""
WORD_COUNT = Library("kafka-streams", _java("java", "WordCount"))
