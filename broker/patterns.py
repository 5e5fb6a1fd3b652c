r"""Regular expressions of clients, whose cost is bounded.

Kafka uses RE2's port to Java, re2j, which refuses two things that RE2 takes: `\C`, and
groups of the same name. A match takes time that is linear in the text. But it is also
linear in the compiled pattern, and repetitions multiply: `(a?){1000}`, five times, took
80 ms for a text of 200 characters.
"""

from __future__ import annotations

import re
from typing import Final

import re2

MOST_INSTRUCTIONS: Final = 2000
"""Instructions of a compiled pattern. A letter of any script has 1,200."""
MOST_STEPS: Final = 1_000_000
"""Instructions times bytes of a match: 25 ms in the worst case, a thousandth of it with
the usual pattern."""
MOST_CHARACTERS: Final = 10_000
"""Longest text of a pattern, in characters: compiled, or refused, within 2 ms."""
STEPS_PER_COST: Final = 40
"""Steps that take a microsecond, in the worst case."""
_MEMORY: Final = 128 * 1024
"""Bytes that RE2 may use for a pattern. It keeps 128 of them, and takes up to 7 ms to
find that one does not fit."""


_TOKENS: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)"
    r"|\\(?P<escaped>.)"
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<(?P<name>\w+)>",
    re.DOTALL,
)
"""A part of a valid pattern: quoted text, an escaped character, a class, or a named
group."""


class PatternError(Exception):
    """A pattern is invalid, or would cost too much."""


class Pattern:
    """A regular expression of a client.

    Args:
        text: in the syntax of RE2.

    Raises:
        PatternError: it is invalid, or too large.
    """

    __slots__ = ("_compiled", "_size")

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise PatternError("the pattern is too large")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MEMORY
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise PatternError(_reason(error)) from None
        self._size: int = self._compiled.programsize
        if self._size > MOST_INSTRUCTIONS:
            raise PatternError("the pattern is too large")
        _refuse_as_kafka(text)

    def steps(self, text: str) -> int:
        """The steps that matching a text takes in the worst case."""
        return self._size * len(text)

    def matches(self, text: str) -> bool:
        """Returns whether the whole text matches.

        Raises:
            PatternError: it would cost too much.
        """
        if self.steps(text) > MOST_STEPS:
            raise PatternError("the text is too long for the pattern")
        found: object = self._compiled.fullmatch(text)
        return found is not None


def _refuse_as_kafka(text: str) -> None:
    """Refuses what RE2 takes, and Kafka does not.

    Args:
        text: a pattern that is valid in RE2.
    """
    names = set()
    for token in _TOKENS.finditer(text):
        if token["escaped"] == "C":
            raise PatternError(r"invalid escape sequence: \C")
        name = token["name"]
        if name in names:
            raise PatternError("duplicate capture group name")
        if name is not None:
            names.add(name)


def _reason(error: Exception) -> str:
    """RE2's description, which it gives as bytes."""
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
