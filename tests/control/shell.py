"""Commands, as users run them, for scenes.

Commands that end by themselves run in this process, on its file descriptors: to start
one takes longer than all that it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from tests.commands import KOHORT, environment

from kohort.control.cli import cli

At = dict[str, str]
"""Environment variable of a user with the broker's address."""


class Ended(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str


class Shell:
    """Runs commands in this process."""

    def __init__(self, captured: pytest.CaptureFixture[str], folder: Path) -> None:
        self._captured = captured
        self._stdin = folder / "stdin"

    def run(self, *arguments: str, stdin: bytes = b"", **variables: str) -> Ended:
        """A command with something on stdin, and variables of the environment."""
        self._stdin.write_bytes(stdin)
        kept = os.dup(0)
        with self._stdin.open("rb") as file:
            os.dup2(file.fileno(), 0)
        try:
            with (
                mock.patch.dict(os.environ, variables),
                pytest.raises(SystemExit) as ended,
            ):
                cli(arguments, prog_name="kohort")
        finally:
            os.dup2(kept, 0)
            os.close(kept)
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, *self._captured.readouterr())

    def done(self, *arguments: str, **variables: str) -> str:
        """The output of a command that succeeded."""
        ended = self.run(*arguments, stdin=b"", **variables)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    def fails(self, *arguments: str, code: int = 1) -> str:
        """The last line on stderr of a command that ends with this code."""
        ended = self.run(*arguments)
        assert ended.code == code, ended
        last = ended.err.splitlines()[-1]
        assert last.startswith("kohort: ")
        return last.removeprefix("kohort: ")

    def refused(self, *arguments: str, code: int, **variables: str) -> str:
        """The one line of a command that ends with this code, on stderr."""
        ended = self.run(*arguments, stdin=b"", **variables)
        assert (ended.code, ended.out) == (code, ""), ended
        (line,) = ended.err.splitlines()
        assert line.startswith("kohort: ")
        return line.removeprefix("kohort: ")

    def sent(self, topic: str, data: bytes, *options: str) -> tuple[int, str]:
        """(exit code, stderr) of a `kohort produce` with something on stdin."""
        ended = self.run("produce", topic, *options, stdin=data)
        assert not ended.out
        return ended.code, ended.err

    def group(self, name: str) -> Any:
        """The group as `kohort groups describe --json` prints it."""
        (found,) = json.loads(self.done("groups", "describe", name, "--json"))
        return found


@contextlib.contextmanager
def consuming(*arguments: str, **at: str) -> Iterator[subprocess.Popen[str]]:
    """A `kohort consume` that has got its partitions; it is gone afterwards."""
    with subprocess.Popen(
        [*KOHORT, "consume", *arguments],
        env=environment(**at),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("kohort: assigned"), line
            yield process
        finally:
            process.kill()
