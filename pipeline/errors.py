"""Errors that end a command with one line instead of a traceback."""

from __future__ import annotations


class PipelineError(Exception):
    """An error that the user can fix; the message says how.

    Attributes:
        code: the exit code: 1 it did not work, 2 the command is wrong.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code
