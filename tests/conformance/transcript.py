"""Transcript of a scenario: one event for each step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.conformance.symbols import Symbols, render


class Transcript:
    """Events in order.

    Args:
        symbols: name the values that differ from run to run.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self._events: list[dict[str, Any]] = []
        self._muted = 0

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Nothing is recorded meanwhile."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    @property
    def is_muted(self) -> bool:
        """Whether events are dropped."""
        return self._muted > 0

    def add(self, **event: Any) -> None:
        """Records an event, unless muted."""
        if not self._muted:
            self._events.append(event)

    def render(self) -> list[dict[str, Any]]:
        """Rendered last, when every symbol has got its name."""
        out = []
        for event in self._events:
            shown = dict(event)
            if "request" in shown:
                shown["request"] = render(
                    shown["request"], self.symbols, response=False
                )
            if isinstance(shown.get("response"), dict):
                shown["response"] = render(
                    shown["response"], self.symbols, response=True
                )
            if "values" in shown:
                shown["values"] = render(shown["values"], self.symbols, response=True)
            out.append(shown)
        return out
