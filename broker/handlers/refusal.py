"""Refusals, for requests about several things: one is refused, the others proceed."""

from __future__ import annotations

from kohort.protocol.errors import ErrorCode


class RefusedError(Exception):
    """A part of a request is refused.

    Attributes:
        code: the error code of the response.
        why: the error message of the response; None if Kafka has none.
    """

    def __init__(self, code: ErrorCode, why: str | None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


TIMED_OUT = RefusedError(ErrorCode.REQUEST_TIMED_OUT, None)
"""Changes by kohort's controller take no time, but as in Kafka they do not begin if the
request allows 0 ms or less. Then the whole request is refused, unless everything else
in it is refused anyway."""
