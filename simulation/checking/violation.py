"""A violation of an invariant."""

from __future__ import annotations


class ViolationError(AssertionError):
    """Something that must never happen has happened; one sentence says what."""


def holds(condition: object, invariant: str) -> None:
    """Checks an invariant.

    Args:
        condition: true, unless it is violated.
        invariant: one sentence.

    Raises:
        ViolationError: it is violated.
    """
    if not condition:
        raise ViolationError(invariant)
