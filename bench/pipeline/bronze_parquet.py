"""Events as Parquet in the wide form of bronze, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kohort.broker.events.formats import spark_schema

_SIMPLE: Final = MappingProxyType(
    {
        "string": pa.string(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "boolean": pa.bool_(),
    }
)


def arrow_type(spark: Any) -> pa.DataType:
    """The Arrow type of a type in Spark's JSON schema."""
    if isinstance(spark, str):
        return _SIMPLE[spark]
    if spark["type"] == "array":
        return pa.list_(arrow_type(spark["elementType"]))
    if spark["type"] == "map":
        return pa.map_(arrow_type(spark["keyType"]), arrow_type(spark["valueType"]))
    return pa.struct([(f["name"], arrow_type(f["type"])) for f in spark["fields"]])


def bronze_schema() -> pa.Schema:
    """The columns of bronze's events: the wide event, ``source`` and ``arrived``."""
    event = arrow_type(spark_schema())
    return pa.schema(
        [
            *(event.field(i) for i in range(event.num_fields)),
            pa.field("source", pa.string()),
            pa.field("arrived", pa.timestamp("us", "UTC")),
        ]
    )


def write(events: Iterable[Mapping[str, Any]], path: Path) -> Path:
    """Writes events as one Parquet file.

    Args:
        events: as JSON has them.
        path: of the file.

    Returns:
        The path.
    """
    rows = [
        {
            **event,
            "labels": [*event["labels"].items()],
            "source": "test",
            "arrived": datetime.fromtimestamp(event["wall_ns"] // 10**9, UTC),
        }
        for event in events
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=bronze_schema()), path)
    return path
