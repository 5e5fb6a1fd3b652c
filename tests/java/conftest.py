"""Apache Kafka's own command line tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.workers.libraries import _built, _run, need

from kohort.broker.server import Broker

HERE = Path(__file__).parent
SMALL = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
"""For a short start on a small machine."""
TIMEOUT_S = 120.0
TOOLS = "org.apache.kafka.tools"
CORE = "kafka."
"""Start of the names of tools that are part of the broker's jar."""

Tool = Callable[..., Awaitable[str]]
"""A tool's standard output; its exit code was 0."""


def _fetch(folder: Path) -> None:
    _run(["mvn", "-B", "-q", "dependency:copy-dependencies"], folder)


@pytest.fixture(scope="session")
def class_path() -> str:
    """Apache Kafka's tools, fetched once."""
    return _jars("tools")


def _jars(project: str) -> str:
    need("java", "mvn")
    return f"{_built(HERE / project, _fetch) / 'target' / 'dependency'}/*"


@pytest.fixture
def tool(broker: Broker, class_path: str) -> Tool:
    """Runs a tool against the cluster."""

    async def run(name: str, *options: str) -> str:
        jars = _jars("kafka") if name.startswith(CORE) else class_path
        argv = ["java", *SMALL, "-cp", jars, name]
        argv += ["--bootstrap-server", broker.bootstrap_servers, *options]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                printed, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise
        assert process.returncode == 0, printed.decode()
        return printed.decode()

    return run
