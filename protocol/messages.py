"""A message is declared once; its codecs for every version come from that.

A declaration is a `slotted` class of annotated fields:

    @slotted
    class HeartbeatRequest:
        group_id: String = ""
        generation_id: Int32 = 0
        group_instance_id: Annotated[String | None, V(3)] = None

`String`, `Int32` and so on say how a field is encoded, `V` in which versions it
exists. From the declaration come

- `codec(cls, version, flexible=...)`: Python source generated for that version,
  compiled on first use. This form serves.
- `layout(cls, version, flexible=...)`: a construct Struct, the readable and
  interpreted form, for tests and tools. Property tests hold the two equal.

Malformed bytes raise `WireError`; nothing else leaves a decoder.
"""

from __future__ import annotations

import functools
import struct
import sys
import types
import typing
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from kohort.protocol import codegen, generated_calls
from kohort.protocol.slotted import slotted

if TYPE_CHECKING:
    import construct

__all__ = [
    "ZERO_UUID",
    "Bool",
    "Buffer",
    "Bytes",
    "Codec",
    "Field",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Primitive",
    "Records",
    "Source",
    "String",
    "Uint16",
    "Uint32",
    "Uuid",
    "V",
    "WireError",
    "codec",
    "fields_of",
    "layout",
    "slotted",
]


class WireError(ValueError):
    """Bytes that are no such message: too short, or a length that cannot be."""


class Primitive:
    """How a value is encoded: a name, and where its size is fixed, a struct format."""

    __slots__ = ("format", "name")

    def __init__(self, name: str, fmt: str = "") -> None:
        self.name = name
        self.format = fmt


class V:
    """The versions in which a field exists, and its form in them.

    Args:
        since: first version with the field.
        until: last version with it; None where it is still there.
        tag: its number among the tagged fields, where it is one (KIP-482).
        nullable: first version in which null is allowed, for a field whose
            type includes None; by default the field's own first version.
        classic: never compact, not even in flexible versions.
    """

    __slots__ = ("classic", "nullable", "since", "tag", "until")

    def __init__(
        self,
        since: int = 0,
        until: int | None = None,
        *,
        tag: int | None = None,
        nullable: int | None = None,
        classic: bool = False,
    ) -> None:
        self.since = since
        self.until = until
        self.tag = tag
        self.nullable = nullable
        self.classic = classic


Buffer = bytes | bytearray | memoryview
Source = generated_calls.Source
"""Bytes that messages are decoded from; those of long frames are mapped memory."""

Bool = Annotated[bool, Primitive("bool", "?")]
Int8 = Annotated[int, Primitive("int8", "b")]
Int16 = Annotated[int, Primitive("int16", "h")]
Uint16 = Annotated[int, Primitive("uint16", "H")]
Int32 = Annotated[int, Primitive("int32", "i")]
Uint32 = Annotated[int, Primitive("uint32", "I")]
Int64 = Annotated[int, Primitive("int64", "q")]
Float64 = Annotated[float, Primitive("float64", "d")]
Uuid = Annotated[bytes, Primitive("uuid", "16s")]
"""16 bytes; `ZERO_UUID` stands for none."""
String = Annotated[str, Primitive("string")]
Bytes = Annotated[bytes, Primitive("bytes")]
Records = Annotated[Buffer | Sequence[Buffer], Primitive("records")]
"""Record batches as they are on the wire: decoded as a view of the received
bytes, encoded from one buffer or from several that follow one another."""

ZERO_UUID = bytes(16)

_EVERY_VERSION = V()


