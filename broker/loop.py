"""The event loop, uvloop if it is installed, and the signals that end a program."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the fastest available loop."""
    try:
        import uvloop
    except ImportError:
        factory = asyncio.new_event_loop
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def on_signals(callback: Callable[[], object]) -> None:
    """Calls `callback` on SIGTERM and SIGINT, from the running loop."""
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows: Ctrl-C ends the process as it is.
        with contextlib.suppress(NotImplementedError):
            running.add_signal_handler(number, callback)
