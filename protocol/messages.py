"""A message is declared once; its codecs for every version are derived from that.

A declaration is a `slotted` class of annotated fields:

    @slotted
    class HeartbeatRequest:
        group_id: String = ""
        generation_id: Int32 = 0
        group_instance_id: Annotated[String | None, V(3)] = None

`fields` has the kinds of fields. Two codecs are derived from the declaration:

- `codec(cls, version, flexible=...)`: Python source generated for that version,
  compiled on first use. The broker and the client use this one.
- `primitives.layout(cls, version, flexible=...)`: a construct Struct, readable and
  interpreted, for tests and tools. Property tests compare the two.

Malformed bytes raise `WireError`; decoders raise no other error.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Generator
from typing import Any

from kohort.protocol import codegen
from kohort.protocol.fields import Buffer
from kohort.protocol.generated_calls import Source

MALFORMED = (struct.error, IndexError, ValueError, OverflowError)
"""Errors of `Codec.decode_unchecked`; a `WireError` is a ValueError."""


class WireError(ValueError):
    """Malformed bytes: too short, or an impossible length."""


class CutError(WireError):
    """The bytes end where a number should be: a `BufferUnderflowException` in Java."""


class Codec:
    """The generated functions for one class in one version.

    Attributes:
        encode: (message) -> bytes, the whole message.
        encode_into: (message, append) -> None; passes pieces of the encoded
            message, in order, to `append`.
        decode_unchecked: (buffer, position, end) -> (message, position): as `decode`,
            but raises any of `MALFORMED`, and may read behind the end.
        source: the Python source of these functions and of `decode`.
    """

    __slots__ = (
        "_declared",
        "_pieces",
        "decode_unchecked",
        "encode",
        "encode_into",
        "source",
    )

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        self._declared = cls, version, flexible
        self._pieces: dict[str, Any] = {}
        self.source, scope = codegen.generate(cls, version, flexible)
        exec(compile(self.source, f"<{cls.__name__} v{version}>", "exec"), scope)
        self.decode_unchecked: Callable[[Source, int, int], tuple[Any, int]]
        self.decode_unchecked = scope["decode"]
        self.encode: Callable[[Any], bytes] = scope["encode"]
        self.encode_into: Callable[[Any, Callable[[Buffer], None]], None]
        self.encode_into = scope["encode_into"]

    def decode(self, buffer: Source, position: int, end: int) -> tuple[Any, int]:
        """Decodes the message at `position`; returns it, and the position behind it.

        The buffer may go on after `end`, the message may not.

        Raises:
            WireError: the bytes are malformed.
        """
        try:
            message, position = self.decode_unchecked(buffer, position, end)
        except struct.error as error:
            raise CutError(str(error)) from None
        except MALFORMED as error:
            raise WireError(str(error) or type(error).__name__) from None
        if position > end:
            raise WireError(f"{position - end} bytes too short")
        return message, position

    def decode_in_pieces(
        self, buffer: Source, position: int, end: int
    ) -> Generator[None, None, tuple[Any, int]]:
        """Like `decode`, a piece at a time, for messages from outside that may be long.

            message, position = yield from codec.decode_in_pieces(buffer, 0, end)

        Between two yields lies less than a millisecond.

        Raises:
            WireError: the bytes are not this message, or have too many items
                (`generated_calls.MOST_ITEMS`).
        """
        decode = self._in_pieces()["decode_in_pieces"]
        try:
            message, position = yield from decode(buffer, position, end)
        except MALFORMED as error:
            raise WireError(str(error) or type(error).__name__) from None
        if position > end:
            raise WireError(f"{position - end} bytes too short")
        return message, position

    def encode_in_pieces(
        self, message: Any, append: Callable[[Buffer], None]
    ) -> Generator[None, None, None]:
        """Like `encode_into`, a piece at a time, for messages that may be long.

        `append` is independent of the yields: it is called for a field or two.
        """
        work: Generator[None, None, None]
        work = self._in_pieces()["encode_in_pieces"](message, append)
        return work

    def _in_pieces(self) -> dict[str, Any]:
        """The generators, made on first use: most codecs never need them."""
        if not self._pieces:
            cls, version, flexible = self._declared
            source, self._pieces = codegen.generate_in_pieces(cls, version, flexible)
            name = f"<{cls.__name__} v{version} in pieces>"
            exec(compile(source, name, "exec"), self._pieces)
        return self._pieces


@functools.cache
def codec(cls: type, version: int, *, flexible: bool) -> Codec:
    """The codec of a declared class for one version, made on first use."""
    return Codec(cls, version, flexible)
