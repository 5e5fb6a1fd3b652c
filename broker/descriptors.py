"""File descriptors: their limit, and the reserve for the broker itself.

Without a free descriptor a broker cannot write a checkpoint, open a segment or load the
code of an API at its first request. The system gives each new connection the lowest
free descriptor, so a high number shows that few are left.
"""

from __future__ import annotations

import sys
from typing import Final

from kohort.broker.telemetry import Logger

if sys.platform != "win32":
    import resource

log = Logger("kohort.descriptors")

FEWEST: Final = 64
"""Descriptors that a broker needs: some 15 for itself, `FEWEST_LOG_FILES`, `RESERVE`,
and a few connections."""
RESERVE: Final = 32
"""Descriptors that neither clients nor segments get: for checkpoints, listeners,
loading code, and a file of events."""
MOST_LOG_FILES: Final = 512
"""Open segments; opening one again costs some 20 us."""
FEWEST_LOG_FILES: Final = 8

_ANY_NUMBER = 2**31
"""Stands for no limit, as on Windows: descriptors are 32-bit numbers."""


def limit() -> int:
    """The number of descriptors that the process may have (``ulimit -n``)."""
    if sys.platform == "win32":
        return _ANY_NUMBER
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ANY_NUMBER if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> int:
    """Raises the process's limit on descriptors as far as the system allows.

    Returns:
        The new limit.
    """
    if sys.platform == "win32":
        return limit()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # Some systems allow fewer than they report.
        return limit()
    return limit()


def log_files() -> int:
    """The number of segments that may be open at once."""
    return max(FEWEST_LOG_FILES, min(MOST_LOG_FILES, limit() // 8))


class Admission:
    """Refuses connections while there are too few descriptors.

    A shortage makes one log line, however many connections it refuses.
    """

    def __init__(self) -> None:
        self._is_short = False

    def refuses(self, descriptor: int) -> bool:
        """Returns whether a new connection has to be closed.

        Args:
            descriptor: the connection's.
        """
        most = limit() - log_files() - RESERVE
        if descriptor >= most:
            if not self._is_short:
                self._is_short = True
                log.error("too_few_file_descriptors", limit=limit(), connections=most)
            return True
        if descriptor < most - most // 8:
            # Not at the first free one, or each refusal would make a log line.
            self._is_short = False
        return False


admission: Final = Admission()
"""One for the process, because descriptors belong to the process."""
