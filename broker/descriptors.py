"""File descriptors: their limit, and those that are kept from clients.

Without a free descriptor a broker cannot write a checkpoint, open a segment or load the
code of an API at its first request. The system gives each new connection the lowest
free descriptor, so one with a high number is among the last.
"""

from __future__ import annotations

import sys
from typing import Final

from kohort.broker.telemetry import Logger

if sys.platform != "win32":
    import resource

log = Logger("kohort.descriptors")

FEWEST: Final = 64
"""Descriptors that a broker needs: some 15 for itself, `FEWEST_LOG_FILES`,
`RESERVE`, and a few connections."""
RESERVE: Final = 32
"""Descriptors that neither clients nor segments get: for checkpoints, listeners,
code that is loaded, and a file of events."""
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
        # Some systems allow fewer than they say.
        return limit()
    return limit()


def log_files() -> int:
    """The number of segments that may be open at once."""
    return max(FEWEST_LOG_FILES, min(MOST_LOG_FILES, limit() // 8))


class Admission:
    """Refuses connections while there are too few descriptors.

    A shortage is one line in the log, however many connections it refuses.
    """

    def __init__(self) -> None:
        self._is_short = False

    def refuses(self, descriptor: int) -> bool:
        """Whether a new connection has to be closed again.

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
            # Not at the first that is free again, or each would make a line.
            self._is_short = False
        return False


admission: Final = Admission()
"""The one of the process, as descriptors belong to it."""
