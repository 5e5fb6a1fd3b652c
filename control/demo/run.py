"""Runs the demo: full screen, or as lines of text."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import click
from rich.console import Console

from kohort.broker import loop
from kohort.control.demo.lines import print_lines, summary
from kohort.control.demo.screen import Frame, show_frames
from kohort.control.demo.script import perform
from kohort.control.demo.state import Seen, Setup


def run(setup: Setup, *, is_plain: bool) -> None:
    """Plays it, and ends with a summary; SIGINT and SIGTERM end it early.

    Raises:
        DemoError: it cannot go on.
    """
    # The screen has the client's log messages already, in other words.
    logging.getLogger("kohort.client").addHandler(logging.NullHandler())
    console = Console(highlight=False, markup=False, emoji=False)
    is_plain = is_plain or console.is_dumb_terminal
    loop.run(_run(setup, None if is_plain else console))


async def _run(setup: Setup, console: Console | None) -> None:
    clock = asyncio.get_running_loop().time
    seen = Seen(setup, clock)

    async def show(seen: Seen) -> None:
        if console is None:
            await print_lines(seen, click.echo)
        else:
            await show_frames(seen, console)

    is_whole = await _until_signal(lambda: perform(seen, show))
    text = "\n".join(summary(seen, is_whole=is_whole))
    if console is None:
        click.echo(text)
    else:
        # The screen is gone; its last picture stays.
        console.print(Frame(seen))
        console.print(text)


async def _until_signal(work: Callable[[], Awaitable[None]]) -> bool:
    """Runs the work until it ends or a signal comes; returns whether it ended."""
    task = asyncio.ensure_future(work())
    # A second one changes nothing: the end takes no time.
    loop.on_signals(_cancel_once(task))
    with contextlib.suppress(asyncio.CancelledError):
        await task
        return True
    return False


def _cancel_once(task: asyncio.Future[None]) -> Callable[[], None]:
    is_signalled = False

    def cancel() -> None:
        nonlocal is_signalled
        if not is_signalled:
            is_signalled = True
            task.cancel()

    return cancel
