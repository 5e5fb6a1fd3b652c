"""Writes the Python source of a message's codec for one version.

What makes the generated code fast: neighbouring fields of fixed size are read
by one ``unpack_from`` and written by one ``pack``, the length prefix of a
string goes with the fixed fields before it, arrays are loops in line, and
lengths are compared with the end of the frame once, behind the last field (a
slice past the end is short, never an error, so nothing is read that is not
there). Only array counts are checked where they stand, as they allocate.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_UVARINT_LIMIT = 5
"""Bytes of the longest unsigned varint: 32 bits by 7."""


def read_uvarint(buffer: bytes | bytearray, position: int) -> tuple[int, int]:
    """An unsigned varint of up to 32 bits: (value, position behind it)."""
    value = shift = 0
    for _ in range(_UVARINT_LIMIT):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("varint of more than 5 bytes")


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buffer: bytes | bytearray, position: int) -> int:
    """The position behind a section of tagged fields nobody asks for."""
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    return position


def bad_length(what: str, length: int) -> None:
    """Refuses a length that its field cannot have."""
    raise ValueError(f"length {length} of {what}")


def joined_length(value: Any) -> int:
    """Bytes in one buffer, or in a sequence of them."""
    return sum(map(len, value)) if type(value) in (list, tuple) else len(value)


def put_records(value: Any, append: Callable[[Any], None]) -> None:
    """Passes on one buffer, or each of a sequence."""
    if type(value) in (list, tuple):
        for part in value:
            append(part)
    else:
        append(value)


_SHORT = tuple(uvarint(n) for n in range(256))


class _Source:
    """Lines of a function, its indentation, and the constants they refer to."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.scope = scope
        self._names = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: Any) -> str:
        """A name in the function's globals for a value."""
        for name, known in self.scope.items():
            if name.startswith(prefix) and known is value:
                return name
        name = f"{prefix}{len(self.scope)}"
        self.scope[name] = value
        return name

    def structure(self, prefix: str, fmt: str) -> str:
        """A name for ``unpack_from`` or ``pack`` of a struct format."""
        name = f"{prefix}_{fmt.replace('?', 'B_')}"
        if name not in self.scope:
            compiled = struct.Struct(f">{fmt}")
            self.scope[name] = (
                compiled.unpack_from if prefix == "unpack" else compiled.pack
            )
        return name


class _Plan:
    """What both directions need to know of a class in a version."""

    def __init__(
        self, version: int, flexible: bool, fields_of: Callable[[type], Sequence[Any]]
    ) -> None:
        self.version = version
        self.flexible = flexible
        self.fields_of = fields_of

    def split(self, cls: type) -> tuple[list[Any], list[Any]]:
        """(plain fields in order, tagged fields by tag) of this version."""
        here = [f for f in self.fields_of(cls) if f.exists_in(self.version)]
        tagged = [f for f in here if f.versions.tag is not None]
        plain = [f for f in here if f.versions.tag is None]
        return plain, sorted(tagged, key=lambda f: f.versions.tag)