class Field:
    """One field of a declaration, resolved.

    Attributes:
        name: attribute name.
        kind: the `Primitive`, or the declared class of a struct.
        array: whether the field is an array of that kind.
        optional: whether None is a value of it.
        versions: the `V` of the declaration.
        default: value in versions without the field.
    """

    __slots__ = ("array", "default", "kind", "name", "optional", "versions")

    def __init__(self, name: str, hint: Any, default: Any) -> None:
        self.name = name
        self.default = default
        self.versions = _EVERY_VERSION
        self.optional = False
        self.array = False
        kind: Any = None
        while kind is None:
            origin = typing.get_origin(hint)
            if origin is Annotated:
                hint, *notes = typing.get_args(hint)
                for note in notes:
                    if isinstance(note, V):
                        self.versions = note
                    elif isinstance(note, Primitive):
                        kind = note
            elif origin in (typing.Union, types.UnionType):
                self.optional = True
                (hint,) = (a for a in typing.get_args(hint) if a is not types.NoneType)
            elif origin is Sequence:
                self.array = True
                (hint,) = typing.get_args(hint)
            else:
                kind = hint
        self.kind: Primitive | type = kind

    def exists_in(self, version: int) -> bool:
        """Whether messages of this version have the field."""
        until = self.versions.until
        return self.versions.since <= version and (until is None or version <= until)

    def nullable_in(self, version: int) -> bool:
        """Whether null is allowed in this version."""
        return self.optional and version >= (self.versions.nullable or 0)

    def compact_in(self, flexible: bool) -> bool:
        """Whether lengths are unsigned varints (KIP-482)."""
        return flexible and not self.versions.classic


@functools.cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a declared class, in the order of its constructor.

    On the wire those with a tag follow the others. Every field has a default.
    """
    # Type aliases are found in the declaring module, `Annotated` kept as it is.
    hints = typing.get_type_hints(
        cls, vars(sys.modules[cls.__module__]), include_extras=True
    )
    defaults = vars(cls)["__init__"].__defaults__ or ()
    return tuple(
        Field(name, hint, default)
        for (name, hint), default in zip(hints.items(), defaults, strict=True)
    )


class Codec:
    """The generated functions for one class in one version.

    Attributes:
        encode: (message) -> bytes, the whole message.
        encode_into: (message, append) -> None; passes pieces of the encoded
            message, in order, to `append`.
        source: the Python source of these functions and of `decode`.
    """

    __slots__ = ("_declared", "_decode", "_pieces", "encode", "encode_into", "source")

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        self._declared = cls, version, flexible
        self._pieces: dict[str, Any] = {}
        self.source, scope = codegen.generate(cls, version, flexible, fields_of)
        exec(compile(self.source, f"<{cls.__name__} v{version}>", "exec"), scope)  # noqa: S102 - our own source
        self._decode: Callable[[Source, int, int], tuple[Any, int]]
        self._decode = scope["decode"]
        self.encode: Callable[[Any], bytes] = scope["encode"]
        self.encode_into: Callable[[Any, Callable[[Buffer], None]], None]
        self.encode_into = scope["encode_into"]

    def decode(self, buffer: Source, position: int, end: int) -> tuple[Any, int]:
        """The message that starts at `position`, and the position behind it.

        The buffer may go on behind `end`, the message may not.

        Raises:
            WireError: the bytes are no such message.
        """
        try:
            message, position = self._decode(buffer, position, end)
        except (struct.error, IndexError, ValueError, OverflowError) as error:
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
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise WireError(str(error) or type(error).__name__) from None
        if position > end:
            raise WireError(f"{position - end} bytes too short")
        return message, position

    def encode_in_pieces(
        self, message: Any, append: Callable[[Buffer], None]
    ) -> Generator[None, None, None]:
        """Like `encode_into`, a piece at a time, for messages that may be long.

        `append` has nothing to do with the yields: it is called for a field or two.
        """
        work: Generator[None, None, None]
        work = self._in_pieces()["encode_in_pieces"](message, append)
        return work

    def _in_pieces(self) -> dict[str, Any]:
        """The generators, made on first use: most codecs never need them."""
        if not self._pieces:
            cls, version, flexible = self._declared
            source, self._pieces = codegen.generate_in_pieces(
                cls, version, flexible, fields_of
            )
            name = f"<{cls.__name__} v{version} in pieces>"
            exec(compile(source, name, "exec"), self._pieces)  # noqa: S102 - our own source
        return self._pieces


@functools.cache
def codec(cls: type, version: int, *, flexible: bool) -> Codec:
    """The codec of a declared class for one version, made on first use."""
    return Codec(cls, version, flexible)


@functools.cache
def layout(cls: type, version: int, *, flexible: bool) -> construct.Construct:
    """The construct layout of a declared class for one version.

    It parses to and builds from containers with the fields' names. construct
    is imported by this call, as serving does not need it.

    Parsing raises `construct.ConstructError` for bytes that are no such message.
    """
    from kohort.protocol import primitives  # noqa: PLC0415 - construct costs 30 ms

    return primitives.struct(cls, version, flexible, fields_of)
