"""Starts atheris for one target, and reads its output."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import corpus
from tests.fuzz.target import Target

TIMEOUT_SECONDS = 60
"""A slower input is a find: it would block the broker's loop for nearly as long. A busy
machine can stop a process for 10 s, which is not a find."""
MOST_MEGABYTES = 1500
"""Memory of a process: an input that needs more is a find."""
GRACE_SECONDS = 240
"""Time for imports and seeds, which is not counted: minutes on a busy machine."""

_STATUS = re.compile(rb"#(\d+)\t\w+ +cov: (\d+) ft: (\d+)")
_CRASH = re.compile(rb"Test unit written to (\S+)")
_WHY = re.compile(rb"^(?:\w+\.)*\w+(?:Error|Exception)\b.*|^==\d+== .*", re.MULTILINE)


class Run(NamedTuple):
    """Result of one process.

    Attributes:
        name: of the target.
        runs: number of inputs.
        per_second: inputs a second.
        coverage: branches and comparisons reached, as libFuzzer counts them.
        features: coverage with the number of times that each was reached.
        finds: files with inputs that fail.
        reason: the line with the failure.
    """

    name: str
    runs: int
    per_second: int
    coverage: int
    features: int
    finds: list[Path]
    reason: str

    def __str__(self) -> str:
        found = f", FOUND {self.reason}" if self.finds else ""
        return f"{self.name}: {self.runs:,} runs, coverage {self.coverage:,}{found}"


def _write(folder: Path, inputs: Iterable[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in inputs:
        name = hashlib.sha256(each).hexdigest()[:16]
        (folder / name).write_bytes(each)


def _command(name: str, target: Target, *arguments: str) -> list[str]:
    limits = [
        f"-max_len={target.longest}",
        f"-rss_limit_mb={MOST_MEGABYTES}",
        f"-timeout={TIMEOUT_SECONDS}",
        # libFuzzer also keeps inputs that take a shorter time than that, 10 s.
        f"-report_slow_units={TIMEOUT_SECONDS}",
    ]
    return [sys.executable, "-m", "tests.fuzz.worker", name, *limits, *arguments]


def run(name: str, folder: Path, seconds: int, target: Target, seed: int) -> Run:
    """Fuzzes a target for some time, from its seeds and its corpus.

    The random numbers begin at `seed`; 0 takes another one each time.
    """
    inputs = folder / "corpus"
    _write(inputs, [*target.seeds(), *corpus.stored(name)])
    command = _command(
        name,
        target,
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-artifact_prefix={folder}/",
        "-len_control=0",  # seeds are short, and longer inputs are not slower
        "-print_final_stats=1",
        str(inputs),
    )
    path = folder / "output"
    with path.open("wb") as output:
        try:
            code = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds + GRACE_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    return _read(name, path, code, seconds)


def _read(name: str, path: Path, code: int, seconds: int) -> Run:
    text = path.read_bytes()
    status = _STATUS.findall(text)
    runs, coverage, features = map(int, status[-1]) if status else (0, 0, 0)
    finds = [Path(found.decode()) for found in _CRASH.findall(text)]
    if code and not finds:
        # The process failed while no input ran: its output has the reason.
        finds = [path]
    why = _WHY.findall(text)
    reason = why[0].decode(errors="replace") if why else f"exit code {code}"
    return Run(name, runs, runs // seconds, coverage, features, finds, reason)


def inputs_of(folder: Path) -> list[bytes]:
    """The inputs of a run that reached new code."""
    return [path.read_bytes() for path in (folder / "corpus").iterdir()]
