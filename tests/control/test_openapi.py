"""The broker conforms to its OpenAPI document, checked by a public tool.

`schemathesis` reads the document, sends valid and invalid requests of every operation,
sequences of them too, and compares each answer with the document.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import environment, serving

PROGRAM = Path(sys.executable).with_name("st")
CONFIG = Path(__file__).with_name("schemathesis.toml")
TOKEN = "open sesame"
LIMIT_S = 400
"""It takes 20 seconds on an idle machine."""

pytestmark = pytest.mark.interop


@pytest.fixture
def program() -> Path:
    """The program of schemathesis."""
    if not PROGRAM.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {PROGRAM}")
        pytest.skip("schemathesis comes with kohort[dev]")
    return PROGRAM


def test_the_document_is_kept(program: Path, tmp_path: Path) -> None:
    """All of its checks pass; the broker lives on, and has no fault of ours to log."""
    # Few timers, so that a month of the clock is short.
    settings = {
        "offsets.topic.num.partitions": 2,
        "offsets.retention.check.interval.ms": 86_400_000,
    }
    sets = [f"--set={key}={value}" for key, value in settings.items()]
    with serving("--nodes=2", "--http=0", *sets, KOHORT_HTTP_TOKEN=TOKEN) as broker:
        done = subprocess.run(
            [
                program,
                f"--config-file={CONFIG}",
                "run",
                f"{broker.http}/v1/openapi.json",
                f"--header=Authorization: Bearer {TOKEN}",
                "--checks=all",
                "--max-examples=10",
                "--seed=1",
                "--request-timeout=60",
                "--warnings=off",
            ],
            # It stores its findings in the working directory.
            cwd=tmp_path,
            env=environment() | {"PYTHONWARNINGS": ""},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        code, _, logged = broker.end()
    assert code == 0
    assert "request_failed" not in logged
    assert "Traceback" not in logged
