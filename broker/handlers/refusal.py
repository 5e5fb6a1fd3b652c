"""For requests about several things: one of them is refused, the others go on."""

from __future__ import annotations

from kohort.protocol.errors import ErrorCode


class RefusedError(Exception):
    """What is not done, and why.

    Attributes:
        code: the error code of the answer.
        why: the error message of the answer.
    """

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


TIMED_OUT = "no time was given"
"""What to say with REQUEST_TIMED_OUT: kohort takes no time for what a controller
does, but Kafka does not even begin if a request gives it 0 ms or less."""
