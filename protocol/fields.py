"""The kinds of fields in message declarations, and how a declaration is read.

`String`, `Int32` and so on determine how a field is encoded, `V` its versions;
`fields_of` resolves the annotations of a declared class.
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any


class Primitive:
    """Encoding of a value: a name and, if its size is fixed, a struct format."""

    __slots__ = ("format", "name")

    def __init__(self, name: str, fmt: str = "") -> None:
        self.name = name
        self.format = fmt


class V:
    """The versions in which a field exists, and its form in them.

    Args:
        since: first version with the field.
        until: last version with it; None if later versions have it, too.
        tag: its number among the tagged fields, if it is one (KIP-482).
        nullable: first version in which null is allowed, for a field whose type
            includes None; by default the field's own first version.
    """

    __slots__ = ("nullable", "since", "tag", "until")

    def __init__(
        self,
        since: int = 0,
        until: int | None = None,
        *,
        tag: int | None = None,
        nullable: int | None = None,
    ) -> None:
        self.since = since
        self.until = until
        self.tag = tag
        self.nullable = nullable


Buffer = bytes | bytearray | memoryview

Bool = Annotated[bool, Primitive("bool", "?")]
Int8 = Annotated[int, Primitive("int8", "b")]
Int16 = Annotated[int, Primitive("int16", "h")]
Int32 = Annotated[int, Primitive("int32", "i")]
Int64 = Annotated[int, Primitive("int64", "q")]
Uint16 = Annotated[int, Primitive("uint16", "H")]
Float64 = Annotated[float, Primitive("float64", "d")]
Uuid = Annotated[bytes, Primitive("uuid", "16s")]
"""16 bytes; `ZERO_UUID` means none."""
String = Annotated[str, Primitive("string")]
Bytes = Annotated[bytes, Primitive("bytes")]
Records = Annotated[Buffer | Sequence[Buffer], Primitive("records")]
"""Record batches as they are on the wire: decoded as a view of the received bytes,
encoded from one buffer or several consecutive ones."""

ZERO_UUID = bytes(16)

_EVERY_VERSION = V()


class Field:
    """One field of a declaration, resolved.

    Attributes:
        name: attribute name.
        kind: the `Primitive`, or the declared class of a struct.
        array: whether the field is an array of that kind.
        optional: whether it may be None.
        versions: the `V` of the declaration.
        default: value in versions without the field.
    """

    __slots__ = (
        "array",
        "default",
        "kind",
        "name",
        "optional",
        "versions",
    )

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
        """Returns whether messages of this version have the field."""
        until = self.versions.until
        return self.versions.since <= version and (until is None or version <= until)

    def nullable_in(self, version: int) -> bool:
        """Returns whether null is allowed in this version."""
        return self.optional and version >= (self.versions.nullable or 0)


@functools.cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a declared class, in the order of its constructor.

    On the wire, tagged fields follow the others. Every field has a default.
    """
    # Resolves type aliases in the declaring module, keeps `Annotated`.
    hints = typing.get_type_hints(
        cls, vars(sys.modules[cls.__module__]), include_extras=True
    )
    made: Any = cls
    defaults = made.__init__.__defaults__ or ()
    return tuple(
        Field(name, hint, default)
        for (name, hint), default in zip(hints.items(), defaults, strict=True)
    )
