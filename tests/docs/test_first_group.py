"""The first tutorial: its commands, in one terminal, print what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.commands import KOHORT, environment

pytestmark = pytest.mark.long
PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-group.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 60.0


def shape(line: str) -> str:
    """A line without the ids, times and durations of one run."""
    line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", line)
    line = re.sub(r"^[\d-]+T[\d:.]+Z", "TIME", line)
    duration = r"(under )?[\d.]+ (µs|ms|s|member-seconds|partition-seconds)(?!\w)"
    return re.sub(duration, "DURATION", line)


def test_the_commands_print_what_is_shown(tmp_path: Path) -> None:
    """`kohort run` has the broker here, on free ports, and shorter waits."""
    blocks = BLOCK.findall(PAGE.read_text())
    install, serve, *rest = [text for language, text in blocks if language == "sh"]
    assert "pip install" in install
    assert serve.startswith("kohort serve --http 9080")
    assert rest.pop() == "kill %1 %2\n"
    commands = "".join([*rest, "kill %1\n"]).replace(
        "--from-beginning", "--from-beginning -X heartbeat.interval.ms=100"
    )
    script = tmp_path / "script.sh"
    script.write_text(
        f"shopt -s expand_aliases\nalias kohort={shlex.quote(shlex.join(KOHORT))}\n"
        f"set -e\n{commands}"
    )
    delay = "group.initial.rebalance.delay.ms=200"
    played = subprocess.run(
        [*KOHORT, "run", "--set", delay, "--", "bash", str(script)],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    printed = {shape(line) for line in played.stdout.splitlines()}
    outputs = [text for language, text in blocks if language == "text"]
    expected = {shape(line) for text in outputs[1:] for line in text.splitlines()}
    assert expected - printed == set(), played.stdout
    assert played.returncode == 0, played.stdout
    assert len((tmp_path / "billing-1.txt").read_text().splitlines()) == 600
