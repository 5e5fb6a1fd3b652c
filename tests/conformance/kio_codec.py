"""Encodes and decodes messages as nested dicts, with `kio`.

kio's dataclasses are generated from Kafka's message definitions, independently of any
broker implementation.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import io
import types
import typing
from typing import Any, NamedTuple

from kio import index
from kio.schema.describe_transactions.v0 import response as _states
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware

_API_KEYS = {
    "".join(part.capitalize() for part in name.split("_")): key
    for key, name in api_key_map.items()
}


load_request_schema = functools.cache(index.load_request_schema)


@functools.cache
def load_response_schema(key: int, version: int) -> Any:
    """The class of a response."""
    cls: Any = index.load_response_schema(key, version)
    if key == _API_KEYS["DescribeTransactions"]:
        # Kafka sends a start time of -1, which kio only reads as null.
        start = "transaction_start_time"
        state: Any = _typed(_states.TransactionState, start, TZAware | None)
        return _typed(
            cls, "transaction_states", types.GenericAlias(tuple, (state, ...))
        )
    return cls


def _typed(cls: Any, name: str, tp: Any) -> Any:
    """A message's class with another type for one field."""
    fields = [
        (
            f.name,
            tp if f.name == name else f.type,
            dataclasses.field(metadata=f.metadata),
        )
        for f in dataclasses.fields(cls)
    ]
    constants = {key: getattr(cls, key) for key in _CONSTANTS}
    return dataclasses.make_dataclass(
        cls.__name__, fields, namespace=constants, frozen=True, slots=True, kw_only=True
    )


_CONSTANTS = (
    "__type__",
    "__version__",
    "__flexible__",
    "__api_key__",
    "__header_schema__",
)


def api_key(api: str) -> int:
    """Numeric API key of a CamelCase API name, e.g. ``JoinGroup`` -> 11."""
    return _API_KEYS[api]


def _is_timedelta(field: dataclasses.Field[Any]) -> bool:
    return str(field.metadata.get("kafka_type", "")).startswith("timedelta")


def _public_name(field: dataclasses.Field[Any]) -> str:
    """The ``Ms`` suffix of durations, which kio drops, is kept in transcripts."""
    return field.name + "_ms" if _is_timedelta(field) else field.name


@functools.cache
def _names(cls: Any) -> tuple[tuple[str, str], ...]:
    """(name, public name) of all fields; none of a class that is not a dataclass."""
    fields = _plan(cls) if hasattr(cls, "__dataclass_fields__") else ()
    return tuple((field.name, field.public) for field in fields)


def _split_type(tp: Any) -> tuple[Any, bool, bool]:
    """(item type, is array, is nullable)."""
    nullable = False
    if isinstance(tp, types.UnionType) or typing.get_origin(tp) is typing.Union:
        nullable = True
        (tp,) = [a for a in typing.get_args(tp) if a is not type(None)]
    if typing.get_origin(tp) is tuple:
        return typing.get_args(tp)[0], True, nullable
    return tp, False, nullable


_ZEROES: dict[str | None, Any] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": None,
}


def _zero(kafka_type: str | None, nullable: bool) -> Any:
    if nullable:
        return None
    return _ZEROES.get(kafka_type, 0)


def _build_scalar(value: Any, tp: Any, kafka_type: str | None) -> Any:
    if value is None:
        return None
    if dataclasses.is_dataclass(tp):
        return _build(tp, value)
    if kafka_type and kafka_type.startswith("timedelta"):
        return dt.timedelta(milliseconds=value)
    if kafka_type == "error_code":
        return ErrorCode(value)
    return value


class _Field(NamedTuple):
    """A field of a message, as `_build` needs it."""

    name: str
    public: str
    type: Any
    is_array: bool
    nullable: bool
    kafka_type: str | None
    has_default: bool


@functools.cache
def _plan(cls: Any) -> tuple[_Field, ...]:
    """The fields of a message's class."""
    return tuple(
        _Field(
            field.name,
            _public_name(field),
            *_split_type(field.type),
            field.metadata.get("kafka_type"),
            field.default is not dataclasses.MISSING,
        )
        for field in dataclasses.fields(cls)
    )


def _build(cls: Any, values: dict[str, Any]) -> Any:
    left = dict(values)
    out: dict[str, Any] = {}
    for name, public, tp, is_array, nullable, kafka_type, has_default in _plan(cls):
        if public in left:
            value = left.pop(public)
            if is_array and value is not None:
                out[name] = tuple(_build_scalar(v, tp, kafka_type) for v in value)
            else:
                out[name] = _build_scalar(value, tp, kafka_type)
        elif not has_default:
            if is_array:
                out[name] = None if nullable else ()
            elif dataclasses.is_dataclass(tp):
                out[name] = None if nullable else _build(tp, {})
            else:
                zero = _zero(kafka_type, nullable)
                out[name] = _build_scalar(zero, tp, kafka_type)
    if left:
        raise TypeError(f"{cls.__module__}: no such field(s): {', '.join(left)}")
    return cls(**out)


def _plain(value: Any) -> Any:
    cls: Any = type(value)
    if names := _names(cls):
        return {public: _plain(getattr(value, name)) for name, public in names}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    return value


def fitting(api: str, version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that a version of the request has."""
    fitted: dict[str, Any] = _fitting(
        load_request_schema(api_key(api), version), fields
    )
    return fitted


def _fitting(cls: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_fitting(cls, each) for each in value]
    if not isinstance(value, dict):
        return value
    types_of = {field.public: field.type for field in _plan(cls)}
    return {n: _fitting(types_of[n], v) for n, v in value.items() if n in types_of}


def request_fields(api: str, version: int) -> set[str]:
    """Top-level field names of a request, for version-dependent callers."""
    cls = load_request_schema(api_key(api), version)
    return {field.public for field in _plan(cls)}


def encode_body(api: str, version: int, fields: dict[str, Any]) -> bytes:
    """Body of a request; missing fields are zero or empty."""
    cls = load_request_schema(api_key(api), version)
    buffer = io.BytesIO()
    entity_writer(cls)(buffer, _build(cls, fields))
    return buffer.getvalue()


def decode_body(api: str, version: int, data: bytes) -> dict[str, Any]:
    """Fields of a response; `trailing_bytes` counts bytes after it."""
    cls = load_response_schema(api_key(api), version)
    entity, used = entity_reader(cls)(data, 0)
    out: dict[str, Any] = _plain(entity)
    if used != len(data):
        out["trailing_bytes"] = len(data) - used
    return out


def request_header_version(api: str, version: int) -> int:
    """Header version of a request: 0 to 2."""
    return load_request_schema(api_key(api), version).__header_schema__.__version__


def response_header_version(api: str, version: int) -> int:
    """Header version of a response: 0 or 1."""
    cls = load_response_schema(api_key(api), version)
    return int(cls.__header_schema__.__version__)


def error_name(code: int) -> str:
    """An error code as transcripts show it: `27 REBALANCE_IN_PROGRESS`."""
    try:
        return f"{int(code)} {ErrorCode(code).name.upper()}"
    except ValueError:
        return str(int(code))
