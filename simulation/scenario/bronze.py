"""Events as Parquet, in the layout of the pipeline's ``bronze/events``.

A file has the columns of `kohort.pipeline.bronze.bronze_schema`: all fields of events,
labels as entries, where the events come from, and when. A run's file has always the
same name, so a run that is played again replaces its events.
"""

from __future__ import annotations

import datetime as dt
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import json as arrow_json
from pyarrow import parquet

from kohort.broker.events.fields import Field
from kohort.broker.events.schema import COMMON, KINDS, ROWS
from kohort.simulation.world.scheduler import START

FOLDER: Final = "bronze/events"
SOURCE: Final = "simulation"
AT_ONCE: Final = 8 << 20
"""Bytes of events that are converted together."""
LABELS: Final = "labels"
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
}
_ENTRIES: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))


def _type_of(name: str) -> pa.DataType:
    if name.startswith("["):
        return pa.list_(_type_of(name[1:-1]))
    if name in ROWS:
        return pa.struct([_column(field) for field in ROWS[name]])
    return _TYPES[name]


def _column(field: Field) -> pa.Field:
    return pa.field(field.name, _type_of(field.type))


def _columns() -> pa.Schema:
    """The fields of all events, but for the labels."""
    fields = {field.name: field for field in COMMON if field.name != LABELS}
    for kind in KINDS:
        fields |= {field.name: field for field in kind.fields}
    return pa.schema([_column(field) for field in fields.values()])


class BronzeFile:
    """The events of a run, on their way to a file of Parquet.

    Args:
        path: the file; it appears at the end of the ``with`` block.
        labels: of the run.
    """

    def __init__(self, path: Path, labels: Mapping[str, str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        # Readers of Parquet skip files whose names begin with a dot.
        self._partial = path.with_name(f".{path.name}.{os.getpid()}")
        self._schema = _columns()
        at = dt.datetime.fromtimestamp(START, dt.UTC)
        self._added: list[tuple[str, pa.DataType, Any]] = [
            (LABELS, _ENTRIES, [{"key": k, "value": v} for k, v in labels.items()]),
            ("source", pa.string(), f"{SOURCE}/{labels['scenario']}"),
            ("arrived", pa.timestamp("us", tz="UTC"), at),
            ("raw", pa.string(), None),
            ("why", pa.string(), None),
        ]
        fields = [pa.field(name, type_) for name, type_, _ in self._added]
        whole = pa.schema([*self._schema, *fields])
        self._writer = parquet.ParquetWriter(self._partial, whole, compression="zstd")
        self._lines = io.BytesIO()

    def add(self, line: bytes) -> None:
        """Takes an event as a line of JSON."""
        self._lines.write(line)
        if self._lines.tell() >= AT_ONCE:
            self._convert()

    def _convert(self) -> None:
        size = self._lines.tell()
        if not size:
            return
        self._lines.seek(0)
        table = arrow_json.read_json(
            self._lines,
            arrow_json.ReadOptions(use_threads=False, block_size=size + 1),
            arrow_json.ParseOptions(
                explicit_schema=self._schema, unexpected_field_behavior="ignore"
            ),
        )
        for name, type_, value in self._added:
            same = pa.repeat(pa.scalar(value, type_), table.num_rows)
            table = table.append_column(name, same)
        self._writer.write_table(table)
        self._lines = io.BytesIO()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Completes the file, or removes it after an error."""
        if kind is None:
            self._convert()
        self._writer.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)
