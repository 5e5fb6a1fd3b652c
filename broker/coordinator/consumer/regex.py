"""Topics that members of a consumer group subscribe to by pattern (KIP-848).

Patterns have the syntax of RE2. Kafka compiles them with re2j, whose descriptions of
errors clients get.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from kohort.broker.patterns import STEPS_PER_COST, Pattern, PatternError

PIECE: Final = 2_000 * STEPS_PER_COST
"""Steps of a piece: 2 ms in the worst case, and the last match."""
STEPS_TO_COMPILE: Final = 20 * STEPS_PER_COST
STEPS_PER_CHARACTER: Final = STEPS_PER_COST // 5
"""Cost of compiling a pattern: 20 us, and 2 ms for 10,000 characters."""
STEPS_TO_MATCH: Final = STEPS_PER_COST
"""Cost of a match in addition to the steps in RE2: 1 us."""

_DESCRIPTIONS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": ("missing argument to repetition operator"),
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator: (?<": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
"""re2j's descriptions, by the beginnings of RE2's."""

MOST_BYTES: Final = 1_000_000
"""Bytes of names that the patterns of a group match: by default ``__consumer_offsets``
takes no larger batch, and all are written at once."""


class InvalidRegularExpressionError(Exception):
    """The error INVALID_REGULAR_EXPRESSION, with Kafka's message."""


def compiled(regex: str) -> Pattern:
    """Compiles a member's ``SubscribedTopicRegex``.

    Raises:
        InvalidRegularExpressionError: it is invalid, or would cost too much
            (`kohort.broker.patterns`).
    """
    try:
        return Pattern(regex)
    except PatternError as error:
        reason = str(error)
    description = next(
        (text for start, text in _DESCRIPTIONS.items() if reason.startswith(start)),
        reason,
    )
    raise InvalidRegularExpressionError(
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression:"
        f" {description}."
    )


class Resolution:
    """Finds the topics that patterns match from start to end, in pieces.

    Kafka 4.3 does not leave out internal topics. An invalid pattern, as a log may have,
    matches none.

    Attributes:
        found: the topics of each pattern, sorted.
        size: their bytes, in a batch.
    """

    __slots__ = ("_at", "_names", "_pattern", "_regexes", "found", "size")

    def __init__(self, regexes: Iterable[str], names: Iterable[str]) -> None:
        """Begins with these patterns, and the names of all topics."""
        self.found: dict[str, list[str]] = {regex: [] for regex in regexes}
        self.size = 0
        self._regexes = [*reversed(self.found)]
        self._names = sorted(names)
        # The pattern in progress, and its next name.
        self._pattern: Pattern | None = None
        self._at = 0

    def go_on(self) -> bool:
        """Does a piece of the work; returns whether it is done, or is too large."""
        steps = 0
        while self._regexes and steps < PIECE:
            regex = self._regexes[-1]
            if self._pattern is None:
                steps += STEPS_TO_COMPILE + len(regex) * STEPS_PER_CHARACTER
                self._begin(regex)
            else:
                steps += self._match(self._pattern, self.found[regex], PIECE - steps)
            if self._pattern is None or self._at == len(self._names):
                self._regexes.pop()
                self._pattern = None
        return not self._regexes or self.is_too_large

    @property
    def is_too_large(self) -> bool:
        """Whether the patterns match more than a batch can hold."""
        return self.size > MOST_BYTES

    def _begin(self, regex: str) -> None:
        self._at = 0
        with contextlib.suppress(InvalidRegularExpressionError):
            self._pattern = compiled(regex)

    def _match(self, pattern: Pattern, found: list[str], most: int) -> int:
        """Matches names up to a number of steps; returns the steps taken."""
        steps = 0
        while self._at < len(self._names) and steps < most:
            name = self._names[self._at]
            self._at += 1
            steps += STEPS_TO_MATCH + pattern.steps(name)
            with contextlib.suppress(PatternError):
                if pattern.matches(name):
                    found.append(name)
                    self.size += len(name) + 1
        return steps
