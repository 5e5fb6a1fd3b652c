"""Keeps kohort's log of an input."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

from kohort.broker import telemetry


@contextlib.contextmanager
def silenced() -> Iterator[io.StringIO]:
    """Keeps error lines and drops others: making those takes longer than most runs."""
    log = io.StringIO()
    telemetry.configure("json", "error")
    try:
        with contextlib.redirect_stderr(log):
            yield log
    finally:
        telemetry.configure("auto", "warning")
