"""Writes the Python source of a message's codec for one version.

What makes the generated code fast: neighbouring fields of fixed size are read
by one ``unpack_from`` and written by one ``pack``; the length of what follows
them goes with them; arrays are loops in line; and lengths are compared with the
end of the frame once, behind the last field (a slice past the end is short,
never an error, so nothing is read that is not there). Only counts of arrays are
checked where they stand: an item has a byte at least.

Where the bytes are doubtful, Apache Kafka's own reader decides: any negative
length is null, what is no UTF-8 is replaced, the size of a tagged field that is
known is not looked at, such fields may repeat and come in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kohort.protocol.slotted import replace, slotted

if TYPE_CHECKING:
    from kohort.protocol.messages import Field, Primitive

    FieldsOf = Callable[[type], Sequence[Field]]

_UVARINT_BYTES = 5
"""Bytes of the longest unsigned varint: 32 bits by 7."""

_STRING_LIMIT = 0x7FFF
"""Bytes of the longest string, in the compact form too."""


# What generated code calls


def read_uvarint(buffer: bytes | bytearray, position: int) -> tuple[int, int]:
    """An unsigned varint of up to 32 bits: (value, position behind it).

    The value is an int32, negative where bit 31 is set, and bits above are
    lost: so Kafka reads it.
    """
    value = 0
    for shift in range(0, 7 * _UVARINT_BYTES, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000, position
    raise ValueError("varint of more than 5 bytes")


def read_string_length(buffer: bytes | bytearray, position: int) -> tuple[int, int]:
    """The length of a compact string, plus one: (value, position behind it)."""
    value, position = read_uvarint(buffer, position)
    if value > _STRING_LIMIT + 1:
        raise ValueError(f"string of {value - 1} bytes")
    return value, position


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
        if size < 0:
            bad_length("a tagged field", size)
        position += size
    return position


def bad_length(what: str, length: int) -> None:
    """Refuses a length that its field cannot have."""
    raise ValueError(f"length {length} of {what}")


_SHORT = tuple(bytes((n,)) for n in range(128))


# The generator


class _Source:
    """Lines of a function, their indentation, and the constants they refer to."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.scope = scope
        self._names = 0

    def add(self, line: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """What is added meanwhile is one level deeper."""
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, prefix: str = "v") -> str:
        """A new variable."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, name: str, value: Any) -> str:
        """The name, or one like it, of a value in the function's globals."""
        while self.scope.setdefault(name, value) is not value:
            name += "_"
        return name

    def literal(self, value: Any) -> str:
        """An expression for a default: a struct's is one shared object."""
        if value is None or isinstance(value, (bool, int, str, bytes, float)):
            return repr(value)
        return (
            "()" if value == () else self.constant(f"no_{type(value).__name__}", value)
        )

    def structure(self, prefix: str, fmt: str) -> str:
        """A name for ``unpack_from`` or ``pack`` of a struct format."""
        name = f"{prefix}_{fmt.replace('?', 't')}"
        if name not in self.scope:
            compiled = struct.Struct(f">{fmt}")
            self.scope[name] = (
                compiled.unpack_from if prefix == "unpack" else compiled.pack
            )
        return name


@slotted
class _Form:
    """What is encoded one way or another, by version."""

    name: str
    nullable: bool
    compact: bool

    @property
    def bias(self) -> int:
        """What is added to a length; null is one below (KIP-482)."""
        return 1 if self.compact else 0

    @property
    def plus(self) -> str:
        """Source that adds the bias to a length."""
        return " + 1" if self.compact else ""

    @property
    def minus(self) -> str:
        """Source that takes the bias off."""
        return " - 1" if self.compact else ""


class _Plan:
    """What both directions need to know of a class in a version."""

    def __init__(self, version: int, flexible: bool, fields_of: FieldsOf) -> None:
        self.version = version
        self.flexible = flexible
        self.fields_of = fields_of

    def split(self, cls: type) -> tuple[list[Field], list[tuple[int, Field]]]:
        """(plain fields in order, tagged fields by tag) of this version."""
        here = [f for f in self.fields_of(cls) if f.exists_in(self.version)]
        plain = [f for f in here if f.versions.tag is None]
        tagged = [(f.versions.tag, f) for f in here if f.versions.tag is not None]
        return plain, sorted(tagged, key=lambda pair: pair[0])

    def form(self, f: Field) -> _Form:
        """The form of a field."""
        return _Form(f.name, f.nullable_in(self.version), f.compact_in(self.flexible))


