"""A worker, from the harness's side: started, told, listened to, killed.

A process has one client, or several with names; `lines.py` describes the protocol.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent.parent
READY_S = 60.0
LEAVE_S = 8.0
END_S = 75.0
_RAISED = re.compile(
    r"[\w.]+(Error|Exception)\b|\w+\.errors\."
)  # the last line of a traceback


@dataclass(frozen=True, slots=True)
class Line:
    """One event of a worker; `at_ns` is its own time, or when it was read."""

    at_ns: int
    event: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its name in `lines.py`."""
        return str(self.event["event"])

    @property
    def client(self) -> str:
        """The name of the client in its process."""
        return str(self.event.get("as", ""))


class Worker:
    """One process.

    Args:
        argv: its command.
        stderr: the file for its stderr.
        changed: notified after each line, and at the end; guards everything read.

    Attributes:
        heard: called after each line, by the reading thread.
        lines: its events since `begin`.
        code: its exit code, once it has ended.
        is_reusable: whether another client can be started in it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        stderr: Path,
        changed: threading.Condition | None = None,
    ) -> None:
        self.heard: Callable[[], object] = lambda: None
        self.lines: list[Line] = []
        self.code: int | None = None
        self.is_reusable = True
        self.stderr = stderr
        self.changed = changed or threading.Condition()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "KAFKAJS_NO_PARTITIONER_WARNING": "1",
        }
        with stderr.open("wb") as file:
            self.process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin: IO[str] = self.process.stdin
        self._reader = threading.Thread(
            target=self._read, args=(self.process.stdout,), daemon=True
        )
        self._reader.start()

    # -- listening

    def _read(self, stdout: IO[str]) -> None:
        with stdout:
            for text in stdout:
                try:
                    event = json.loads(text)
                except ValueError:
                    event = {"event": "error", "text": f"wrote no event: {text!r}"}
                line = Line(event.get("at_ns", time.time_ns()), event)
                with self.changed:
                    self.take(line)
                    self.changed.notify_all()
                self.heard()
        code = self.process.wait()
        with self.changed:
            self.code = code
            self.changed.notify_all()
        self.heard()

    def take(self, line: Line) -> None:
        """Takes one event."""
        self.lines.append(line)

    @property
    def error(self) -> str | None:
        """The library's error that ended the application; None if it works."""
        for line in self.lines:
            if line.kind == "error":
                return str(line.event["text"])
        if self.code is None:
            return None
        said = self.logged().strip().splitlines()
        raised = [line for line in said if _RAISED.match(line)]
        return (raised or said or [f"exit code {self.code}"])[-1]

    def logged(self) -> str:
        """The end of its stderr."""
        return self.stderr.read_text(errors="replace")[-8_000:]

    def until(self, kind: str, limit_s: float = READY_S) -> bool:
        """Waits for an event; False if it does not come, or the process ends."""

        def come() -> bool:
            return any(each.kind == kind for each in self.lines)

        with self.changed:
            self.changed.wait_for(lambda: come() or self.code is not None, limit_s)
            return come()

    # -- telling

    def begin(self, heard: Callable[[], object]) -> None:
        """Forgets its events, and calls `heard` after each further line."""
        with self.changed:
            self.lines = []
            self.heard = heard

    def send(self, verb: str, **words: object) -> None:
        """Writes one command; words that are None are left out."""
        given = (f"{k}={v}" for k, v in words.items() if v is not None)
        with contextlib.suppress(OSError):  # the reader reports its end
            self._stdin.write(" ".join([verb, *given]) + "\n")
            self._stdin.flush()

    def leave(self) -> bool:
        """Makes it close its client; False if it did not, and cannot be reused."""
        self.heard = lambda: None
        if self.error is not None:
            return False
        self.send("leave")
        return self.until("left", LEAVE_S)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Ends it with a signal, and waits until all its lines are read."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.wait()
        with contextlib.suppress(OSError):
            self._stdin.close()

    def wait(self, limit_s: float = END_S) -> None:
        """Waits until it has ended, and all its lines are read."""
        self.process.wait(limit_s)
        self._reader.join()


class Pool:
    """Processes of one library, used again and again: some take long to start.

    Args:
        command: returns their argv.
        folder: for their stderr.
        name: of the library; begins the names of those files.
    """

    def __init__(
        self, command: Callable[[], Sequence[str]], folder: Path, name: str
    ) -> None:
        self._command = command
        self._folder = folder
        self.name = name
        self._argv: Sequence[str] = ()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []

    def take(self) -> Worker:
        """One without a client, loaded."""
        while self._idle:
            worker = self._idle.pop()
            if worker.code is None:
                return worker
        self._argv = self._argv or self._command()
        stderr = self._folder / f"{self.name}-{len(self._all)}.stderr"
        worker = Worker(self._argv, stderr)
        self._all.append(worker)
        worker.until("ready")
        return worker

    def give_back(self, worker: Worker) -> bool:
        """Makes it close its client; False if it has to be ended instead."""
        worker.is_reusable = worker.is_reusable and worker.leave()
        if worker.is_reusable:
            self._idle.append(worker)
        else:
            worker.stop()
        return worker.is_reusable

    def stop(self) -> None:
        """Ends all of them."""
        for worker in self._all:
            worker.stop()
