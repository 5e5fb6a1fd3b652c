"""Decoding responses that the clients of a process get alike.

A client asks for the metadata of its topics every few minutes. It mostly gets the same
bytes as the last time, and as other clients of the process with the same topics. So
the latest responses are kept: an equal one is not decoded again, and is the same
message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kohort.protocol.generated_calls import Source

KEPT: Final = 4
"""Responses that are kept: to clients with different topics."""
_LONGEST: Final = 1024 * 1024
"""Bytes of the longest response that is kept: 25,000 partitions."""

Decode = Callable[[Source, int, int], tuple[Any, int]]
"""As `Codec.decode`."""


class EqualResponses:
    """Decodes the responses of one API version.

    Args:
        decode: decodes a response that is not kept.
    """

    __slots__ = ("_decode", "_latest")

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._latest: deque[tuple[bytes, Any]] = deque(maxlen=KEPT)

    def decode(self, buffer: Source, position: int, end: int) -> tuple[Any, int]:
        """Decodes a response; see `Codec.decode`."""
        if end - position > _LONGEST:
            return self._decode(buffer, position, end)
        body = bytes(buffer[position:end])
        # A copy, as clients in other threads share the decoder.
        for known, message in tuple(self._latest):
            if known == body:
                return message, end
        message, last = self._decode(buffer, position, end)
        if last == end:
            self._latest.appendleft((body, message))
        return message, last
