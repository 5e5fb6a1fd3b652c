"""Reads the inputs of an ingest in this process, for the local engine.

Each line takes one of two ways. `msgspec` decodes a line that is an event with exact
types, which nearly all lines are. Any other line is looked at in Python: it is an event
all the same, as when a text field has a number, or goes to quarantine with its reason.
Spark's way is in `kohort.pipeline.event_schema.parsed`; tests compare the two.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, Final, Self, TypedDict

import msgspec
import pyarrow as pa
from pyarrow import compute, parquet

from kohort.pipeline.bronze.columns import ARRIVED, SOURCE
from kohort.pipeline.bronze.inputs import Taken, UnreadError
from kohort.pipeline.event_schema import (
    CUT_OFF,
    EVENT_TYPE,
    NO_EVENT,
    NO_OBJECT,
    NOT_JSON,
    OTHER_VERSION,
    RAW,
    REQUIRED,
    VERSION,
    WRONG_TYPE,
)
from kohort.pipeline.failures import why_unread
from kohort.pipeline.files import PARQUET, File, plain

BATCH: Final = 20_000
"""Events that are converted at a time: some tens of MB."""
_BOM: Final = b"\xef\xbb\xbf"
_INT: Final = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_LONG: Final = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_COMPACT: Final[Mapping[str, Any]] = {"separators": (",", ":"), "ensure_ascii": False}

Type = str | Mapping[str, Any]
"""A type, as Spark's JSON has it."""
Event = Mapping[str, Any]


def take(
    files: Sequence[File], base: str, at: datetime, progress: Callable[[str], None]
) -> Taken:
    """See `kohort.pipeline.bronze.inputs.Take`."""
    folder = Path(plain(base))
    reasons: Counter[str] = Counter()
    with (
        _Writer(folder / "events", _arrow(EVENT_TYPE), at) as events,
        _Writer(folder / "quarantine", _BAD, at) as bad,
    ):
        for file in files:
            for found in _records(file):
                if isinstance(found, Bad):
                    bad.add({RAW: found.raw, "reason": found.why}, file.path)
                    reasons[found.why] += 1
                elif isinstance(found, pa.RecordBatch):
                    events.add_batch(found, file.path)
                else:
                    events.add(found, file.path)
    if reasons:
        progress("putting aside records that are no events")
    return events.count, dict(reasons)


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that is no event: its text, and one of the reasons for quarantine."""

    raw: str
    why: str


def _records(file: File) -> Iterator[Event | Bad | pa.RecordBatch]:
    try:
        if file.path.endswith(PARQUET):
            yield from _rows(Path(plain(file.path)))
            return
        with _opened(Path(plain(file.path))) as stream:
            for line in _lines(stream):
                yield from event_of(line)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise UnreadError(file.path, why_unread(_text_of(error))) from error


def _text_of(error: Exception) -> str:
    """An error with its class, as Java prints its own."""
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


# -- lines


def _opened(path: Path) -> IO[bytes]:
    opened: Any = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 - the caller closes it
    return opened  # type: ignore[no-any-return]


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    r"""Lines that are not blank. They end as in Spark: with \n, \r\n or \r."""
    first = True
    for line in stream:
        whole = line.removeprefix(_BOM) if first else line
        first = False
        for part in whole.splitlines() if b"\r" in whole else (whole.rstrip(b"\n"),):
            if part.strip(b" "):
                yield part


def event_of(line: bytes) -> Iterator[Event | Bad]:
    """The event of a line, or the reason why it is none."""
    try:
        event: Event | None = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        event = None
    if event is None:
        yield _judged(line.decode(errors="replace"))
        return
    why = why_no_event(event)
    yield event if why is None else Bad(line.decode(errors="replace"), why)


def why_no_event(event: Event) -> str | None:
    """The reason why an object with the right types is no event; None if it is one."""
    version = event.get("schema")
    if version is not None and not 1 <= version <= VERSION:
        return OTHER_VERSION
    if any(event.get(name) is None for name in REQUIRED):
        return NO_EVENT
    return None


def _judged(text: str) -> Event | Bad:
    """The same for a line that is not an event with exact types."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return Bad(text, _why_no_json(text))
    if not isinstance(found, dict):
        return Bad(text, NO_OBJECT)
    try:
        event: Event = _typed(found, EVENT_TYPE)
    except _WrongTypeError:
        version = found.get("schema")
        newer = type(version) is int and VERSION < version < 2**31
        return Bad(text, OTHER_VERSION if newer else WRONG_TYPE)
    why = why_no_event(event)
    return event if why is None else Bad(text, why)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _why_no_json(text: str) -> str:
    line = text.strip(" ")
    if not line.startswith("{") or line.endswith("}"):
        return NOT_JSON
    try:
        json.JSONDecoder().raw_decode(line)
    except (ValueError, RecursionError):
        return CUT_OFF
    return NOT_JSON  # an object, and more


# -- types


class _WrongTypeError(Exception):
    """A value has another type than its field."""


