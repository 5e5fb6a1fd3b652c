"""A command's terminal: its progress there, and an end that closes early. No Spark."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
from tests.commands import KOHORT, environment
from tests.patience import PATIENCE_S

from kohort.pipeline.commands.progress import Progress
from kohort.pipeline.commands.work import Access, perform

# -- head


@pytest.fixture
def closed() -> Iterator[TextIO]:
    """The writing end of a pipe without a reader, as after ``| head``."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        yield file


def test_a_list_may_be_cut_by_head(closed: TextIO) -> None:
    """The command ends with 0, and complains of nothing."""
    ended = subprocess.run(
        [*KOHORT, "pipeline", "query", "--tables"],
        env=environment(),
        stdout=closed,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def _buffered() -> int:
    sys.stdout.write("a row\n")
    return 1


def _at_once() -> int:
    print("a row", flush=True)
    raise AssertionError


@pytest.mark.parametrize(("work", "code"), [(_buffered, 1), (_at_once, 0)])
def test_a_closed_pipe_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
    closed: TextIO,
    work: Callable[[], int],
    code: int,
) -> None:
    """Noticed at the end, or in the middle; Python's own last flush fails neither."""
    monkeypatch.setattr(sys, "stdout", closed)
    access = Access("lake", None, None, {}, None, None, [], Progress())
    with pytest.raises(SystemExit) as ended:
        perform(access, work)
    assert ended.value.code == code
    print("the last line", flush=True)


# -- progress


STAGES = {
    1: SimpleNamespace(numTasks=4, numCompletedTasks=1),
    3: SimpleNamespace(numTasks=4, numCompletedTasks=3),
    9: None,
}
"""Spark's running stages by their ids; the last one has just ended."""
TRACKER = SimpleNamespace(getActiveStageIds=lambda: [*STAGES], getStageInfo=STAGES.get)
RUNNING = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: TRACKER))
ENDING = SimpleNamespace()
"""A session without a context: the connection to Java is gone."""


@contextlib.contextmanager
def terminal() -> Iterator[int]:
    """Stderr is a terminal meanwhile; the file that reads it.

    No fixture: pytest sets stderr anew when a test begins.
    """
    ours, theirs = pty.openpty()
    settings = {"TERM": "xterm", "COLUMNS": "200", "NO_COLOR": "1"}
    with os.fdopen(theirs, "w") as file, pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stderr", file)
        yield ours
    os.close(ours)


def read_until(ours: int, text: str) -> None:
    """Reads until a text is there; a text that is shown comes with the next refresh."""
    said = ""
    for _ in range(20):
        assert select.select([ours], [], [], PATIENCE_S)[0], said
        said += os.read(ours, 4096).decode(errors="replace")
        if text in said:
            return
    raise AssertionError(said)


@pytest.mark.parametrize(
    ("spark", "stages"),
    [(RUNNING, "  Spark: 2 stages, 4 of 8 tasks  "), (ENDING, "  "), (None, "  ")],
)
def test_a_terminal_shows_tables_and_stages(spark: Any, stages: str) -> None:
    """The tables that are done, three of those that are begun, and Spark's stages."""
    with terminal() as ours:
        progress = Progress()
        progress.spark = spark
        progress.say("builds")
        progress.tables(8)
        for path in "abcde":
            progress.table(path, "begins")
        progress.table("b", "ends")
        with progress.shown():
            read_until(ours, f" builds  1 of 8 tables  a, c, d{stages}")
            progress.tables(0)
            read_until(ours, f" builds{stages}")


def test_without_a_terminal_nothing_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A log of a build has no line that is written anew."""
    progress = Progress()
    with progress.shown():
        progress.say("builds")
    assert capsys.readouterr().err == ""