_SLICES = {
    "string": ("b[p:q].decode('utf-8', 'replace')", "''"),
    "bytes": ("bytes(b[p:q])", "b''"),
    "records": ("memoryview(b)[p:q]", "b''"),
}
"""How text and bytes of a length above 0, and of length 0, are read."""


class _Reader:
    """Writes ``decode``: ``b`` is the buffer, ``p`` the position in it."""

    def __init__(self, plan: _Plan, out: _Source) -> None:
        self.plan = plan
        self.out = out
        self._run: list[tuple[str, str]] = []

    def fixed(self, fmt: str) -> str:
        """A variable of fixed size; it is read with its neighbours, on `flush`."""
        name = self.out.name()
        self._run.append((name, fmt))
        return name

    def flush(self) -> None:
        """Reads what `fixed` collected."""
        if not self._run:
            return
        names = ", ".join(name for name, _ in self._run)
        fmt = "".join(fmt for _, fmt in self._run)
        if fmt == "B":
            self.out.add(f"{names} = b[p]")
        else:
            comma = "," if len(self._run) == 1 else ""
            self.out.add(f"{names}{comma} = {self.out.structure('unpack', fmt)}(b, p)")
        self.out.add(f"p += {struct.calcsize('>' + fmt)}")
        self._run = []

    def uvarint(self, reader: str = "read_uvarint") -> str:
        """A variable with an unsigned varint, read at once."""
        name = self.fixed("B")
        self.flush()
        self.out.add(f"if {name} > 127: {name}, p = {reader}(b, p - 1)")
        return name

    def struct_of(self, cls: type) -> str:
        """Reads a struct; the expression that builds it, once all is flushed."""
        plain, tagged = self.plan.split(cls)
        values = {f.name: self.field(f) for f in plain}
        if self.plan.flexible:
            values |= self._tags(tagged)
        arguments = (
            values.get(f.name) or self.out.literal(f.default)
            for f in self.plan.fields_of(cls)
        )
        return f"{self.out.constant(cls.__name__, cls)}({', '.join(arguments)})"

    def _tags(self, tagged: list[tuple[int, Field]]) -> dict[str, str]:
        out = self.out
        if not tagged:
            count = self.fixed("B")
            self.flush()
            out.add(f"if {count}: p = skip_tags(b, p - 1)")
            return {}
        count = self.uvarint()
        values = {f.name: out.name() for _, f in tagged}
        for _, f in tagged:
            out.add(f"{values[f.name]} = {out.literal(f.default)}")
        out.add(f"for _ in range({count}):")
        with out.indented():
            tag, size = self.uvarint(), self.uvarint()
            for i, (number, f) in enumerate(tagged):
                out.add(f"{'elif' if i else 'if'} {tag} == {number}:")
                with out.indented():
                    value = self.field(f)
                    self.flush()
                    out.add(f"{values[f.name]} = {value}")
            out.add(f"elif {size} >= 0: p += {size}")
            out.add(f"else: bad_length('a tagged field', {size})")
        return values

    def field(self, f: Field) -> str:
        """Reads a field; the expression that holds it once all is flushed."""
        form = self.plan.form(f)
        if f.array:
            return self._array(f.kind, form)
        if isinstance(f.kind, type):
            return self._optional(f.kind) if form.nullable else self.struct_of(f.kind)
        if f.kind.format:
            return self.fixed(f.kind.format)
        return self._sized(f.kind, form)

    def _optional(self, cls: type) -> str:
        out, present = self.out, self.fixed("b")
        self.flush()
        value = out.name()
        out.add(f"if {present} < 0: {value} = None")
        out.add("else:")
        with out.indented():
            built = self.struct_of(cls)
            self.flush()
            out.add(f"{value} = {built}")
        return value

    def _length(self, form: _Form, fmt: str) -> str:
        """A variable with a length and its bias, read at once."""
        if form.compact:
            return self.uvarint("read_string_length" if fmt == "h" else "read_uvarint")
        length = self.fixed(fmt)
        self.flush()
        return length

    def _otherwise(self, form: _Form, value: str, length: str, empty: str) -> None:
        """The value where the length is 0 or less."""
        self.out.add(f"elif {length} == {form.bias}: {value} = {empty}")
        if form.nullable:
            self.out.add(f"else: {value} = None")
        else:
            self.out.add(f"else: bad_length({form.name!r}, {length}{form.minus})")

    def _sized(self, kind: Primitive, form: _Form) -> str:
        out = self.out
        length = self._length(form, "h" if kind.name == "string" else "i")
        value = out.name()
        read, empty = _SLICES[kind.name]
        out.add(f"if {length} > {form.bias}:")
        with out.indented():
            out.add(f"q = p + {length}{form.minus}")
            out.add(f"{value} = {read}")
            out.add("p = q")
        self._otherwise(form, value, length, empty)
        return value

    def _array(self, kind: Primitive | type, form: _Form) -> str:
        out = self.out
        length = self._length(form, "i")
        value = out.name()
        out.add(f"if {length} > {form.bias}:")
        with out.indented():
            if form.compact:
                out.add(f"{length} -= 1")
            out.add(f"if {length} > end - p: bad_length({form.name!r}, {length})")
            if isinstance(kind, type) or not kind.format:
                self._items(kind, form, value, length)
            else:
                self._fixed_items(kind.format, value, length)
        self._otherwise(form, value, length, "[]")
        return value

    def _items(
        self, kind: Primitive | type, form: _Form, value: str, length: str
    ) -> None:
        out = self.out
        out.add(f"{value} = []")
        out.add(f"for _ in range({length}):")
        with out.indented():
            if isinstance(kind, type):
                item = self.struct_of(kind)
            else:
                item = self._sized(kind, replace(form, nullable=False))
            self.flush()
            out.add(f"{value}.append({item})")

    def _fixed_items(self, fmt: str, value: str, length: str) -> None:
        out = self.out
        out.add(f"q = p + {struct.calcsize('>' + fmt)} * {length}")
        if fmt == "16s":
            out.add(f"{value} = [bytes(b[i:i + 16]) for i in range(p, q, 16)]")
        else:
            out.add(f"{value} = list(unpack_from(f'>{{{length}}}{fmt}', b, p))")
        out.add("p = q")