def _typed(value: Any, type_: Type) -> Any:
    """A value of JSON in a type of the schema, as Spark converts it.

    Text fields take any value, as its JSON.
    """
    if value is None:
        return None
    if isinstance(type_, str):
        return _simple(value, type_)
    kind = type_["type"]
    if kind == "array" and isinstance(value, list):
        return [_typed(each, type_["elementType"]) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _typed(each, type_["valueType"]) for name, each in value.items()}
    if kind == "struct" and isinstance(value, dict):
        return {
            each["name"]: _typed(value.get(each["name"]), each["type"])
            for each in type_["fields"]
        }
    raise _WrongTypeError


def _simple(value: Any, type_: str) -> Any:
    if type_ == "string":
        text = value if isinstance(value, str) else json.dumps(value, **_COMPACT)
        return text.encode(errors="replace").decode()  # half a surrogate pair: "?"
    if type_ == "boolean" and isinstance(value, bool):
        return value
    bits = {"integer": 31, "long": 63}.get(type_, 0)
    if bits and type(value) is int and -(1 << bits) <= value < 1 << bits:
        return value
    raise _WrongTypeError


def _python(type_: Type, name: str) -> Any:
    """A type for `msgspec`: other fields are ignored, and all values may be null."""
    made: Any
    if isinstance(type_, str):
        simple = {"string": str, "boolean": bool, "integer": _INT, "long": _LONG}
        made = simple[type_]
    elif type_["type"] == "array":
        made = list.__class_getitem__(_python(type_["elementType"], name))
    elif type_["type"] == "map":
        made = dict.__class_getitem__((str, _python(type_["valueType"], name)))
    else:
        fields = {
            each["name"]: _python(each["type"], f"{name}.{each['name']}")
            for each in type_["fields"]
        }
        typed_dict: Any = TypedDict
        made = typed_dict(name, fields, total=False)
    return made | None


def _arrow(type_: Type) -> pa.DataType:
    """The same for Arrow."""
    if isinstance(type_, str):
        simple = {"string": pa.string, "boolean": pa.bool_, "integer": pa.int32}
        return simple.get(type_, pa.int64)()
    if type_["type"] == "array":
        return pa.list_(pa.field("element", _arrow(type_["elementType"])))
    if type_["type"] == "map":
        return pa.map_(_arrow(type_["keyType"]), _arrow(type_["valueType"]))
    return pa.struct([(each["name"], _arrow(each["type"])) for each in type_["fields"]])


_DECODER: Final = msgspec.json.Decoder(_python(EVENT_TYPE, "Event"))
_BAD: Final = pa.struct([(RAW, pa.string()), ("reason", pa.string())])


# -- Parquet


def _rows(path: Path) -> Iterator[pa.RecordBatch | Bad]:
    """Events of a Parquet file, and rows that are none."""
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH):
            rows = _cast(batch)
            version = rows.column("schema")
            known = compute.and_(
                compute.greater_equal(version, 1),
                compute.less_equal(version, VERSION),
            )
            whole = reduce(
                compute.and_, (rows.column(name).is_valid() for name in REQUIRED), known
            )
            is_event = whole.fill_null(fill_value=False)
            yield rows.filter(is_event)
            for row in rows.filter(compute.invert(is_event)).to_pylist(
                maps_as_pydicts="lossy"
            ):
                said = json.dumps(_without_nulls(row), **_COMPACT)
                yield Bad(said, why_no_event(row) or NO_EVENT)


def _cast(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of events; those that the file does not have are null."""
    type_ = _arrow(EVENT_TYPE)
    names = batch.schema.names
    columns = [
        batch.column(each.name).cast(each.type)
        if each.name in names
        else pa.nulls(batch.num_rows, each.type)
        for each in type_
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*type_]))


def _without_nulls(value: Any) -> Any:
    """As Spark writes JSON."""
    if isinstance(value, dict):
        return {n: _without_nulls(v) for n, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


# -- writing


class _Writer:
    """Writes rows into one Parquet file of a folder; without a row there is none.

    Attributes:
        count: number of rows.
    """

    def __init__(self, folder: Path, type_: pa.DataType, at: datetime) -> None:
        self.count = 0
        self._folder = folder
        self._type = type_
        self._at = at
        self._schema = pa.schema(
            [
                *type_,
                pa.field(SOURCE, pa.string()),
                pa.field(ARRIVED, pa.timestamp("us", "UTC")),
            ]
        )
        self._rows: list[Mapping[str, Any]] = []
        self._source = ""
        self._file: parquet.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._flush()
        finally:
            if self._file is not None:
                self._file.close()

    def add(self, row: Mapping[str, Any], source: str) -> None:
        """Adds a row."""
        if source != self._source or len(self._rows) >= BATCH:
            self._flush()
            self._source = source
        self._rows.append(row)

    def add_batch(self, rows: pa.RecordBatch, source: str) -> None:
        """Adds many rows."""
        self._flush()
        self._write(rows, source)

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            whole = pa.array(rows, self._type)
            self._write(pa.RecordBatch.from_struct_array(whole), self._source)

    def _write(self, rows: pa.RecordBatch, source: str) -> None:
        if not rows.num_rows:
            return
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = parquet.ParquetWriter(
                self._folder / "part-0.parquet", self._schema, compression="zstd"
            )
        arrived = pa.scalar(self._at, self._schema.field(ARRIVED).type)
        columns = [
            *rows.columns,
            pa.repeat(source, rows.num_rows),
            pa.repeat(arrived, rows.num_rows),
        ]
        self._file.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self.count += rows.num_rows
