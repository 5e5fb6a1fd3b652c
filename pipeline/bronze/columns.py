"""Columns of the tables of bronze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kohort.pipeline.event_schema import RAW, WHY, events_schema
from kohort.pipeline.lake import STREAMS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LOST: Final = "events_lost"
"""The kind whose number is that of an event which is missing."""
SOURCE: Final = "source"
ARRIVED: Final = "arrived"
METADATA: Final = "_spark_metadata"
"""Folder in which a stream's file sink lists the files that count."""
MANIFEST: Final = f"{STREAMS}/{{name}}/{METADATA}"


def bronze_schema() -> StructType:
    """The wide table of events, and where each came from, and when."""
    return events_schema().add(SOURCE, "string").add(ARRIVED, "timestamp")


def quarantine_schema() -> StructType:
    """The columns of quarantine: a record that is not an event, and the reason."""
    from pyspark.sql.types import StructType

    columns = f"{RAW} string, reason string, {SOURCE} string, {ARRIVED} timestamp"
    schema: StructType = StructType.fromDDL(columns)  # type: ignore[assignment]
    return schema


def sink_schema() -> StructType:
    """The rows that a stream writes: events and quarantined records side by side."""
    return (
        bronze_schema()
        .add(RAW, "string")
        .add(WHY, "string")
        .add("quarantined", "boolean")
    )
