"""Writes the Python source of a message's codec for one version.

The generated code is fast for four reasons: adjacent fixed-size fields are read by one
``unpack_from`` and written by one ``pack``; the length of a field is read with the
fixed fields before it; arrays are inline loops; and the position is compared with the
end of the frame once, after the last field (a slice past the end is short, never an
error, so no byte after the end is read). Only counts of arrays are checked at once: an
item has at least one byte.

Ambiguous bytes are read as Apache Kafka reads them: any negative length is null, bytes
that are not UTF-8 are replaced, the size of a known tagged field is ignored, and known
tagged fields may repeat and come in any order.

``decode_in_pieces`` and ``encode_in_pieces`` are the same functions as generators, for
messages that may be long. The same calls generate both forms: `add` writes a line of
both, `whole` and `in_pieces` a line of one of them (see `GeneratedSource`). A generator
counts in ``left`` the items that it handles before it yields, and, when it decodes, in
``spent`` the items so far.
"""

from __future__ import annotations

import struct
from typing import Any

from kohort.protocol.fields import Field, Primitive, fields_of
from kohort.protocol.generated_calls import (
    BYTES_SHIFT,
    MOST_ITEMS,
    MOST_TAGS,
    PIECE,
    bad_length,
    pack_in_pieces,
    read_string_length,
    read_uvarint,
    skip_tags,
    too_many_items,
    too_many_tags,
    unpack_in_pieces,
    uvarint,
)
from kohort.protocol.generated_source import GeneratedSource
from kohort.protocol.slotted import replace, slotted

_SHORT = tuple(bytes((n,)) for n in range(128))


@slotted
class _Form:
    """Encoding of a field in one version: nullable or not, compact or not."""

    name: str
    nullable: bool
    compact: bool

    @property
    def bias(self) -> int:
        """Added to each length; null is one less (KIP-482)."""
        return 1 if self.compact else 0

    @property
    def plus(self) -> str:
        """Source that adds the bias to a length."""
        return " + 1" if self.compact else ""

    @property
    def minus(self) -> str:
        """Source that subtracts the bias."""
        return " - 1" if self.compact else ""


