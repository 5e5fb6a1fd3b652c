"""Requests of every API in which one array is long, made from their declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kohort.protocol.fields import Field, Primitive, fields_of
from kohort.protocol.registry import Api

_NOTHING: Final = {"string": "", "int8": 0, "int32": 0, "int64": 0}
"""Items of arrays of primitives."""


class Shape(NamedTuple):
    """A request with one long array.

    Attributes:
        api: its API.
        version: its version.
        path: the names of the array and of those that it is in.
        is_bare: whether the arrays in its items are empty; otherwise they have an item.
    """

    api: Api
    version: int
    path: tuple[str, ...]
    is_bare: bool

    @property
    def name(self) -> str:
        """For messages."""
        bare = " without items" if self.is_bare else ""
        return f"{self.api.name} v{self.version} {'.'.join(self.path)}{bare}"

    def message(self, count: int, values: Mapping[str, Any]) -> Any:
        """The request.

        Args:
            count: the number of items.
            values: values by name of a field; a function makes one from the row.
        """
        return self._struct(self.api.request_class, self.path, count, values, 0)

    def _struct(
        self,
        cls: type,
        path: tuple[str, ...],
        count: int,
        values: Mapping[str, Any],
        row: int,
    ) -> Any:
        return cls(
            **{
                field.name: self._value(field, path, count, values, row)
                for field in fields_of(cls)
            }
        )

    def _value(
        self,
        field: Field,
        path: tuple[str, ...],
        count: int,
        values: Mapping[str, Any],
        row: int,
    ) -> Any:
        if not field.exists_in(self.version):
            return field.default
        if not field.array:
            return _of(values, field, row)
        if path and field.name == path[0]:
            rows = range(count if len(path) == 1 else 1)
            inner = path[1:] or ("",)
        elif path == ("",) and self.is_bare:
            return ()
        else:
            rows, inner = range(1), ("",)
        if isinstance(field.kind, Primitive):
            return [_of(values, field, number) for number in rows]
        return [self._struct(field.kind, inner, count, values, n) for n in rows]


def _of(values: Mapping[str, Any], field: Field, row: int) -> Any:
    value = values.get(field.name, field.default)
    if field.array and field.name not in values:
        value = _NOTHING[field.kind.name] if isinstance(field.kind, Primitive) else 0
    return value(row) if callable(value) else value


def shapes(api: Api) -> Iterator[Shape]:
    """The shapes of an API's oldest and newest version."""
    for version in sorted({api.oldest, api.newest}):
        for path, has_inner in _arrays(api.request_class, version, ()):
            yield Shape(api, version, path, is_bare=False)
            if has_inner:
                yield Shape(api, version, path, is_bare=True)


def _arrays(
    cls: type, version: int, outer: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The paths of arrays, and whether their items have arrays."""
    for field in fields_of(cls):
        if field.array and field.exists_in(version):
            path = *outer, field.name
            inner: list[tuple[tuple[str, ...], bool]] = []
            if not isinstance(field.kind, Primitive):
                inner = list(_arrays(field.kind, version, path))
            yield path, bool(inner)
            yield from inner


def footprint(*values: Any) -> int:
    """Bytes of some objects and everything in them, each object counted once."""
    seen: set[int] = set()
    total, left = 0, list(values)
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            left += value.keys()
            left += value.values()
        elif isinstance(value, (list, tuple, set)):
            left += value
        elif hasattr(value, "__match_args__"):
            left += [getattr(value, name) for name in value.__match_args__]
    return total
