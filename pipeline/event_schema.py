"""The schema of events in Spark, and the parsing of text into rows of it.

``event_schema.json`` is the wide table of every kind and field, as the broker's
documents have it; a test holds the two together, and

    python -m tests.pipeline.test_event_schema

writes it anew. Within a schema version fields and kinds are only added: fields that
older events lack are null, unknown fields are left out, and events of unknown kinds
stay. Where a later version changes the meaning of a field, `UPGRADES` has a step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

FILE: Final = "event_schema.json"
VERSION: Final = 1
"""The newest version of the schema that is understood."""
UPGRADES: Final[Mapping[int, Callable[[DataFrame], DataFrame]]] = MappingProxyType({})
"""Steps from each version to the next one. A step gets all events, and changes those
whose ``schema`` is its version. There is only one version yet."""

_SCHEMA: Final[Mapping[str, Any]] = json.loads(
    files(__package__).joinpath(FILE).read_text(encoding="utf-8")
)
EVENT_TYPE: Final[Mapping[str, Any]] = {"type": "struct", "fields": _SCHEMA["fields"]}
"""The type of events, as Spark's JSON has it."""
WORDS: Final[Mapping[str, Any]] = _SCHEMA["words"]
"""The broker's tables of words: cooperative assignors, causes, outcomes, ..."""
KINDS: Final = frozenset(_SCHEMA["kinds"])
"""The kinds of events that this version knows."""

IDENTITY: Final = ("run", "node", "sequence")
"""Columns that identify an event. The number of an ``events_lost`` is that of an event
which is missing there, and may be in another source."""
REQUIRED: Final = ("schema", "run", "node", "sequence", "kind", "time_ns")
"""Without one of them an object is no event."""

RAW: Final = "raw"
"""The column with the text of records that are no events."""
WHY: Final = "why"
"""The column with one of `REASONS`; events have another field `reason`."""

NULL: Final = "null"
NOT_JSON: Final = "not JSON"
CUT_OFF: Final = "cut off"
NO_OBJECT: Final = "no object"
NO_EVENT: Final = "no event"
OTHER_VERSION: Final = "other version"
REASONS: Final = MappingProxyType(
    {
        NULL: "a record without a value: a tombstone",
        NOT_JSON: "an object that is no JSON, or more than one",
        CUT_OFF: "begins as an object, and does not end: the broker was killed",
        NO_OBJECT: "does not begin as an object",
        NO_EVENT: f"one of {', '.join(REQUIRED)} is missing, or has another type",
        OTHER_VERSION: f"its schema version is not 1 to {VERSION}: newer",
    }
)
"""Reasons for quarantine."""

_ANOTHER: Final = r'\}\s*,?\s*\{\s*"schema"'
"""The beginning of a second event in a line: no field of an event is named schema."""
_BLANK: Final = " \t\r\ufeff"
"""Characters before and after a line's object; the last begins files of Windows."""


def events_schema() -> StructType:
    """The wide table of events: every field of every kind; all may be null."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(_nullable(EVENT_TYPE))


def _nullable(spark: Any) -> Any:
    """The same type as Spark's JSON has it; all that is inside may be null.

    Parquet's columns are that once they are written, and engines compare them.
    """
    if isinstance(spark, str):
        return spark
    if spark["type"] == "array":
        inner = _nullable(spark["elementType"])
        return {"type": "array", "elementType": inner, "containsNull": True}
    if spark["type"] == "map":
        return {**spark, "valueContainsNull": True}
    fields = [
        {
            "name": field["name"],
            "type": _nullable(field["type"]),
            "nullable": True,
            "metadata": {},
        }
        for field in spark["fields"]
    ]
    return {"type": "struct", "fields": fields}


def parsed(texts: DataFrame, column: str) -> DataFrame:
    """Events of their texts. Text fields take any value, as its JSON.

    Args:
        texts: has a column with one JSON object per row.
        column: its name.

    Returns:
        The other columns; those of `events_schema`; `RAW`, the text, and `WHY`, one
        of `REASONS`: both null where the row is an event. Where it is none, the columns
        of `events_schema` are null.
    """
    from pyspark.sql import functions as sql

    others = [name for name in texts.columns if name != column]
    text = sql.btrim(column, sql.lit(_BLANK))
    event = texts.select(
        *others,
        sql.ltrim(column, sql.lit("\ufeff")).alias(RAW),
        text.alias("_text"),
        sql.from_json(text, events_schema()).alias("_event"),
    ).withColumn(WHY, _why_no_event())
    is_event = sql.col(WHY).isNull()
    event = event.withColumn("_event", sql.when(is_event, sql.col("_event")))
    return upgraded(
        event.select(
            *others,
            *(f"_event.{name}" for name in _names()),
            sql.when(~is_event, sql.col(RAW)).alias(RAW),
            WHY,
        )
    )


def checked(rows: DataFrame) -> DataFrame:
    """The same as `parsed`, for rows that have types already, as Parquet's have.

    Args:
        rows: has the columns of `events_schema`, and perhaps others.
    """
    from pyspark.sql import functions as sql

    names = _names()
    others = [name for name in rows.columns if name not in names]
    text = sql.to_json(sql.struct(*names))
    is_event = sql.col(WHY).isNull()
    return upgraded(
        rows.withColumn(WHY, _what_is_missing("")).select(
            *others,
            *(sql.when(is_event, sql.col(name)).alias(name) for name in names),
            sql.when(~is_event, text).alias(RAW),
            WHY,
        )
    )


def upgraded(events: DataFrame) -> DataFrame:
    """Events of older versions of the schema as those of `VERSION`."""
    for version in sorted(UPGRADES):
        events = UPGRADES[version](events)
    return events


def _names() -> list[str]:
    return [field.name for field in events_schema().fields]


def _what_is_missing(prefix: str) -> Column:
    from pyspark.sql import functions as sql

    missing = sql.lit(False)
    for name in REQUIRED:
        missing = missing | sql.col(f"{prefix}{name}").isNull()
    # Sail takes a number that is too large for an int as a negative one.
    missing = missing | (sql.col(f"{prefix}node") < 0)
    version = sql.col(f"{prefix}schema")
    return sql.when(
        version.isNotNull() & ~version.between(1, VERSION), sql.lit(OTHER_VERSION)
    ).when(missing, sql.lit(NO_EVENT))


def _why_no_event() -> Column:
    """One of `REASONS`, or null; of a row with ``_text`` and ``_event``.

    Parsers differ in what they make of text after an object, so that is looked at here.
    """
    from pyspark.sql import functions as sql

    text = sql.col("_text")
    is_object, ends = text.startswith("{"), text.endswith("}")
    no_json = sql.try_parse_json(text).isNull()
    return (
        sql.when(text.isNull(), sql.lit(NULL))
        .when(~is_object, sql.lit(NO_OBJECT))
        .when(~ends, sql.lit(CUT_OFF))
        .when(text.rlike(_ANOTHER), sql.lit(NOT_JSON))
        .when(
            sql.col("_event.sequence").isNull() & no_json,
            sql.lit(NOT_JSON),
        )
        .otherwise(_what_is_missing("_event."))
    )
