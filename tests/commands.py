"""The command ``kohort``, as users run it: in a separate process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from tests.patience import PATIENCE_S

KOHORT = [sys.executable, "-m", "kohort"]


def environment(**variables: str) -> dict[str, str]:
    """The environment of a user with only these variables."""
    found = {n: v for n, v in os.environ.items() if not n.startswith("KOHORT_")}
    return found | {"PYTHONWARNINGS": "error"} | variables


def kohort(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [*KOHORT, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def refused(*arguments: str, code: int, **variables: str) -> str:
    """The only stderr line of a command that exits with this code."""
    done = kohort(*arguments, **variables)
    assert done.returncode == code, done
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("kohort: ")
    return line.removeprefix("kohort: ")


def done(*arguments: str, **variables: str) -> str:
    """The output of a command that succeeded."""
    ended = kohort(*arguments, **variables)
    assert ended.returncode == 0, ended
    assert not ended.stderr
    return ended.stdout


class Serving:
    """A ``kohort serve`` that accepts connections; its stderr goes to a file.

    Attributes:
        addresses: those of its nodes, from its ready line.
        http: the URL of its HTTP port; None without one.
        pid: its process, from its ready line.
    """

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.errors = errors
        self.line = process.stdout.readline()
        found = re.fullmatch(
            r"kohort accepts connections on (\S+)(?: and (http://\S+))? "
            r"\(pid (\d+)\)\n",
            self.line,
        )
        assert found, (self.line, self.logged())
        self.addresses = found[1].split(",")
        self.http: str | None = found[2]
        self.pid = int(found[3])

    @property
    def address(self) -> str:
        """The address of its first node: "host:port"."""
        return self.addresses[0]

    @property
    def host(self) -> str:
        """The host of its first node."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of its first node."""
        return int(self.address.rpartition(":")[2])

    def logged(self) -> str:
        """Its stderr so far."""
        self.errors.seek(0)
        return self.errors.read()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """(exit code, the rest of stdout, stderr) after a signal."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, self.logged()


@contextlib.contextmanager
def serving(
    *arguments: str,
    command: tuple[str, ...] = (),
    stdin: int | None = None,
    **variables: str,
) -> Iterator[Serving]:
    """A broker on a free port, which is always stopped in the end."""
    # A pipe without a reader would block a broker that logs much.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*(command or KOHORT), "serve", "--port", "0", *arguments],
            env=environment(**variables),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with process:
            try:
                yield Serving(process, errors)
            finally:
                process.kill()
