"""The broker, and the scene that is played on it."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING

import pytest
from tests.interop.scene import LOG, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from tests.interop.libraries import Library

START_S = 30.0
STOP_S = 30.0
PLAYED = pytest.StashKey[list[Scene]]()


def _read_lines(stdout: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    with stdout:
        for line in stdout:
            lines.put(line)
    lines.put(None)


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A broker in its own process, or the one that KOHORT_INTEROP_BOOTSTRAP names.

    With KOHORT_INTEROP_NODES it has so many nodes, and a data directory. The fixture's
    parameter is what its configuration has besides; a broker that runs has its own.
    """
    running = os.environ.get("KOHORT_INTEROP_BOOTSTRAP")
    settings = {"group.initial.rebalance.delay.ms": 0, **getattr(request, "param", {})}
    if running:
        yield running
        return
    argv = [
        sys.executable,
        "-m",
        "kohort",
        "serve",
        "--port",
        "0",
        *(word for key in settings for word in ("--set", f"{key}={settings[key]}")),
    ]
    nodes = os.environ.get("KOHORT_INTEROP_NODES")
    if nodes:
        argv += ["--nodes", nodes, "--data-dir", str(tmp_path / "data")]
    errors = tmp_path / LOG
    # The broker would take the variables of these tests for keys.
    names = [name for name in os.environ if not name.startswith("KOHORT_INTEROP_")]
    with errors.open("wb") as stderr:
        broker = subprocess.Popen(
            argv,
            env={name: os.environ[name] for name in names},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert broker.stdout is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    reader = threading.Thread(
        target=_read_lines, args=(broker.stdout, lines), daemon=True
    )
    reader.start()
    try:
        line = lines.get(timeout=START_S)
        address = re.search(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+)*", line or "")
        assert address is not None, (
            f"the broker said {line!r}; its stderr:\n{errors.read_text()}"
        )
        yield address.group()
        broker.send_signal(signal.SIGTERM)
        code = broker.wait(STOP_S)
        assert code == 0, (
            f"the broker exited {code} on SIGTERM; its stderr:\n{errors.read_text()}"
        )
        assert "Traceback" not in errors.read_text(), errors.read_text()
    finally:
        broker.kill()
        broker.wait()
        reader.join()


@pytest.fixture
def play(
    request: pytest.FixtureRequest, bootstrap: str, tmp_path: Path
) -> Iterator[Callable[[Library, str, Callable[[Scene], None]], None]]:
    """Play with a library and an assignor, on a topic and a group of their own."""
    scenes = request.node.stash.setdefault(PLAYED, [])

    def played(library: Library, assignor: str, told: Callable[[Scene], None]) -> None:
        scene = Scene(library, assignor, bootstrap, tmp_path)
        scenes.append(scene)
        told(scene)

    yield played
    for scene in scenes:
        scene.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed play shows what each of its processes said and was told."""
    report = yield
    if report.failed and call.when == "call":
        for scene in item.stash.get(PLAYED, []):
            report.sections += [
                (f"history of {each.name}", each.story()) for each in scene.everybody
            ]
    return report
