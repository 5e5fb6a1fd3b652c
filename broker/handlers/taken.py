"""Results of a coordinator, for handlers that go on with them."""

from __future__ import annotations

from typing import Any


class Taken:
    """Takes the result of an event that is answered at once: by the end of `submit`.

    Attributes:
        result: the result.
    """

    __slots__ = ("result",)

    result: Any

    def answer(self, result: Any) -> None:
        """Takes the result."""
        self.result = result
