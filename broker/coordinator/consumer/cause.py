"""The causes of new group epochs, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kohort.broker.notice import Who
from kohort.protocol.errors import ErrorCode


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
    cause: str | None = None
    """A word for the notice; None if the code has one."""


TOO_LARGE: Final = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None, "too_large")
"""The error of an append that the log refuses."""
