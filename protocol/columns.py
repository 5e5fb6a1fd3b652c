"""Arrays of structs as columns: one tuple per field in place of one object per struct.

An array whose declaration says `fields.COLUMNS` is decoded as `Columns` if its structs
have no tagged fields, and their texts are all empty or all null: they have the same
size then. A few operations read the whole array, and its readers may work on whole
columns, too.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, overload

MOST_IN_COLUMNS: Final = 300
"""Structs of an array that is decoded as columns: their formats are kept, and have 160
bytes per struct. Longer arrays, and those of long messages, which are decoded in
pieces, are decoded struct by struct."""
_FORMATS = 64
"""Formats kept for each kind of array, for different numbers of structs."""

T = TypeVar("T")


class Columns(Sequence[T]):
    """An array of structs; a struct is made when it is read.

    Args:
        make: makes a struct from its fields.
        columns: see below.

    Attributes:
        columns: the values of each field, in the order of the struct's constructor.
    """

    __slots__ = ("_make", "columns")
    __hash__ = None  # type: ignore[assignment]  # like a list

    def __init__(
        self, make: Callable[..., T], columns: tuple[tuple[Any, ...], ...]
    ) -> None:
        self._make = make
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, *self.columns)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [*map(self._make, *(column[index] for column in self.columns))]
        return self._make(*(column[index] for column in self.columns))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return [*self] == [*other]

    def __repr__(self) -> str:
        return repr([*self])


def columns_of(
    rows: Sequence[Any], names: Sequence[str]
) -> tuple[tuple[Any, ...], ...]:
    """The columns of an array of structs.

    Args:
        rows: the array, as decoded or as a list of structs.
        names: all fields of the struct, in the order of its constructor.
    """
    if type(rows) is Columns:
        return rows.columns
    return tuple(tuple([getattr(row, name) for row in rows]) for name in names)


def unpacker(fmt: str) -> Callable[[int], Callable[..., tuple[Any, ...]]]:
    """Makes ``unpack_from`` for a number of consecutive structs of a format."""

    @functools.lru_cache(_FORMATS)
    def made(count: int) -> Callable[..., tuple[Any, ...]]:
        return struct.Struct(">" + fmt * count).unpack_from

    return made
