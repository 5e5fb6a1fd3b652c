"""A worker of `tests/interop` as an asyncio process, and all its events.

A worker is used for one cell after the other: a process of Java takes longer to start
than most cells last.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.interop.libraries import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READY_S = 60.0
LEAVE_S = 8.0
_RAISED = re.compile(
    r"[\w.]+(Error|Exception)\b|\w+\.errors\."
)  # the last line of a traceback
LONGEST_LINE = 1 << 24  # bytes; a batch of records is one line


@dataclass(frozen=True, slots=True)
class Line:
    """One event of a worker; `at_ns` is its own time, or when it was read."""

    at_ns: int
    event: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its name in `workers/lines.py`."""
        return str(self.event["event"])


@dataclass(slots=True)
class Worker:
    """One process.

    Attributes:
        argv: its command.
        stderr: the file for its stderr.
        changed: called after each line.
        lines: its events since `begin`.
        code: its exit code, once it has ended.
        is_reusable: whether another consumer can be started in it.
    """

    argv: list[str]
    stderr: Path
    changed: Callable[[], object] = lambda: None
    lines: list[Line] = field(default_factory=list)
    code: int | None = None
    is_reusable: bool = True
    process: asyncio.subprocess.Process = field(init=False)
    _said: asyncio.Event = field(default_factory=asyncio.Event)
    _reader: asyncio.Task[None] = field(init=False)

    async def start(self) -> None:
        """Starts it, and waits until the library is loaded."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "KAFKAJS_NO_PARTITIONER_WARNING": "1",
        }
        with self.stderr.open("wb") as stderr:
            self.process = await asyncio.create_subprocess_exec(
                *self.argv,
                cwd=ROOT,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=LONGEST_LINE,
            )
        self._reader = asyncio.create_task(self._read())
        await self.until("ready", READY_S)

    def begin(self, changed: Callable[[], object]) -> None:
        """Forgets its events, and calls `changed` after each further line."""
        self.lines = []
        self.changed = changed

    def send(self, verb: str, **words: object) -> None:
        """Writes one command."""
        line = " ".join([verb, *(f"{key}={value}" for key, value in words.items())])
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # the reader reports its end
            self.process.stdin.write(line.encode() + b"\n")

    async def until(self, kind: str, limit_s: float) -> bool:
        """Waits for an event; False if it does not come, or the process ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not any(each.kind == kind for each in self.lines):
                    if self.code is not None:
                        return False
                    self._said.clear()
                    await self._said.wait()
                return True
        return False

    async def leave(self) -> bool:
        """Makes it close its consumer; False if it did not, and cannot be reused."""
        self.changed = lambda: None
        if self.error is not None:
            return False
        self.send("leave")
        return await self.until("left", LEAVE_S)

    async def stop(self) -> None:
        """Sends SIGKILL, and waits for the end."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reader

    @property
    def error(self) -> str | None:
        """The library's error that ended the application; None if it works."""
        for line in self.lines:
            if line.kind == "error":
                return str(line.event["text"])
        if self.code is None:
            return None
        said = self.stderr.read_text(errors="replace").strip().splitlines()
        raised = [line for line in said if _RAISED.match(line)]
        return (raised or said or [f"exit code {self.code}"])[-1]

    async def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while line := await stdout.readline():
            try:
                event = json.loads(line)
            except ValueError:
                print(f"no event: {line!r}", file=sys.stderr)
                continue
            self.lines.append(Line(event.get("at_ns", time.time_ns()), event))
            self._tell()
        self.code = await self.process.wait()
        self._tell()

    def _tell(self) -> None:
        self._said.set()
        self.changed()
