"""The causes of new group epochs, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.broker.notice import Who


class Cause(NamedTuple):
    """The cause of a new group epoch: of a rebalance."""

    kind: str
    """A word such as ``member_joined``."""
    who: Who | None = None
    """The member that caused it; the first if there are several."""
    reason: str | None = None
    """The words of a command."""
    culprits: Sequence[str | None] = ()
    """The ids of all members that caused it, if there are several."""


class Refusal(NamedTuple):
    """An error of a request, with Kafka's words."""

    code: int
    message: str | None
