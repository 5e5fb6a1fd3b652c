"""Functions of the application that a client calls for each record."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("kohort.client")


def tell(hook: Callable[..., object], *arguments: object) -> None:
    """Calls a hook. Its errors are logged, as those of Java's interceptors."""
    try:
        hook(*arguments)
    except Exception:
        log.exception("%s failed", getattr(hook, "__qualname__", hook))
