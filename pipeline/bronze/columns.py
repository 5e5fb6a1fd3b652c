"""Columns of the tables of bronze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kohort.pipeline.event_schema import RAW, WHY, events_schema
from kohort.pipeline.tables.table import schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LOST: Final = "events_lost"
"""The kind whose number is that of an event which is missing."""
SOURCE: Final = "source"
ARRIVED: Final = "arrived"


def bronze_schema() -> StructType:
    """The wide table of events, and where each came from, and when."""
    return events_schema().add(SOURCE, "string").add(ARRIVED, "timestamp")


def quarantine_schema() -> StructType:
    """The columns of quarantine: a record that is not an event, and the reason."""
    return schema_of(
        f"{RAW} string, reason string, {SOURCE} string, {ARRIVED} timestamp"
    )


def sink_schema() -> StructType:
    """The rows that a stream writes: events and quarantined records side by side."""
    return (
        bronze_schema()
        .add(RAW, "string")
        .add(WHY, "string")
        .add("quarantined", "boolean")
    )
