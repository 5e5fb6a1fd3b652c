"""Mutations of messages: fields and rows change, and the bytes stay well-formed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kohort.protocol.fields import Field, Primitive, fields_of

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "t", "g", "range", "consumer", "\u00e9", "x" * 127, "x" * 250)
_BYTES = (b"", b"\0\0", b"\0" * 127, b"\xff" * 9)
_NUMBERS = (0, 1, 2, 3, 5, 10, -1, -2, 100, 1000, 10_000)
_MOST_ROWS = 64
"""Rows of a doubled array: enough for every limit on repeated names."""


class Pool:
    """Values that mean something to the broker, by the kind of their field.

    Args:
        texts: names, ids and settings of a scene.
        uuids: 16 bytes each.
        blobs: record batches, subscriptions.
    """

    def __init__(
        self,
        texts: Sequence[str] = (),
        uuids: Sequence[bytes] = (),
        blobs: Sequence[bytes] = (),
    ) -> None:
        self._choices: dict[str, Sequence[Any]] = {
            "string": (*_TEXTS, *texts),
            "bytes": (*_BYTES, *blobs),
            "records": (*_BYTES, *blobs),
            "uuid": (bytes(16), b"\xff" * 16, *uuids),
            "bool": (False, True),
            "uint16": (0, 1, 2**16 - 1),
            "float64": (0.0, 1.0, -1.5, 1e300, float("inf"), float("nan")),
        }

    def value(self, kind: Primitive, chance: random.Random) -> Any:
        """A value of a primitive."""
        if kind.name in _BITS:
            top = 2 ** (_BITS[kind.name] - 1)
            return max(-top, min(chance.choice((*_NUMBERS, top - 1, -top)), top - 1))
        return chance.choice(self._choices[kind.name])


def mutated(message: Any, version: int, pool: Pool, chance: random.Random) -> Any:
    """A message that differs in one field of it or of one of its rows."""
    declared: type = type(message)
    fields = fields_of(declared)
    here = [i for i, f in enumerate(fields) if f.exists_in(version)]
    if not here:
        return message
    values = [getattr(message, f.name) for f in fields]
    at = chance.choice(here)
    values[at] = _changed(values[at], fields[at], version, pool, chance)
    return declared(*values)


def _changed(
    value: Any, f: Field, version: int, pool: Pool, chance: random.Random
) -> Any:
    if f.nullable_in(version) and chance.random() < 0.1:
        return None
    if not f.array:
        return _one(value, f.kind, version, pool, chance)
    rows = list(value or ())
    how = chance.randrange(6)
    if not rows or how == 0:
        rows.insert(chance.randint(0, len(rows)), _new(f.kind, version, pool, chance))
    elif how == 1:
        del rows[chance.randrange(len(rows))]
    elif how == 2 and len(rows) <= _MOST_ROWS:
        rows += rows
    else:
        at = chance.randrange(len(rows))
        rows[at] = _one(rows[at], f.kind, version, pool, chance)
        if how == 3 and len(rows) > 1:
            chance.shuffle(rows)
    return rows


def _one(
    value: Any,
    kind: Primitive | type,
    version: int,
    pool: Pool,
    chance: random.Random,
) -> Any:
    if isinstance(kind, Primitive):
        return pool.value(kind, chance)
    return (
        _new(kind, version, pool, chance)
        if value is None
        else mutated(value, version, pool, chance)
    )


def _new(
    kind: Primitive | type, version: int, pool: Pool, chance: random.Random
) -> Any:
    if isinstance(kind, Primitive):
        return pool.value(kind, chance)
    return mutated(kind(), version, pool, chance)