class _Reader:
    """Writes ``decode``."""

    def __init__(self, plan: _Plan, out: _Source) -> None:
        self.plan = plan
        self.out = out
        self._names: list[str] = []
        self._format = ""

    def fixed(self, name: str, fmt: str) -> None:
        """Remembers a field of fixed size, to be read with its neighbours."""
        self._names.append(name)
        self._format += fmt

    def flush(self) -> None:
        if self._names:
            unpack = self.out.structure("unpack", self._format)
            names = ", ".join(self._names)
            comma = "," if len(self._names) == 1 else ""
            self.out.add(f"{names}{comma} = {unpack}(b, p)")
            self.out.add(f"p += {struct.calcsize('>' + self._format)}")
            self._names, self._format = [], ""

    def uvarint(self, name: str) -> None:
        self.flush()
        self.out.add(f"{name} = b[p]; p += 1")
        self.out.add(f"if {name} > 127: {name}, p = read_uvarint(b, p - 1)")

    def struct_of(self, cls: type) -> str:
        """Reads a struct; the expression that builds it."""
        plain, tagged = self.plan.split(cls)
        values = {f.name: self.field(f) for f in plain}
        self.flush()
        if self.plan.flexible:
            values |= self._tags(tagged)
        arguments = []
        for f in self.plan.fields_of(cls):
            if f.name in values:
                arguments.append(values[f.name])
            else:
                arguments.append(self._literal(f.default))
        return f"{self.out.constant('C_', cls)}({', '.join(arguments)})"

    def _literal(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, str, bytes, float)):
            return repr(value)
        if value == ():
            return "()"
        return self.out.constant("D_", value)

    def _tags(self, tagged: list[Any]) -> dict[str, str]:
        out = self.out
        if not tagged:
            out.add("if b[p]: p = skip_tags(b, p)")
            out.add("else: p += 1")
            return {}
        values = {}
        for f in tagged:
            values[f.name] = out.name()
            out.add(f"{values[f.name]} = {self._literal(f.default)}")
        count, tag, size, after = (out.name(x) for x in ("n", "t", "s", "q"))
        self.uvarint(count)
        out.add(f"for _ in range({count}):")
        out.depth += 1
        self.uvarint(tag)
        self.uvarint(size)
        out.add(f"{after} = p + {size}")
        for i, f in enumerate(tagged):
            out.add(f"{'el' if i else ''}if {tag} == {f.versions.tag}:")
            out.depth += 1
            value = self.field(f)
            self.flush()
            out.add(f"{values[f.name]} = {value}")
            out.add(f"if p != {after}: bad_length('tag {f.versions.tag}', {size})")
            out.depth -= 1
        out.add(f"p = {after}")
        out.depth -= 1
        return values

    def field(self, f: Any) -> str:
        """Reads a field; the expression that holds it once all is flushed."""
        nullable = f.nullable_in(self.plan.version)
        compact = f.compact_in(self.plan.flexible)
        if f.array:
            return self._array(f, nullable, compact)
        if isinstance(f.kind, type):
            return self._struct(f, nullable)
        if f.kind.format:
            name = self.out.name()
            self.fixed(name, f.kind.format)
            return name
        return self._sized(f, nullable, compact)

    def _length(self, f: Any, compact: bool, fmt: str) -> str:
        """Reads a length; where compact, one more than it is."""
        length = self.out.name("n")
        if compact:
            self.uvarint(length)
            self.out.add(f"{length} -= 1")
        else:
            self.fixed(length, fmt)
            self.flush()
        return length

    def _sized(self, f: Any, nullable: bool, compact: bool) -> str:
        out, kind = self.out, f.kind.name
        length = self._length(f, compact, "h" if kind == "string" else "i")
        value = out.name()
        slices = {
            "string": f"b[p:p + {length}].decode('utf-8', 'replace')",
            "bytes": f"bytes(b[p:p + {length}])",
            "records": f"memoryview(b)[p:p + {length}]",
        }
        out.add(f"if {length} < 0:")
        if nullable:
            out.add(f"    if {length} != -1: bad_length({f.name!r}, {length})")
            out.add(f"    {value} = None")
        else:
            out.add(f"    bad_length({f.name!r}, {length})")
        out.add("else:")
        out.add(f"    {value} = {slices[kind]}")
        out.add(f"    p += {length}")
        return value

    def _struct(self, f: Any, nullable: bool) -> str:
        out = self.out
        self.flush()
        if not nullable:
            value = out.name()
            out.add(f"{value} = {self.struct_of(f.kind)}")
            return value
        value, present = out.name(), out.name("n")
        self.fixed(present, "b")
        self.flush()
        out.add(f"{value} = None")
        out.add(f"if {present} >= 0:")
        out.depth += 1
        out.add(f"{value} = {self.struct_of(f.kind)}")
        out.depth -= 1
        return value

    def _array(self, f: Any, nullable: bool, compact: bool) -> str:
        out = self.out
        length = self._length(f, compact, "i")
        value = out.name()
        out.add(f"if {length} < 0 or {length} > end - p:")
        if nullable:
            out.add(f"    if {length} != -1: bad_length({f.name!r}, {length})")
            out.add(f"    {value} = None")
        else:
            out.add(f"    bad_length({f.name!r}, {length})")
        out.add("else:")
        out.depth += 1
        if not isinstance(f.kind, type) and f.kind.format:
            self._fixed_items(f.kind.format, value, length)
        else:
            out.add(f"{value} = []")
            out.add(f"for _ in range({length}):")
            out.depth += 1
            item = self._item(f, compact)
            self.flush()
            out.add(f"{value}.append({item})")
            # Items lie about their lengths too: stop as soon as one is out.
            out.add(f"if p > end: bad_length({f.name!r}, {length})")
            out.depth -= 1
        out.depth -= 1
        return value

    def _fixed_items(self, fmt: str, value: str, length: str) -> None:
        size = struct.calcsize(">" + fmt)
        if fmt == "16s":
            self.out.add(
                f"{value} = [bytes(b[q:q + 16]) for q in range(p, p + 16 * {length}, 16)]"
            )
        else:
            self.out.add(
                f"{value} = list(unpack_from(f'>{{{length}}}{fmt}', b, p))"
                if size > 1
                else f"{value} = [x - 256 if x > 127 else x for x in b[p:p + {length}]]"
            )
        self.out.add(f"p += {size} * {length}")

    def _item(self, f: Any, compact: bool) -> str:
        if isinstance(f.kind, type):
            return self.struct_of(f.kind)
        return self._sized(f, nullable=False, compact=compact)


