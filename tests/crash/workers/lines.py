"""The protocol between the harness and its workers.

A worker is a process of real clients that lives as long as the run. Its argument is one
JSON object. It reads commands from its stdin, one word per line and perhaps a number,
and writes events to its stdout, one JSON object per line.

Commands:
    tell        report the clients' own state, in a `told` event
    bounce N    close client N and make a new one in its place, then `bounced`
    kill N      owners: kill process N while a topic is being changed
    spare 0|1   owners: from now on delete topics, or none; then `spared`
    stop        finish pending work, close, send `done`, exit 0
    The end of stdin means: exit at once. SIGABRT ends it, and prints the
    stacks of its threads on stderr.

Events: `ready`, `told` with `clients`, `bounced`, `done` with `sent`, and `error` with
`text` if the worker cannot go on.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tests.crash.journal import Journal

PACE_S = 0.05
"""Pause of a client between two pieces of its work. It waits for nothing: the pause
limits the load, so that a small machine can still run the broker."""
POLL_S = 0.1


def say(event: str, **fields: object) -> None:
    """Writes one event, in one write."""
    os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


class Client(Protocol):
    """One client in a separate thread."""

    def work(self) -> None:
        """Does a little work, and returns after a fraction of a second."""

    def tell(self) -> object:
        """Its state; called from another thread."""

    def close(self) -> None:
        """Finishes pending work."""


class Runner:
    """Runs a client until it has to end; the client may be replaced meanwhile.

    Args:
        make: makes a client.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self.client: Client | None = None
        self.stopping = threading.Event()
        self._bounce = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def bounce(self) -> None:
        """Closes the client, and makes another one."""
        self._bounce.set()

    def join(self) -> None:
        """Waits until it has closed its client."""
        self._thread.join()

    def _run(self) -> None:
        try:
            client = self.client = self._make()
            while not self.stopping.is_set():
                if self._bounce.is_set():
                    self.client = None
                    client.close()
                    client = self.client = self._make()
                    self._bounce.clear()
                    say("bounced")
                client.work()
            client.close()
        except BaseException:  # noqa: BLE001 - the harness reports it
            say("error", text=traceback.format_exc())


def arguments() -> tuple[dict[str, Any], Journal]:
    """The harness's arguments, and the journal to write."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    return wanted, Journal(Path(wanted["journal"]))


def _commands() -> Iterator[list[str]]:
    for line in sys.stdin:
        yield line.split()
    # The harness is gone: no one needs the results.
    os._exit(3)


def serve(
    make: Sequence[Callable[[], Client]],
    sent: Callable[[], object],
    others: Mapping[str, Callable[[str], None]] = MappingProxyType({}),
) -> None:
    """Runs the clients, and handles commands until `stop`.

    Args:
        make: makes each client.
        sent: the value of `sent` in `done`.
        others: further commands; each gets the following word.
    """
    runners = [Runner(each) for each in make]
    faulthandler.enable()
    say("ready")
    for command in _commands():
        if command[0] == "tell":
            clients = [each.client for each in runners]
            say("told", clients=[each and each.tell() for each in clients])
        elif command[0] == "bounce":
            runners[int(command[1])].bounce()
        elif command[0] in others:
            others[command[0]](command[1])
        elif command[0] == "stop":
            break
        else:
            say("error", text=f"no such command: {command}")
    # One after the other, static members first: a member that leaves makes the others
    # rejoin, and aiokafka does not close while its JoinGroup waits for a static member
    # that has closed.
    for runner in runners:
        runner.stopping.set()
        runner.join()
    say("done", sent=sent())
    sys.stdout.flush()
    os._exit(0)  # aiokafka's and librdkafka's threads need not finish
