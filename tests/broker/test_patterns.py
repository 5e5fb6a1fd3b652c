"""Regular expressions of clients: neither compiling nor matching them may cost much."""

from __future__ import annotations

import pytest

from kohort.broker.patterns import MOST_STEPS, Pattern, PatternError


@pytest.mark.parametrize(
    "text",
    ["(", r"(.)\1", "(a?){1000}", "(a?){1000}" * 5, r"\pL{1000}", "((a?b?){30}){30}"],
)
def test_invalid_and_large_patterns(text: str) -> None:
    """Repetitions multiply, whether they are nested or follow each other."""
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("orders-(eu|us)-[0-9]+", "orders-eu-12"),
        (".*", "ä" * 1000),
        ("[a-z0-9-]{1,200}", "a" * 200),
        (r"(?i)\pL+", "Äpfel"),
    ],
)
def test_usual_patterns(text: str, matches: str) -> None:
    """The whole text has to match."""
    pattern = Pattern(text)
    assert pattern.matches(matches)
    assert not pattern.matches(f"{matches}\n")


def test_a_long_text_and_a_large_pattern() -> None:
    """The cost of a match is their product."""
    pattern = Pattern("(a?){400}")
    longest = MOST_STEPS // pattern.steps("a")
    assert not pattern.matches("a" * longest)
    with pytest.raises(PatternError):
        pattern.matches("a" * (longest + 1))
    assert Pattern(".*").matches("a" * (longest + 1))
