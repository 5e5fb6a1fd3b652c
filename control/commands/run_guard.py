"""The guard of ``kohort run``: no process of its command outlives the broker.

A small process beside kohort, in a session of its own, which waits for the end of its
stdin. That comes when the command has ended, and also when kohort is killed, whatever
the signal. Then it kills the processes that have the broker's address in their
environment, as all of the command's have. Daemons that have left the session stay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MOST_ROUNDS = 200
_ROUND_S = 0.01
"""A killed process is gone at once, unless it waits for a disk: it gets 2 s."""


@contextmanager
def guarded(variable: str) -> Iterator[None]:
    """Kills the processes that the block leaves behind, also if this one is killed.

    Linux only: elsewhere the environment of a process cannot be read.

    Args:
        variable: "NAME=VALUE", in the environment of these processes alone.
    """
    if sys.platform != "linux":
        yield
        return
    guard = subprocess.Popen(  # noqa: S603 - its own file
        # Isolated and without site-packages: it starts in a few ms.
        [sys.executable, "-I", "-S", __file__, variable, str(os.getsid(0))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with guard:
        yield


def _of_session(process: str, session: int) -> bool:
    with suppress(OSError):
        return os.getsid(int(process)) == session
    return False


def _kill_all(variable: bytes, session: int) -> bool:
    """Kills them; returns whether there were any."""
    found = False
    for folder in Path("/proc").iterdir():
        # Others end, or belong to others, while this looks.
        with suppress(OSError):
            if folder.name.isdigit() and _of_session(folder.name, session):
                variables = (folder / "environ").read_bytes().split(b"\0")
                if variable in variables:
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
    return found


if __name__ == "__main__":
    sys.stdin.read()
    for _ in range(_MOST_ROUNDS):
        if not _kill_all(os.fsencode(sys.argv[1]), int(sys.argv[2])):
            break
        time.sleep(_ROUND_S)