class _Writer:
    """Writes ``encode``: ``m`` is the message, ``append`` takes its bytes."""

    def __init__(self, plan: _Plan, out: _Source) -> None:
        self.plan = plan
        self.out = out
        self.append = "append"
        self._run: list[tuple[str, str]] = []

    def fixed(self, value: str, fmt: str) -> None:
        """Takes an expression of fixed size, to be written with its neighbours."""
        self._run.append((value, fmt))

    def zero(self) -> None:
        """Takes a zero byte, to be written with its neighbours."""
        self._run.append(("", "x"))

    def _packed(self, *more: tuple[str, str]) -> str:
        """The expression that packs what is collected, and more."""
        run = [*self._run, *more]
        fmt = "".join(fmt for _, fmt in run)
        if not fmt.strip("x"):
            return repr(bytes(len(fmt)))
        if fmt == "B":
            return f"SHORT[{run[0][0]}]"
        values = ", ".join(value for value, _ in run if value)
        return f"{self.out.structure('pack', fmt)}({values})"

    def flush(self) -> None:
        """Writes what is collected."""
        if self._run:
            self.out.add(f"{self.append}({self._packed()})")
            self._run = []

    def uvarint(self, value: str) -> None:
        """Writes an unsigned varint, with what is collected before it."""
        short, long = self._packed((value, "B")), f"uvarint({value})"
        if self._run:
            long = f"{self._packed()} + {long}"
        self.out.add(f"{self.append}({short} if {value} < 128 else {long})")
        self._run = []

    def struct_of(self, cls: type, value: str) -> None:
        """Writes a struct, up to what is still collected."""
        plain, tagged = self.plan.split(cls)
        for f in plain:
            self.field(f, f"{value}.{f.name}")
        if tagged:
            self._tags(tagged, value)
        elif self.plan.flexible:
            self.zero()

    def _tags(self, tagged: list[tuple[int, Field]], value: str) -> None:
        """Writes tagged fields where they differ from their defaults.

        Their bytes are made first, as their number and sizes stand before them.
        """
        out, outer, before = self.out, self.append, self._run
        tags, field = out.name("t"), out.name("l")
        self.append, self._run = f"{field}.append", []
        out.add(f"{tags} = []")
        for number, f in tagged:
            out.add(f"if {self._differs(f, f'{value}.{f.name}')}:")
            with out.indented():
                out.add(f"{field} = []")
                self.field(f, f"{value}.{f.name}")
                self.flush()
                out.add(f"{field} = b''.join({field})")
                out.add(
                    f"{tags} += {uvarint(number)!r}, uvarint(len({field})), {field}"
                )
        self.append, self._run = outer, before
        self.fixed(f"len({tags}) // 3", "B")
        self.flush()
        out.add(f"for x in {tags}: {self.append}(x)")

    def _differs(self, f: Field, value: str) -> str:
        """Whether a value is not the default: None, empty, or one shared object."""
        default = self.out.literal(f.default)
        if default == "None":
            return f"{value} is not None"
        if f.array and not f.optional:
            return value
        if isinstance(f.kind, type):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def field(self, f: Field, value: str) -> None:
        """Writes a field, up to what is still collected."""
        form = self.plan.form(f)
        if f.array:
            self._array(f.kind, form, value)
        elif isinstance(f.kind, type):
            if form.nullable:
                self._optional(f.kind, value)
            else:
                self.struct_of(f.kind, value)
        elif f.kind.format:
            self.fixed(value, f.kind.format)
        else:
            self._sized(f.kind, form, value)

    def _optional(self, cls: type, value: str) -> None:
        out = self.out
        self.flush()
        out.add(f"if {value} is None: {self.append}(b'\\xff')")
        out.add("else:")
        with out.indented():
            self.fixed("1", "b")
            self.struct_of(cls, value)
            self.flush()

    def _length(self, form: _Form, length: str, fmt: str) -> None:
        """Writes a length and its bias, with what is collected before it."""
        if form.compact:
            self.uvarint(length)
        else:
            self.fixed(length, fmt)
            self.flush()

    def _sized(self, kind: Primitive, form: _Form, value: str) -> None:
        out = self.out
        data, length = out.name("d"), out.name("n")
        encoded = f"{value}.encode()" if kind.name == "string" else value
        found = f"{data} = {encoded}; {length} = len({data}){form.plus}"
        several = f"type({data}) in SEVERAL"
        if form.nullable:
            out.add(f"if {value} is None: {data} = b''; {length} = {form.bias - 1}")
            out.add(f"else: {found}")
        else:
            out.add(found)
        if kind.name == "records":
            out.add(f"if {several}: {length} = sum(map(len, {data})){form.plus}")
        self._length(form, length, "h" if kind.name == "string" else "i")
        if kind.name == "records":
            out.add(f"if {several}:")
            out.add(f"    for x in {data}: {self.append}(x)")
            out.add(f"else: {self.append}({data})")
        elif form.nullable:
            out.add(f"if {data}: {self.append}({data})")
        else:
            out.add(f"{self.append}({data})")

    def _array(self, kind: Primitive | type, form: _Form, value: str) -> None:
        out = self.out
        items, length = out.name("a"), out.name("n")
        out.add(f"{items} = {value}")
        if form.nullable:
            out.add(f"if {items} is None: {items} = (); {length} = {form.bias - 1}")
            out.add(f"else: {length} = len({items}){form.plus}")
        else:
            out.add(f"{length} = len({items}){form.plus}")
        self._length(form, length, "i")
        if isinstance(kind, type) or not kind.format:
            item = out.name("i")
            out.add(f"for {item} in {items}:")
            with out.indented():
                if isinstance(kind, type):
                    self.struct_of(kind, item)
                else:
                    self._sized(kind, replace(form, nullable=False), item)
                self.flush()
        elif kind.format == "16s":
            out.add(f"{self.append}(b''.join({items}))")
        else:
            packed = f"pack(f'>{{len({items})}}{kind.format}', *{items})"
            out.add(f"if {items}: {self.append}({packed})")