class _Writer:
    """Writes ``encode``."""

    def __init__(self, plan: _Plan, out: _Source) -> None:
        self.plan = plan
        self.out = out
        self.append = "append"
        self._values: list[str] = []
        self._format = ""

    def fixed(self, value: str, fmt: str) -> None:
        self._values.append(value)
        self._format += fmt

    def flush(self) -> None:
        if self._format:
            pack = self.out.structure("pack", self._format)
            self.out.add(f"{self.append}({pack}({', '.join(self._values)}))")
            self._values, self._format = [], ""

    def uvarint(self, value: str) -> None:
        self.flush()
        self.out.add(
            f"{self.append}(SHORT[{value}] if {value} < 256 else uvarint({value}))"
        )

    def struct_of(self, cls: type, value: str) -> None:
        plain, tagged = self.plan.split(cls)
        for f in plain:
            self.field(f, f"{value}.{f.name}")
        if not self.plan.flexible:
            return
        if tagged:
            self._tags(tagged, value)
        else:
            self._format += "x"  # no tagged fields: one zero byte

    def _tags(self, tagged: list[Any], value: str) -> None:
        out = self.out
        self.flush()
        tags, outer = out.name("t"), self.append
        out.add(f"{tags} = []")
        for f in tagged:
            default = _Reader(self.plan, out)._literal(f.default)  # noqa: SLF001
            out.add(f"if {value}.{f.name} != {default}:")
            out.depth += 1
            piece, body = out.name("l"), out.name()
            self.append = f"{piece}.append"
            out.add(f"{piece} = []")
            self.field(f, f"{value}.{f.name}")
            self.flush()
            out.add(f"{body} = b''.join({piece})")
            out.add(
                f"{tags}.append(uvarint({f.versions.tag}) + uvarint(len({body})) + {body})"
            )
            out.depth -= 1
        self.append = outer
        self.uvarint(f"len({tags})")
        out.add(f"for x in {tags}: {self.append}(x)")

    def field(self, f: Any, value: str) -> None:
        nullable = f.nullable_in(self.plan.version)
        compact = f.compact_in(self.plan.flexible)
        if f.array:
            self._array(f, value, nullable, compact)
        elif isinstance(f.kind, type):
            self._struct(f, value, nullable)
        elif f.kind.format:
            self.fixed(value, f.kind.format)
        else:
            self._sized(f, value, nullable, compact)

    def _length(self, length: str, compact: bool, fmt: str) -> None:
        if compact:
            self.uvarint(length)
        else:
            self.fixed(length, fmt)

    def _sized(self, f: Any, value: str, nullable: bool, compact: bool) -> None:
        out, kind = self.out, f.kind.name
        data, length = out.name("d"), out.name("n")
        more = " + 1" if compact else ""
        if kind == "string":
            found = (f"{value}.encode()", f"len({data})")
        elif kind == "bytes":
            found = (value, f"len({data})")
        else:
            found = (value, f"joined_length({data})")
        if nullable:
            # Null is length -1, written as 0 where lengths are one more than they are.
            out.add(
                f"if {value} is None: {data} = b''; {length} = {'0' if compact else '-1'}"
            )
            out.add(f"else: {data} = {found[0]}; {length} = {found[1]}{more}")
        else:
            out.add(f"{data} = {found[0]}; {length} = {found[1]}{more}")
        self._length(length, compact, "h" if kind == "string" else "i")
        self.flush()
        if kind == "records":
            out.add(f"put_records({data}, {self.append})")
        else:
            out.add(f"{self.append}({data})")

    def _struct(self, f: Any, value: str, nullable: bool) -> None:
        if not nullable:
            self.struct_of(f.kind, value)
            return
        out = self.out
        self.flush()
        out.add(f"if {value} is None: {self.append}(b'\\xff')")
        out.add("else:")
        out.depth += 1
        out.add(f"{self.append}(b'\\x01')")
        self.struct_of(f.kind, value)
        self.flush()
        out.depth -= 1

    def _array(self, f: Any, value: str, nullable: bool, compact: bool) -> None:
        out = self.out
        items, length = out.name("a"), out.name("n")
        more = " + 1" if compact else ""
        out.add(f"{items} = {value}")
        if nullable:
            out.add(
                f"if {items} is None: {items} = (); {length} = {'0' if compact else '-1'}"
            )
            out.add(f"else: {length} = len({items}){more}")
        else:
            out.add(f"{length} = len({items}){more}")
        self._length(length, compact, "i")
        self.flush()
        if not isinstance(f.kind, type) and f.kind.format:
            out.add(
                f"if {items}: {self.append}("
                f"pack('>' + str(len({items})) + {f.kind.format!r}, *{items}))"
                if f.kind.format != "16s"
                else f"for x in {items}: {self.append}(x)"
            )
            return
        item = out.name("i")
        out.add(f"for {item} in {items}:")
        out.depth += 1
        if isinstance(f.kind, type):
            self.struct_of(f.kind, item)
        else:
            self._sized(f, item, nullable=False, compact=compact)
        self.flush()
        out.depth -= 1


def generate(
    cls: type, version: int, flexible: bool, fields_of: Callable[[type], Sequence[Any]]
) -> tuple[str, dict[str, Any]]:
    """(source, globals) of the functions ``decode`` and ``encode``."""
    scope: dict[str, Any] = {
        "SHORT": _SHORT,
        "bad_length": bad_length,
        "joined_length": joined_length,
        "pack": struct.pack,
        "put_records": put_records,
        "read_uvarint": read_uvarint,
        "skip_tags": skip_tags,
        "unpack_from": struct.unpack_from,
        "uvarint": uvarint,
    }
    plan = _Plan(version, flexible, fields_of)

    def lines() -> Iterator[str]:
        out = _Source(scope)
        built = _Reader(plan, out).struct_of(cls)
        yield "def decode(b, p, end):"
        yield from out.lines
        yield f"    return {built}, p"
        out = _Source(scope)
        writer = _Writer(plan, out)
        writer.struct_of(cls, "m")
        writer.flush()
        yield "def encode(m, append):"
        yield from out.lines or ["    pass"]

    return "\n".join(lines()) + "\n", scope