class _Plan:
    """Fields and encodings of one version, for encoder and decoder."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible

    def split(self, cls: type) -> tuple[list[Field], list[tuple[int, Field]]]:
        """(plain fields in order, tagged fields by tag) of this version."""
        here = [f for f in fields_of(cls) if f.exists_in(self.version)]
        plain = [f for f in here if f.versions.tag is None]
        tagged = [(f.versions.tag, f) for f in here if f.versions.tag is not None]
        return plain, sorted(tagged, key=lambda pair: pair[0])

    def form(self, f: Field) -> _Form:
        """The form of a field."""
        return _Form(f.name, f.nullable_in(self.version), self.flexible)


def _null_of(f: Field) -> int:
    """The byte that stands for a struct that is null; 1 stands before the others."""
    return -1 if f.versions.tag is None else 0


_SLICES = {
    "string": ("b[p:q].decode('utf-8', 'replace')", "''"),
    "bytes": ("bytes(b[p:q])", "b''"),
    "records": ("memoryview(b)[p:q]", "b''"),
}
"""Expressions that read text and bytes: for a length above 0, and for length 0."""


class _Reader:
    """Writes ``decode``: ``b`` is the buffer, ``p`` the position in it."""

    def __init__(self, plan: _Plan, out: GeneratedSource) -> None:
        self.plan = plan
        self.out = out
        self._run: list[tuple[str, str]] = []

    def fixed(self, fmt: str) -> str:
        """A variable of fixed size; `flush` reads it with its neighbours."""
        name = self.out.name()
        self._run.append((name, fmt))
        return name

    def flush(self) -> None:
        """Reads the values that `fixed` has collected."""
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
        """Reads a struct; returns the expression that builds it after `flush`."""
        plain, tagged = self.plan.split(cls)
        values = {f.name: self.field(f) for f in plain}
        if self.plan.flexible:
            values |= self._tags(tagged)
        arguments = (
            values.get(f.name) or self.out.literal(f.default) for f in fields_of(cls)
        )
        return f"{self.out.constant(cls.__name__, cls)}({', '.join(arguments)})"

    def _tags(self, tagged: list[tuple[int, Field]]) -> dict[str, str]:
        out = self.out
        if not tagged:
            count = self.fixed("B")
            self.flush()
            out.add(f"if {count}:")
            with out.indented():
                out.add("p = skip_tags(b, p - 1)")
                # The low bits are the number: there are no more than MOST_TAGS.
                out.in_pieces(f"left -= {count} & 127")
                out.spend(f"{count} & 127")
            return {}
        count = self.uvarint()
        values = {f.name: out.name() for _, f in tagged}
        for _, f in tagged:
            out.add(f"{values[f.name]} = {out.literal(f.default)}")
        out.add(f"if {count}:")
        with out.indented():
            out.add(f"if {count} > MOST_TAGS: too_many_tags({count})")
            out.add(f"for _ in range({count}):")
            with out.indented():
                out.pause()
                out.spend("1")
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
        """Reads a field; returns the expression that holds it, valid after `flush`."""
        form = self.plan.form(f)
        if f.array:
            return self._array(f.kind, form)
        if isinstance(f.kind, type):
            if form.nullable:
                return self._optional(f.kind, 1 + _null_of(f))
            return self.struct_of(f.kind)
        if f.kind.format:
            return self.fixed(f.kind.format)
        return self._sized(f.kind, form)

    def _optional(self, cls: type, least: int) -> str:
        """Reads a struct after a byte, which is at least `least` if it is present."""
        out, present = self.out, self.fixed("b")
        self.flush()
        value = out.name()
        out.add(f"if {present} < {least}: {value} = None")
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
        """Sets the value for a length of 0 or less."""
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
            if kind.name != "records":
                out.in_pieces(f"left -= {length} >> {BYTES_SHIFT}")
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
            out.spend(length)
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
            out.pause()
            if isinstance(kind, type):
                item = self.struct_of(kind)
            else:
                item = self._sized(kind, replace(form, nullable=False))
            self.flush()
            out.add(f"{value}.append({item})")

    def _fixed_items(self, fmt: str, value: str, length: str) -> None:
        out = self.out
        out.add(f"q = p + {struct.calcsize('>' + fmt)} * {length}")
        out.in_pieces(f"left -= {length} >> 4")
        if fmt == "16s":
            out.whole(f"{value} = [bytes(b[i:i + 16]) for i in range(p, q, 16)]")
        else:
            out.whole(f"{value} = list(unpack_from(f'>{{{length}}}{fmt}', b, p))")
        out.in_pieces(f"{value} = yield from unpack_in_pieces({fmt!r}, {length}, b, p)")
        out.add("p = q")


class _Writer:
    """Writes ``encode``: ``m`` is the message, ``append`` takes its bytes."""

    def __init__(self, plan: _Plan, out: GeneratedSource) -> None:
        self.plan = plan
        self.out = out
        self.append = "append"
        self._run: list[tuple[str, str]] = []

    def fixed(self, value: str, fmt: str) -> None:
        """Adds an expression of fixed size, to be written with its neighbours."""
        self._run.append((value, fmt))

    def zero(self) -> None:
        """Adds a zero byte, to be written with its neighbours."""
        self._run.append(("", "x"))

    def _packed(self, *more: tuple[str, str]) -> str:
        """The expression that packs the collected values, then `more`."""
        run = [*self._run, *more]
        fmt = "".join(fmt for _, fmt in run)
        if not fmt.strip("x"):
            return repr(bytes(len(fmt)))
        if fmt == "B":
            return f"SHORT[{run[0][0]}]"
        values = ", ".join(value for value, _ in run if value)
        return f"{self.out.structure('pack', fmt)}({values})"

    def flush(self) -> None:
        """Writes the collected values."""
        if self._run:
            self.out.add(f"{self.append}({self._packed()})")
            self._run = []

    def uvarint(self, value: str) -> None:
        """Writes the collected values, then an unsigned varint."""
        short, long = self._packed((value, "B")), f"uvarint({value})"
        if self._run:
            long = f"{self._packed()} + {long}"
        self.out.add(f"{self.append}({short} if {value} < 128 else {long})")
        self._run = []

    def struct_of(self, cls: type, value: str) -> None:
        """Writes a struct; its last fixed values may stay collected."""
        plain, tagged = self.plan.split(cls)
        for f in plain:
            self.field(f, f"{value}.{f.name}")
        if tagged:
            self._tags(tagged, value)
        elif self.plan.flexible:
            self.zero()

    def _tags(self, tagged: list[tuple[int, Field]], value: str) -> None:
        """Writes tagged fields if they differ from their defaults.

        Their bytes are made first, as their number and sizes precede them.
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
        """A test that a value differs from its default: None, empty, or an object."""
        default = self.out.literal(f.default)
        if default == "None":
            return f"{value} is not None"
        if f.array and not f.optional:
            return value
        if isinstance(f.kind, type):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def field(self, f: Field, value: str) -> None:
        """Writes a field; its last fixed values may stay collected."""
        form = self.plan.form(f)
        if f.array:
            self._array(f.kind, form, value)
        elif isinstance(f.kind, type):
            if form.nullable:
                self._optional(f.kind, value, _null_of(f))
            else:
                self.struct_of(f.kind, value)
        elif f.kind.format:
            self.fixed(value, f.kind.format)
        else:
            self._sized(f.kind, form, value)

    def _optional(self, cls: type, value: str, null: int) -> None:
        out, absent = self.out, null.to_bytes(1, "big", signed=True)
        self.flush()
        out.add(f"if {value} is None: {self.append}({absent!r})")
        out.add("else:")
        with out.indented():
            self.fixed("1", "b")
            self.struct_of(cls, value)
            self.flush()

    def _length(self, form: _Form, length: str, fmt: str) -> None:
        """Writes the collected values, then a length with its bias."""
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
            with out.indented():
                out.add(f"for x in {data}:")
                with out.indented():
                    out.pause()
                    out.add(f"{self.append}(x)")
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
                out.pause()
                if isinstance(kind, type):
                    self.struct_of(kind, item)
                else:
                    self._sized(kind, replace(form, nullable=False), item)
                self.flush()
        elif kind.format == "16s":
            out.add(f"{self.append}(b''.join({items}))")
        else:
            packed = f"pack(f'>{{len({items})}}{kind.format}', *{items})"
            out.whole(f"if {items}: {self.append}({packed})")
            packing = f"pack_in_pieces({kind.format!r}, {items}, {self.append})"
            out.in_pieces(f"left -= {length} >> 4", f"if {items}: yield from {packing}")


