"""Transcript of a scenario: one event for each step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.conformance.symbols import Symbols, render


class Transcript:
    """Events in order.

    Args:
        symbols: names the values that differ from run to run.
        ordered: whether the arrays of responses stay in their order; otherwise they are
            sorted.
    """

    def __init__(self, symbols: Symbols, *, ordered: bool = False) -> None:
        self.symbols = symbols
        self._ordered = ordered
        self._events: list[dict[str, Any]] = []
        self._muted = 0

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Within it, nothing is recorded."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    @property
    def is_muted(self) -> bool:
        """True while events are dropped."""
        return self._muted > 0

    def add(self, **event: Any) -> None:
        """Records an event, unless muted."""
        if not self._muted:
            self._events.append(event)

    def render(self) -> list[dict[str, Any]]:
        """Renders the events; call it last, when every symbol has its name."""
        return [
            {key: self._rendered(key, value) for key, value in event.items()}
            for event in self._events
        ]

    def _rendered(self, key: str, value: Any) -> Any:
        if key == "request":
            return render(value, self.symbols)
        if isinstance(value, dict):
            return render(value, self.symbols, response=True, ordered=self._ordered)
        return value
