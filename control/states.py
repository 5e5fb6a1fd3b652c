"""States of groups and transactions, by the names that users give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

S = TypeVar("S", bound=str)


def state_named(
    name: str,
    states: Iterable[S],
    what: str = "state",
    error: type[Exception] = ValueError,
) -> S:
    """Returns the state with a name, in upper or lower case.

    Args:
        name: Kafka's name, for example "Stable".
        states: all states.
        what: the kind of state, for the message.
        error: the class of the error.

    Raises:
        ValueError: no state has the name; or another `error`.
    """
    found = {state.lower(): state for state in states}
    if name.lower() not in found:
        known = ", ".join(found.values())
        raise error(f"unknown {what} {name!r}; the states are: {known}")
    return found[name.lower()]
