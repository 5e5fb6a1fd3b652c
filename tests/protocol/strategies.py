"""Hypothesis strategies for messages, made from their declarations."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Field, Primitive, fields_of
from kohort.protocol.messages import Codec
from kohort.protocol.primitives import Layout, layout
from kohort.protocol.registry import APIS, Api


class Side(NamedTuple):
    """A request or a response of one API in one version."""

    api: Api
    version: int
    is_request: bool

    def __str__(self) -> str:
        kind = "request" if self.is_request else "response"
        return f"{self.api.name}-v{self.version}-{kind}"

    @property
    def declared(self) -> type:
        """Its declared class."""
        return self.api.request_class if self.is_request else self.api.response_class

    @property
    def codec(self) -> Codec:
        """The generated codec, from the registry."""
        of = self.api.request if self.is_request else self.api.response
        return of(self.version)

    @property
    def layout(self) -> Layout:
        """The construct layout."""
        flexible = self.api.is_flexible(self.version)
        return layout(self.declared, self.version, flexible=flexible)


SIDES = [
    Side(api, version, is_request)
    for api in APIS
    for version in range(api.oldest, api.newest + 1)
    for is_request in (True, False)
]


def sides_of(api: Api) -> list[Side]:
    """The requests and responses of all versions of an API."""
    return [side for side in SIDES if side.api is api]


def some_side(api: Api) -> st.SearchStrategy[Side]:
    """The request or the response of some version of an API."""
    return st.sampled_from(sides_of(api))


every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)

_TEXT = st.one_of(
    st.text(max_size=6),
    st.sampled_from(("", "x" * 126, "x" * 127, "x" * 128, "\u00e9\U0001f600" * 50)),
)
_BYTES = st.one_of(
    st.binary(max_size=12), st.sampled_from((b"", b"\0" * 126, b"\xff" * 127))
)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uint16": st.integers(0, 2**16 - 1),
    # NaN is not equal to itself.
    "float64": st.floats(allow_nan=False),
    "uuid": st.one_of(st.just(bytes(16)), st.uuids().map(lambda u: u.bytes)),
    "string": _TEXT,
    "bytes": _BYTES,
    "records": _BYTES,
} | {
    name: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for name, bits in _BITS.items()
}

_ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])
# Times and durations that datetime's types can express.
_TIMES = st.integers(0, 2**41)
_DURATIONS = st.integers(-(2**31), 2**31 - 1)


def _of_kind(f: Field, version: int, *, modest: bool) -> st.SearchStrategy[Any]:
    if not isinstance(f.kind, Primitive):
        return messages(f.kind, version, modest=modest)
    if modest and f.name.endswith("error_code"):
        return _ERROR_CODES
    if modest and f.name == "log_append_time_ms":
        return st.just(-1) | _TIMES
    if modest and f.name.endswith(("transaction_start_time_ms", "_timestamp_ms")):
        return _TIMES
    if modest and f.name.endswith("_ms"):
        return _DURATIONS
    return _PRIMITIVES[f.kind.name]


def _of_field(f: Field, version: int, *, modest: bool) -> st.SearchStrategy[Any]:
    if not f.exists_in(version):
        return st.just(f.default)
    found = _of_kind(f, version, modest=modest)
    if f.array:
        found = st.lists(found, max_size=3)
    if f.nullable_in(version):
        found = st.none() | found
    if f.versions.tag is not None:
        found = st.just(f.default) | found
    return found


@functools.cache
def messages(
    cls: type, version: int, *, modest: bool = False
) -> st.SearchStrategy[Any]:
    """Messages of a declared class, with the fields of this version.

    Args:
        cls: the declared class.
        version: version of the API; other fields have their defaults.
        modest: only error codes with names, and times that datetime can express.
    """
    values: Sequence[st.SearchStrategy[Any]]
    values = [_of_field(f, version, modest=modest) for f in fields_of(cls)]
    return st.builds(cls, *values)


def plain_messages(side: Side) -> Iterator[Any]:
    """Messages that together have every field of a version, and every null."""
    yield side.declared()
    for nulls in Nulls:
        yield filled(side.declared, side.version, nulls)


class Nulls(enum.Enum):
    """The nullable fields that are null."""

    NONE = enum.auto()
    VALUES = enum.auto()
    STRUCTS = enum.auto()


@functools.cache
def filled(cls: type, version: int, nulls: Nulls = Nulls.NONE) -> Any:
    """A message with a value, or null, in every field of this version."""
    return cls(*(_filled(f, version, nulls) for f in fields_of(cls)))


_SAMPLES: dict[str, Any] = {
    "bool": True,
    "uuid": bytes(range(16)),
    "string": "name",
    "bytes": b"bytes",
    "records": b"records",
}


def _filled(f: Field, version: int, nulls: Nulls) -> Any:
    if not f.exists_in(version):
        return f.default
    is_value = isinstance(f.kind, Primitive)
    if f.nullable_in(version) and nulls is (
        Nulls.VALUES if is_value else Nulls.STRUCTS
    ):
        return None
    if isinstance(f.kind, Primitive):
        value = _SAMPLES.get(f.kind.name, 5)
    else:
        kind: type = f.kind
        value = filled(kind, version, nulls)
    return [value] if f.array else value


EDGES = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x7f\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\xff\xff",
)
"""Bytes that make invalid lengths, counts and varints."""


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """These bytes with one to three changes."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(out)))
        how = draw(st.sampled_from(("overwrite", "insert", "cut", "repeat", "flip")))
        if how == "overwrite":
            edge = draw(st.sampled_from(EDGES))
            out[at : at + len(edge)] = edge
        elif how == "insert":
            out[at:at] = draw(st.sampled_from(EDGES) | st.binary(max_size=6))
        elif how == "cut":
            del out[at : at + draw(st.integers(1, max(1, len(out))))]
        elif how == "repeat":
            out[at:at] = out[at : at + draw(st.integers(1, 32))]
        elif at < len(out):
            out[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(out)


def carried(value: Any, version: int) -> Any:
    """A message as dicts and lists, without the fields that its version lacks."""
    if hasattr(value, "__match_args__"):
        declared: type = type(value)
        return {
            f.name: carried(getattr(value, f.name), version)
            for f in fields_of(declared)
            if f.exists_in(version)
        }
    if isinstance(value, (list, tuple)):
        return [carried(v, version) for v in value]
    return value


def comparable(value: Any) -> Any:
    """Dicts and lists with texts in place of NaNs, which never equal themselves."""
    if isinstance(value, dict):
        # construct's containers have the stream, too.
        return {n: comparable(each) for n, each in value.items() if n != "_io"}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return str(value) if isinstance(value, float) and math.isnan(value) else value
