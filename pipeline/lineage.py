"""Lineage: the inputs, code, options and time that a table was made of.

It is kept with each table, as ``_lineage.json`` in its folder (Spark ignores files that
begin with an underscore), and with each build, as ``lineage.json``.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline import sink_log

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kohort.pipeline.lake import Lake

OF_BUILD: Final = "lineage.json"
OF_TABLE: Final = "_lineage.json"
LEDGER: Final = "bronze/ledger"
CHECKPOINTS: Final = "checkpoints"
_SOURCES: Final = frozenset({".py", ".json", ".sql"})


@functools.cache
def code_version() -> str:
    """The version of kohort, and a hash of this package: ``0.1.0+3f2a...``.

    Two builds of the same code version make the same rows of the same input.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(here.rglob("*")):
        if path.suffix in _SOURCES:
            digest.update(f"{path.relative_to(here).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return f"{metadata.version('kohort')}+{digest.hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The contents of bronze that count.

    Attributes:
        ledger: contents of the ledger of each ingest, by its id.
        streams: each stream by its name: ``batch``, its last one that counts,
            ``offsets``, up to where that had read: by topic and partition, and
            ``last_file``, the last file that counts; null: none.
    """

    ledger: Mapping[str, Any] = field(default_factory=dict)
    streams: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"ledger": dict(self.ledger), "streams": dict(self.streams)}


def inputs(lake: Lake) -> Inputs:
    """The current inputs. Later events may be read as well."""
    ledger: dict[str, Any] = {}
    for name in lake.names(LEDGER):
        text = lake.read_text(f"{LEDGER}/{name}")
        if text is not None and name.endswith(".json"):
            ledger[name.removesuffix(".json")] = json.loads(text)
    streams = {
        name: said
        for name in lake.names(CHECKPOINTS)
        if (said := _stream(lake, name)) is not None
    }
    return Inputs(ledger, streams)


def _stream(lake: Lake, name: str) -> dict[str, Any] | None:
    """A stream's position, from the checkpoint of Structured Streaming."""
    checkpoint = f"{CHECKPOINTS}/{name}"
    batches = [int(n) for n in lake.names(f"{checkpoint}/commits") if n.isdigit()]
    if not batches:
        return None
    batch = max(batches)
    # A version, the batch's own settings, and then a line of each source.
    text = lake.read_text(f"{checkpoint}/offsets/{batch}") or ""
    offsets: dict[str, Any] = {}
    for line in text.splitlines()[2:]:
        said = json.loads(line) if line.startswith("{") else None
        if isinstance(said, dict):
            offsets |= said
    files = sink_log.files(lake, name)
    last = files[-1] if files else None
    return {"batch": batch, "offsets": offsets, "last_file": last}


@dataclass(frozen=True, slots=True)
class Made:
    """A table of a build.

    Attributes:
        path: which: ``silver/rebalances``.
        rows: how many it has.
        files: how many it is in.
        size: their bytes.
        seconds: how long it took, with waiting for other tables.
        made_from: paths of the tables that it was made from.
        parts: the folders in the lake whose Parquet files have its rows.
        schema: its columns, and their types.
    """

    path: str
    rows: int
    files: int
    size: int
    seconds: float
    made_from: Sequence[str]
    parts: Sequence[str]
    schema: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "table": self.path,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "made_from": [*self.made_from],
            "parts": [*self.parts],
            "schema": dict(self.schema),
        }


def columns(schema: StructType) -> dict[str, str]:
    """A schema as names and types, as SQL spells them."""
    return {each.name: each.dataType.simpleString() for each in schema.fields}
