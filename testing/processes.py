"""Programs under test: started with the broker's address, their output collected.

Two threads read a process's streams, so that it is never held up by a full pipe, and a
third waits for its end. They complete futures, for which `Waits` lets tests wait.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import IO, Final

from kohort.testing.waiting import Handle, Waits

KEPT_LINES: Final = 10_000
"""Lines kept of each stream; older ones are dropped."""
TOLD_LINES: Final = 20
"""Lines of stderr in a message."""
NAME_LENGTH: Final = 60
"""Characters of a command in a message."""
LAST_WORDS_S: Final = 0.5
"""Time to read the rest of the output when a process has ended."""
PATIENCE_S: Final = 60.0
"""Default timeout of a wait for a process, which may start on a busy machine."""


class ProcessError(Exception):
    """A process ended or was silent; the message has the end of its stderr."""


class _Output:
    """The lines of a stream, and the waits for one of them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._wanted: list[tuple[str, Future[str | None]]] = []
        self._has_ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """The latest lines, without their newlines."""
        with self._lock:
            return [*self._lines]

    def line(self, text: str) -> Future[str | None]:
        """The first line, old or new, with a text; None if the stream ends."""
        found: Future[str | None] = Future()
        with self._lock:
            old = next((line for line in self._lines if text in line), None)
            if old is None and not self._has_ended:
                self._wanted.append((text, found))
            else:
                found.set_result(old)
        return found

    def join(self) -> None:
        """Waits for the end of the stream, but not for long."""
        self._thread.join(LAST_WORDS_S)

    def _read(self) -> None:
        with self._stream:
            for raw in self._stream:
                self._add(raw.removesuffix("\n"))
        with self._lock:
            self._has_ended = True
            for _, future in self._wanted:
                _complete(future, None)

    def _add(self, line: str) -> None:
        with self._lock:
            self._lines.append(line)
            for wanted in [*self._wanted]:
                if wanted[0] in line:
                    self._wanted.remove(wanted)
                    _complete(wanted[1], line)


def _complete(future: Future[str | None], line: str | None) -> None:
    # A wait that has timed out has cancelled its future.
    if future.set_running_or_notify_cancel():
        future.set_result(line)


class Line(Handle):
    """A line that a process has written.

    Attributes:
        text: the line without its newline.
    """

    text: str


class Exit(Handle):
    """The end of a process.

    Attributes:
        code: the exit code, negative for a signal.
    """

    code: int


class Process:
    """A program that a test has started; killed with its children when the test ends.

    Attributes:
        arguments: the command.
        pid: its process id, which also is the id of its process group.
    """

    def __init__(
        self,
        waits: Waits,
        arguments: Sequence[str | os.PathLike[str]],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str] | None,
    ) -> None:
        self.arguments = [os.fspath(each) for each in arguments]
        self._waits = waits
        self._popen = subprocess.Popen(  # noqa: S603 - the test's own command
            self.arguments,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self.pid = self._popen.pid
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._out = _Output(self._popen.stdout)
        self._err = _Output(self._popen.stderr)
        self._exit: Future[int] = Future()
        threading.Thread(target=self._reap, daemon=True).start()

    def __repr__(self) -> str:
        """The command, and whether it runs."""
        code = self.returncode
        state = "runs" if code is None else f"ended with {code}"
        return f"<Process {self.name}: {state}>"

    @property
    def name(self) -> str:
        """The command, shortened to a line of a message."""
        line = shlex.join([Path(self.arguments[0]).name, *self.arguments[1:]])
        return shorten(line, NAME_LENGTH, placeholder=" ...")

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._exit.result() if self._exit.done() else None

    @property
    def stdout(self) -> list[str]:
        """The latest lines of stdout."""
        return self._out.lines()

    @property
    def stderr(self) -> list[str]:
        """The latest lines of stderr."""
        return self._err.lines()

    def kill(self) -> None:
        """Kills the process and its children, which send no LeaveGroup.

        When it returns, the process is gone.
        """
        self._signal("SIGKILL")
        self._exit.result(PATIENCE_S)

    def terminate(self) -> None:
        """Asks the process and its children to end (SIGTERM)."""
        self._signal("SIGTERM")

    def wait(self, timeout: float = PATIENCE_S) -> Exit:
        """Waits for the end of the process.

        Raises:
            ProcessError: it still runs after `timeout` seconds.
        """
        __tracebackhide__ = True
        exit_ = Exit()

        async def work() -> None:
            try:
                async with asyncio.timeout(timeout):
                    # The time-out of a wait is not the end of the process.
                    exit_.code = await asyncio.shield(asyncio.wrap_future(self._exit))
            except TimeoutError:
                why = f"is still running after {timeout:g} s"
                raise ProcessError(self._told(why)) from None

        return self._waits.begin(exit_, work(), "process.wait()")

    def wait_for_line(
        self, text: str, *, stream: str = "stdout", timeout: float = PATIENCE_S
    ) -> Line:
        """Waits for the first line with a text, which may already be there.

        Args:
            text: a part of the line.
            stream: "stdout" or "stderr".
            timeout: seconds.

        Raises:
            ProcessError: the process ended, or `timeout` passed, without the line.
        """
        __tracebackhide__ = True
        line = Line()
        output = {"stdout": self._out, "stderr": self._err}[stream]

        async def work() -> None:
            why = f"did not write a line with {text!r} to {stream}"
            try:
                async with asyncio.timeout(timeout):
                    found = await asyncio.wrap_future(output.line(text))
            except TimeoutError:
                raise ProcessError(self._told(f"{why} in {timeout:g} s")) from None
            if found is None:
                # The stream of a process that ends closes a moment before its exit.
                exit_ = asyncio.shield(asyncio.wrap_future(self._exit))
                await asyncio.wait([exit_], timeout=LAST_WORDS_S)
                raise ProcessError(self._told(why))
            line.text = found

        return self._waits.begin(line, work(), f"process.wait_for_line({text!r})")

    def _signal(self, name: str) -> None:
        if sys.platform == "win32":
            self._popen.terminate()
            return
        # A process that has ended may have left children in its group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, getattr(signal, name))

    def _reap(self) -> None:
        code = self._popen.wait()
        # Its last words are there when it has ended, unless a child goes on writing.
        self._out.join()
        self._err.join()
        self._exit.set_result(code)

    def _told(self, why: str) -> str:
        tail = self.stderr[-TOLD_LINES:]
        code = self.returncode
        end = "" if code is None else f"; it ended with {code}"
        lines = "".join(f"\n  {line}" for line in tail)
        return f"{self.name} {why}{end}" + (f"; its stderr:{lines}" if tail else "")
