"""Apache Kafka's own command line tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.libraries import _built, _run, need

HERE = Path(__file__).parent
SMALL = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
"""For a short start on a small machine."""


def _fetch(folder: Path) -> None:
    _run(["mvn", "-B", "-q", "dependency:copy-dependencies"], folder)


@pytest.fixture(scope="session")
def class_path() -> str:
    """Apache Kafka's tools, fetched once."""
    need("java", "mvn")
    return f"{_built(HERE / 'tools', _fetch) / 'target' / 'dependency'}/*"
