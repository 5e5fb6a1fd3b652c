"""Topics that members of a consumer group subscribe to by pattern (KIP-848).

Patterns have the syntax of RE2. Kafka compiles them with re2j, whose descriptions of
errors clients get.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.broker.patterns import Pattern, PatternError

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


def resolve(regexes: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """Returns the topics that each pattern matches from start to end, sorted.

    Kafka 4.3 does not leave out internal topics. An invalid pattern, as a log may have,
    matches none.

    Args:
        regexes: patterns.
        names: the names of all topics.
    """
    found: dict[str, list[str]] = {}
    names = sorted(names)
    for regex in regexes:
        found[regex] = []
        try:
            pattern = compiled(regex)
        except InvalidRegularExpressionError:
            continue
        found[regex] = [name for name in names if pattern.matches(name)]
    return found