def generate(
    cls: type, version: int, flexible: bool, fields_of: FieldsOf
) -> tuple[str, dict[str, Any]]:
    """(source, globals) of the functions ``decode``, ``encode_into`` and ``encode``."""
    scope: dict[str, Any] = {
        "SEVERAL": frozenset((list, tuple)),
        "SHORT": _SHORT,
        "bad_length": bad_length,
        "pack": struct.pack,
        "read_string_length": read_string_length,
        "read_uvarint": read_uvarint,
        "skip_tags": skip_tags,
        "unpack_from": struct.unpack_from,
        "uvarint": uvarint,
    }
    plan = _Plan(version, flexible, fields_of)

    out = _Source(scope)
    reader = _Reader(plan, out)
    built = reader.struct_of(cls)
    reader.flush()
    decode = ["def decode(b, p, end):", *out.lines, f"    return {built}, p"]

    out = _Source(scope)
    writer = _Writer(plan, out)
    writer.struct_of(cls, "m")
    writer.flush()
    encode_into = ["def encode_into(m, append):", *(out.lines or ["    pass"])]

    encode = ["def encode(m):"]
    if len(out.lines) == 1:  # of fixed size
        encode.append(f"    return {out.lines[0].strip().removeprefix('append')}")
    else:
        encode += ["    parts = []", "    encode_into(m, parts.append)"]
        encode.append("    return b''.join(parts)")

    return "\n".join([*decode, *encode_into, *encode]) + "\n", scope
