"""Converts messages between kohort and kio, an independent implementation."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import types
import typing
import uuid
from typing import TYPE_CHECKING, Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

if TYPE_CHECKING:
    from collections.abc import Callable

_MS = dt.timedelta(milliseconds=1)
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def kio_class(api_key: int, version: int, *, is_request: bool) -> Any:
    """The class of a request or response in kio."""
    load: Any = load_request_schema if is_request else load_response_schema
    return load(api_key, version)


def _kind(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get("kafka_type", ""))


def public_name(field: dataclasses.Field[Any]) -> str:
    """The schema's name of a field; kio drops the ``Ms`` of times."""
    is_time = _kind(field).startswith(("timedelta", "datetime"))
    return f"{field.name}_ms" if is_time else field.name


def _item_type(hint: Any) -> Any:
    """The type inside of ``tuple[T, ...] | None``."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (hint,) = (a for a in typing.get_args(hint) if a is not types.NoneType)
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint


def to_kio(cls: Any, message: dict[str, Any]) -> Any:
    """Converts a message's dict to kio's form; both must have every field."""
    fields = dataclasses.fields(cls)
    assert {public_name(f) for f in fields} == set(message)
    return cls(**{f.name: _to_kio(f, message[public_name(f)]) for f in fields})


_TO_KIO: dict[str, Callable[[Any], Any]] = {
    "uuid": lambda value: uuid.UUID(bytes=value) if any(value) else None,
    "error_code": ErrorCode,
    "timedelta_i32": lambda value: value * _MS,
    "timedelta_i64": lambda value: value * _MS,
    "datetime_i64": lambda value: None if value == -1 else _EPOCH + value * _MS,
}


def _to_kio(field: dataclasses.Field[Any], value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_to_kio(field, v) for v in value)
    if isinstance(value, dict):
        return to_kio(_item_type(field.type), value)
    convert = _TO_KIO.get(_kind(field))
    return value if value is None or convert is None else convert(value)


def from_kio(value: Any) -> dict[str, Any]:
    """The dict of one of kio's messages."""
    return {
        public_name(f): _from_kio(f, getattr(value, f.name))
        for f in dataclasses.fields(value)
    }


_FROM_KIO: dict[str, Callable[[Any], Any]] = {
    "uuid": lambda value: bytes(16) if value is None else value.bytes,
    "timedelta_i32": lambda value: value // _MS,
    "timedelta_i64": lambda value: value // _MS,
    "datetime_i64": lambda value: -1 if value is None else (value - _EPOCH) // _MS,
}


def _from_kio(field: dataclasses.Field[Any], value: Any) -> Any:
    if isinstance(value, tuple):
        return [_from_kio(field, v) for v in value]
    if dataclasses.is_dataclass(value):
        return from_kio(value)
    convert = _FROM_KIO.get(_kind(field))
    return value if convert is None else convert(value)


def kio_encode(value: Any) -> bytes:
    """The bytes of a message of kio's."""
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


def kio_decode(cls: Any, data: bytes) -> tuple[Any, int]:
    """(kio's message, position behind it)."""
    message, size = entity_reader(cls)(data, 0)
    return message, size