def _scope() -> dict[str, Any]:
    """The globals of generated functions."""
    return {
        "MOST_ITEMS": MOST_ITEMS,
        "MOST_TAGS": MOST_TAGS,
        "SEVERAL": frozenset((list, tuple)),
        "SHORT": _SHORT,
        "bad_length": bad_length,
        "pack": struct.pack,
        "pack_in_pieces": pack_in_pieces,
        "read_string_length": read_string_length,
        "read_uvarint": read_uvarint,
        "skip_tags": skip_tags,
        "too_many_items": too_many_items,
        "too_many_tags": too_many_tags,
        "unpack_from": struct.unpack_from,
        "unpack_in_pieces": unpack_in_pieces,
        "uvarint": uvarint,
    }


def _decode(out: GeneratedSource, plan: _Plan, cls: type) -> list[str]:
    """Adds the lines that decode, and returns the last one, a ``return``."""
    reader = _Reader(plan, out)
    out.in_pieces(f"left = {PIECE}; spent = 0", "yield from ()")
    built = reader.struct_of(cls)
    reader.flush()
    out.add(f"return {built}, p")
    return out.lines


def _encode(out: GeneratedSource, plan: _Plan, cls: type) -> list[str]:
    """The lines that encode."""
    writer = _Writer(plan, out)
    out.in_pieces(f"left = {PIECE}", "yield from ()")
    writer.struct_of(cls, "m")
    writer.flush()
    return out.lines


def generate(cls: type, version: int, flexible: bool) -> tuple[str, dict[str, Any]]:
    """(source, globals) of the functions ``decode``, ``encode_into`` and ``encode``."""
    scope, plan = _scope(), _Plan(version, flexible)
    decode = _decode(GeneratedSource(scope, is_generator=False), plan, cls)
    encode = _encode(GeneratedSource(scope, is_generator=False), plan, cls)
    lines = ["def decode(b, p, end):", *decode]
    lines += [
        "def encode_into(m, append):",
        *(encode or ["    pass"]),
        "def encode(m):",
    ]
    if len(encode) == 1:  # of fixed size
        lines.append(f"    return {encode[0].strip().removeprefix('append')}")
    else:
        lines += ["    parts = []", "    encode_into(m, parts.append)"]
        lines.append("    return b''.join(parts)")
    return "\n".join(lines) + "\n", scope


def generate_in_pieces(
    cls: type, version: int, flexible: bool
) -> tuple[str, dict[str, Any]]:
    """(source, globals) of ``decode_in_pieces`` and ``encode_in_pieces``."""
    scope, plan = _scope(), _Plan(version, flexible)
    lines = ["def decode_in_pieces(b, p, end):"]
    lines += _decode(GeneratedSource(scope, is_generator=True), plan, cls)
    lines += ["def encode_in_pieces(m, append):"]
    lines += _encode(GeneratedSource(scope, is_generator=True), plan, cls)
    return "\n".join(lines) + "\n", scope
