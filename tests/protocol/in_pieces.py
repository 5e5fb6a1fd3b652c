"""Runs codecs' generators to their end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kohort.protocol.fields import Buffer
from kohort.protocol.messages import Codec


def finished(work: Generator[None, None, Any]) -> tuple[Any, int]:
    """(result of the work, number of its yields)."""
    yields = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, yields
        yields += 1


def decoded(codec: Codec, data: bytes | bytearray) -> tuple[Any, int]:
    """A message decoded in pieces, and the position behind it."""
    found: tuple[Any, int] = finished(codec.decode_in_pieces(data, 0, len(data)))[0]
    return found


def encoded(codec: Codec, message: Any) -> bytes:
    """The bytes of a message encoded in pieces."""
    parts: list[Buffer] = []
    finished(codec.encode_in_pieces(message, parts.append))
    return b"".join(parts)
