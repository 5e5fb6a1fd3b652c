"""Pytest plugin of `.ci/step.py`: records the tests under way and how a session ended.

It writes into the folder that STEP_WATCH names:

- `running-PID.json` while the process PID runs a test: a `step.Running`;
- `session.json` after a failure, and at the end of the session: a `step.Session`.

On SIGUSR1 a process prints the stacks of its asyncio tasks. Those of its threads are
printed by faulthandler, which pytest turns on, on SIGABRT.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

FOLDER = Path(os.environ["STEP_WATCH"])
STDERR = os.dup(2)
"""Standard error, which pytest captures while a test runs."""


def print_tasks(_signal: int, _frame: FrameType | None) -> None:
    """Prints the tasks of the loop that runs in the main thread, and their stacks."""
    with contextlib.suppress(RuntimeError):  # there is no loop
        for task in asyncio.all_tasks():
            os.write(STDERR, f"{task.get_name()}:\n".encode())
            awaited: Any = task.get_coro()
            while frame := getattr(awaited, "cr_frame", None):
                place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                os.write(STDERR, f"  {place} {awaited.__qualname__}\n".encode())
                awaited = awaited.cr_await


def reason(report: pytest.TestReport) -> str:
    """The first line of a failed test's error, and the causes that Java names."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = report.longrepr if crash is None else crash.message
    first, *others = str(text).strip().splitlines() or [""]
    causes = [each for each in others if each.startswith((": ", "Caused by: "))]
    return " ".join([first, *causes[:1], *causes[1:][-1:]])


class Watch:
    """Records the events of one session.

    With pytest-xdist the workers run the tests, and the process that distributes them
    gets the reports.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._running = FOLDER / f"running-{os.getpid()}.json"
        self._collected: set[str] = set()
        self._reported: set[str] = set()
        self._failed: dict[str, str] = {}
        self._errors = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item
    ) -> Generator[None, object, object]:
        """Writes down the test that this process runs."""
        running = {
            "pid": os.getpid(),
            "worker": os.environ.get("PYTEST_XDIST_WORKER", "pytest"),
            "test": item.nodeid,
            "since_s": time.monotonic(),
        }
        self._running.write_text(json.dumps(running))
        try:
            return (yield)
        finally:
            self._running.unlink(missing_ok=True)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Writes down the tests to run."""
        self._collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Writes down the tests that a worker has collected."""
        self._collected.update(ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Counts modules that could not be collected."""
        self._errors += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes down tests that ended; a worker that died is a failure, too."""
        self._reported.add(report.nodeid)
        if report.failed:
            self._failed.setdefault(report.nodeid, reason(report))
            self._write_session(None)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Writes down how the session ended."""
        self._write_session(int(exitstatus))

    def _write_session(self, exit_status: int | None) -> None:
        if hasattr(self._config, "workerinput"):
            return
        places: list[str] = self._config.option.file_or_dir
        session: dict[str, Any] = {
            "command": [arg for arg in sys.orig_argv if arg not in places],
            "cwd": str(self._config.rootpath),
            "environment": dict(os.environ),
            "exit_status": exit_status,
            "failed": self._failed,
            "errors": self._errors,
            "missed": len(self._collected - self._reported),
        }
        (FOLDER / "session.json").write_text(json.dumps(session))


def pytest_configure(config: pytest.Config) -> None:
    """Starts to watch."""
    signal.signal(signal.SIGUSR1, print_tasks)
    config.pluginmanager.register(Watch(config), "kohort-ci-watch")
