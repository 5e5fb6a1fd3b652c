"""The command ``kohort top``."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import click

from kohort.control.terminal import examples, http_option

if TYPE_CHECKING:
    from rich.console import Console

    from kohort.control.remote import Remote
    from kohort.control.top.rates import Frame


@click.command()
@http_option
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    help="Seconds between updates.",
)
@click.option(
    "--once",
    is_flag=True,
    help="Prints once. Rates are averages since the HTTP port was opened.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Prints JSON, for programs: one line per update.",
)
@examples("kohort top", "kohort top --once")
def top(http: str, interval: float, *, once: bool, as_json: bool) -> None:
    """Shows the activity of groups, until Ctrl-C.

    Needs a broker with an HTTP port: kohort serve --http 9080. If stdout is not a
    terminal, it prints once.
    """
    from kohort.control.remote import reached

    pauses = Pauses(interval)
    with reached(http) as remote, contextlib.suppress(KeyboardInterrupt), pauses:
        if as_json:
            for snapshot in _snapshots(remote, pauses, once=once):
                click.echo(json.dumps(snapshot))
                sys.stdout.flush()
        else:
            _show(remote, pauses, once=once or not sys.stdout.isatty())


class Pauses:
    """Pauses between updates, until SIGINT or SIGTERM.

    Signals raise an exception, so that the terminal is restored. An exception that is
    raised in a finalizer is lost; therefore the next pause raises it again.

    Args:
        seconds: length of a pause.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _end(self, number: int, _: object) -> None:
        self._number = number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    def pause(self) -> None:
        """Waits until the pause is over.

        Raises:
            KeyboardInterrupt: SIGINT was received.
            SystemExit: SIGTERM was received.
        """
        if self._number:
            self._end(self._number, None)
        time.sleep(self._seconds)


def _snapshots(
    remote: Remote, pauses: Pauses, *, once: bool
) -> Iterator[dict[str, Any]]:
    while True:
        yield remote.get("metrics.json")
        if once:
            return
        pauses.pause()


def _show(remote: Remote, pauses: Pauses, *, once: bool) -> None:
    from kohort.control.tables import terminal
    from kohort.control.top.rates import frame
    from kohort.control.top.screen import picture

    console = terminal()
    first = frame(None, remote.get("metrics.json"))
    if once:
        # The output of --once can be scrolled; a pipe gets all columns.
        console.print(picture(first, console.width if sys.stdout.isatty() else None))
        return
    _watch(remote, pauses, console, first)


def _watch(remote: Remote, pauses: Pauses, console: Console, shown: Frame) -> None:
    """Draws until it is interrupted, also while the broker is stopped."""
    from rich.live import Live

    from kohort.control.remote import RemoteError
    from kohort.control.top.rates import frame
    from kohort.control.top.screen import picture

    with Live(
        picture(shown, *console.size), console=console, screen=True, auto_refresh=False
    ) as live:
        while True:
            pauses.pause()
            trouble = None
            try:
                shown = frame(shown.now, remote.get("metrics.json"))
            except RemoteError as error:
                trouble = f"as it was: {error}"
            live.update(picture(shown, *console.size, trouble), refresh=True)
