"""Runs a command with a broker, for ``kohort run``.

1. The broker starts on free ports and writes its events to a file.
2. The command starts with the addresses in its environment, and inherits stdin, stdout
   and stderr. Signals to this process are passed on to it.
3. When the command has ended, processes that it leaves behind are killed, and the
   broker stops. If kohort itself is killed, a guard kills the command.
4. If the exit code is not 0, stderr has the history of each group, made from the events
   file, and the path of a timeline page.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from kohort.broker.server import Broker
from kohort.control.commands.run_guard import guarded
from kohort.control.serving import http_opener, served
from kohort.control.terminal import BOOTSTRAP_VARIABLE, counted

NOT_FOUND: Final = 127
"""Exit code of a shell for a missing command."""
NOT_EXECUTABLE: Final = 126
"""Exit code of a shell for a file that cannot be executed."""

MOST_GROUPS: Final = 10
"""Histories that are printed, of the last groups: a suite may have one per test."""
MOST_REBALANCES: Final = 10
"""Rebalances of a printed history, the last ones."""

_PASSED_ON: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_OF_TERMINALS: Final = frozenset({"SIGINT", "SIGQUIT", "SIGHUP"})
"""Signals that a terminal sends to all foreground processes."""


async def run_beside(
    broker: Broker, command: Sequence[str], token: str | None, artifacts: str | None
) -> int:
    """Runs a command with a broker; returns the exit code.

    Args:
        broker: the broker, not started yet.
        command: the program and its arguments.
        token: token of the broker's HTTP port; None for none.
        artifacts: folder for the timeline and events of a failed command; None for a
            new folder.

    Returns:
        The command's exit code, as shells have it: 128 + n if signal n ended it,
        `NOT_FOUND`, `NOT_EXECUTABLE`.

    Raises:
        StartError: the broker cannot be served.
    """
    with tempfile.TemporaryDirectory(prefix="kohort-") as folder:
        events = Path(folder, "events.jsonl")
        async with served(broker, http_opener("0", token), str(events)) as at:
            assert at.url is not None
            addresses = {
                "KAFKA_BOOTSTRAP_SERVERS": at.bootstrap_servers,
                BOOTSTRAP_VARIABLE: at.bootstrap_servers,
                "KOHORT_HTTP": at.url,
            }
            with guarded(f"KOHORT_HTTP={at.url}"):
                code = await _run(command, addresses)
        if code not in {0, NOT_FOUND, NOT_EXECUTABLE}:
            _report(f"{command[0]} exited with code {code}", events, artifacts)
    return code


async def _run(command: Sequence[str], addresses: dict[str, str]) -> int:
    """Runs a command with more environment variables; returns the exit code."""
    with _passing_signals() as child:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=os.environ | addresses
            )
        except FileNotFoundError:
            click.echo(f"kohort: {command[0]}: command not found", err=True)
            return NOT_FOUND
        except OSError as error:
            reason = error.strerror or error
            click.echo(f"kohort: {command[0]}: {reason}", err=True)
            return NOT_EXECUTABLE
        child.started(process)
        code = await process.wait()
    return code if code >= 0 else 128 - code


class _Child:
    """The command's process, to which signals are passed on."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._early: list[signal.Signals] = []

    def started(self, process: asyncio.subprocess.Process) -> None:
        """Passes on the signals that came before the process has started."""
        self._process = process
        for number in self._early:
            self.send(number)

    def send(self, number: signal.Signals) -> None:
        """Passes a signal on."""
        if self._process is None:
            self._early.append(number)
        elif self._process.returncode is None and not (
            number.name in _OF_TERMINALS and _is_in_foreground()
        ):
            self._process.send_signal(number)


@contextmanager
def _passing_signals() -> Iterator[_Child]:
    """Passes signals on to the child process, which is started in the block."""
    child = _Child()
    loop = asyncio.get_running_loop()
    numbers = [signal.Signals[name] for name in _PASSED_ON if hasattr(signal, name)]
    # Windows: Ctrl-C ends the process as it is.
    with suppress(NotImplementedError):
        for number in numbers:
            loop.add_signal_handler(number, child.send, number)
    try:
        yield child
    finally:
        with suppress(NotImplementedError):
            for number in numbers:
                loop.remove_signal_handler(number)


def _is_in_foreground() -> bool:
    """True if the terminal itself sends its signals to the command."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


# -- the report of a failed command


def _report(title: str, events: Path, artifacts: str | None) -> None:
    """Prints the histories of groups; saves their events and a timeline page."""
    from kohort.control.commands.why_printing import show
    from kohort.control.events_file import Line, read_in_order
    from kohort.control.timeline.packing import Packing
    from kohort.control.why.history import History, histories

    delivered: dict[str, str] = {}

    def told(lines: Iterable[Line]) -> Iterator[Mapping[str, Any]]:
        for line in lines:
            if line.event["kind"] == "delivery_account":
                delivered[line.event["group"]] = line.event["words"]
            yield line.event

    def explained(lines: Iterable[Line]) -> list[History]:
        return list(histories(told(lines)).values())

    found = read_in_order(str(events), events.name, (), explained)
    found.sort(key=lambda history: history.facts.until_ns or 0)
    if not found:
        click.echo(f"kohort: {title}; the broker had no groups", err=True)
        return
    click.echo(f"kohort: {title}; {counted(len(found), 'group')}:", err=True)
    for history in found[-MOST_GROUPS:]:
        click.echo(err=True)
        show(history, MOST_REBALANCES, err=True)
        words = delivered.get(history.facts.group)
        if words is not None:
            click.echo(f"\ndelivery: {words}", err=True)
    page = read_in_order(str(events), events.name, (), Packing).page(events.name)
    folder = Path(artifacts) if artifacts else Path(tempfile.mkdtemp(prefix="kohort-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        timeline = folder / "timeline.html"
        timeline.write_text(page.html, encoding="utf-8")
        shutil.move(events, folder / events.name)
    except OSError as error:
        # The exit code stays the command's.
        click.echo(f"kohort: {folder}: {error.strerror or error}", err=True)
        return
    click.echo(f"\nkohort: timeline: {timeline}", err=True)
    if len(found) > MOST_GROUPS:
        click.echo(
            f"kohort: all groups: kohort why --events {folder / events.name}", err=True
        )
