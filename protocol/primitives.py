"""The Kafka protocol's types as construct layouts: the readable form of the wire.

For tests and tools: importing construct takes longer than the rest of the broker's
start. Ambiguous bytes are read as the generated codecs read them (see
`protocol.codegen`).
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any, TypeAlias

import construct
from construct import Construct, Container, StreamError, ValidationError

from kohort.protocol.fields import Field, Primitive, fields_of
from kohort.protocol.generated_calls import MOST_TAGS

Layout: TypeAlias = Construct

STRING_LIMIT = 0x7FFF
"""Bytes of the longest string."""


class UnsignedVarint(Construct):
    """7 bits a byte, lowest first, up to 5 bytes; read as an int32."""

    def _parse(self, stream: Any, context: Any, path: Any) -> int:
        data = b""
        while len(data) < 5:
            data += construct.stream_read(stream, 1, path)
            if data[-1] < 0x80:
                value = sum((x & 0x7F) << 7 * i for i, x in enumerate(data))
                low = (value & 0xFFFF_FFFF).to_bytes(4, "big")
                return int.from_bytes(low, "big", signed=True)
        raise ValidationError("varint of more than 5 bytes", path=path)

    def _build(self, obj: int, stream: Any, context: Any, path: Any) -> int:
        return int(construct.VarInt._build(obj, stream, context, path))


UNSIGNED_VARINT = UnsignedVarint()

FIXED: dict[str, Layout] = {
    "bool": construct.Flag,
    "int8": construct.Int8sb,
    "int16": construct.Int16sb,
    "int32": construct.Int32sb,
    "int64": construct.Int64sb,
    "uint16": construct.Int16ub,
    "float64": construct.Float64b,
    "uuid": construct.Bytes(16),
}


class Utf8(construct.Adapter):
    """Text; invalid UTF-8 is replaced."""

    def _decode(self, obj: bytes, context: Any, path: Any) -> str:
        return obj.decode("utf-8", "replace")

    def _encode(self, obj: str, context: Any, path: Any) -> bytes:
        return obj.encode()


class Counted(Construct):
    """A count and that many items or bytes, or null.

    The count is an int16 or int32 with -1 for null, or, in flexible versions, an
    unsigned varint that is one more than the count, with 0 for null (KIP-482).
    """

    def __init__(
        self,
        prefix: Layout,
        body: Callable[[int], Layout],
        *,
        nullable: bool,
        limit: int | None = None,
    ) -> None:
        super().__init__()
        self.prefix = prefix
        self.bias = 1 if prefix is UNSIGNED_VARINT else 0
        self.body = body
        self.nullable = nullable
        self.limit = limit

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        count = self.prefix._parsereport(stream, context, path) - self.bias
        if count < 0 and self.nullable:
            return None
        if count < 0 or (self.limit is not None and count > self.limit):
            raise ValidationError(f"count {count}", path=path)
        return self.body(count)._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        if obj is None:
            if not self.nullable:
                raise ValidationError("null where null is not allowed", path=path)
            self.prefix._build(self.bias - 1, stream, context, path)
            return
        # Strings are counted in bytes.
        count = len(obj.encode() if isinstance(obj, str) else obj)
        self.prefix._build(count + self.bias, stream, context, path)
        self.body(count)._build(obj, stream, context, path)


class Optional(Construct):
    """A struct after an int8: 1 if it follows, and else, in order to say null, `null`.

    That is -1, and 0 in a tagged field.
    """

    def __init__(self, body: Layout, null: int) -> None:
        super().__init__()
        self.body = body
        self.null = null

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        if construct.Int8sb._parsereport(stream, context, path) <= self.null:
            return None
        return self.body._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        present = self.null if obj is None else 1
        construct.Int8sb._build(present, stream, context, path)
        if obj is not None:
            self.body._build(obj, stream, context, path)


class Flexible(Construct):
    """The fields of a struct, then its tagged fields (KIP-482).

    Tagged fields with their default are left out; unknown ones are skipped. Both kinds
    end up in one container.
    """

    def __init__(
        self, plain: Layout, tagged: dict[int, tuple[str, Layout, Any]]
    ) -> None:
        super().__init__()
        self.plain = plain
        self.tagged = tagged

    def _parse(self, stream: Any, context: Any, path: Any) -> Container:
        found: Container = self.plain._parsereport(stream, context, path)
        for name, _, default in self.tagged.values():
            found[name] = default
        count = UNSIGNED_VARINT._parsereport(stream, context, path)
        if count > MOST_TAGS:
            raise ValidationError(f"{count} tagged fields", path=path)
        for _ in range(count):
            tag = UNSIGNED_VARINT._parsereport(stream, context, path)
            size = UNSIGNED_VARINT._parsereport(stream, context, path)
            if tag in self.tagged:
                name, layout, _ = self.tagged[tag]
                found[name] = layout._parsereport(stream, context, path)
            elif size < 0:
                raise StreamError(f"tagged field of {size} bytes", path=path)
            else:
                construct.stream_read(stream, size, path)
        return found

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        self.plain._build(obj, stream, context, path)
        present = {
            tag: layout.build(obj[name])
            for tag, (name, layout, default) in sorted(self.tagged.items())
            if obj[name] != default
        }
        out = io.BytesIO()
        UNSIGNED_VARINT.build_stream(len(present), out)
        for tag, data in present.items():
            UNSIGNED_VARINT.build_stream(tag, out)
            UNSIGNED_VARINT.build_stream(len(data), out)
            out.write(data)
        stream.write(out.getvalue())


def plain(value: Any) -> Any:
    """A message as nested dicts and lists, the form that layouts build from."""
    if hasattr(value, "__match_args__"):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


@functools.cache
def layout(cls: type, version: int, *, flexible: bool) -> Layout:
    """The layout of a declared class for one version.

    It parses to and builds from containers with the fields' names. Parsing raises
    `construct.ConstructError` for malformed bytes.
    """
    prefix = UNSIGNED_VARINT if flexible else construct.Int32sb

    def of(f: Field) -> Layout:
        nullable = f.nullable_in(version)
        if isinstance(f.kind, type) and nullable and not f.array:
            inner = layout(f.kind, version, flexible=flexible)
            return Optional(inner, -1 if f.versions.tag is None else 0)
        if f.array:
            item = of_kind(f.kind, nullable=False)
            return Counted(
                prefix, lambda n: construct.Array(n, item), nullable=nullable
            )
        return of_kind(f.kind, nullable=nullable)

    def of_kind(kind: Primitive | type, *, nullable: bool) -> Layout:
        if isinstance(kind, type):
            return layout(kind, version, flexible=flexible)
        if kind.name in FIXED:
            return FIXED[kind.name]
        if kind.name == "string":
            return Counted(
                UNSIGNED_VARINT if flexible else construct.Int16sb,
                lambda n: Utf8(construct.Bytes(n)),
                nullable=nullable,
                limit=STRING_LIMIT,
            )
        return Counted(prefix, construct.Bytes, nullable=nullable)

    here = [f for f in fields_of(cls) if f.exists_in(version)]
    fields = construct.Struct(*(f.name / of(f) for f in here if f.versions.tag is None))
    if not flexible:
        return fields
    tagged = {
        f.versions.tag: (f.name, of(f), plain(f.default))
        for f in here
        if f.versions.tag is not None
    }
    return Flexible(fields, tagged)
