"""The result of a group event that the coordinator answers at once."""

from __future__ import annotations

from typing import Any


class ResultSlot:
    """Token of an event whose result is there when `submit_group_event` returns.

    Handlers that submit several events, or go on after one, use it in place of the
    request, which is answered only once.

    Attributes:
        result: the result.
    """

    __slots__ = ("result",)

    result: Any

    def answer(self, result: Any) -> None:
        """Takes the result."""
        self.result = result
