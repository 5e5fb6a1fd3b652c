"""Reads the inputs of an ingest by Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from kohort.pipeline.bronze.columns import (
    ARRIVED,
    SOURCE,
    bronze_schema,
    quarantine_schema,
)
from kohort.pipeline.bronze.inputs import Taken, UnreadError
from kohort.pipeline.bronze.reading import quarantined
from kohort.pipeline.event_schema import RAW, WHY, checked, events_schema, parsed
from kohort.pipeline.failures import text_of, unread_file
from kohort.pipeline.files import PARQUET, File
from kohort.pipeline.lake import pattern_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def take(
    spark: SparkSession,
    files: Sequence[File],
    base: str,
    at: datetime,
    progress: Callable[[str], None],
) -> Taken:
    """See `kohort.pipeline.bronze.inputs.Take`."""
    with _reading(files):
        rows = _rows(spark, files, at)
        events, bad = _write(rows, f"{base}/events")
        if not bad:
            return events, {}
        progress("putting aside records that are no events")
        return events, _write_quarantine(spark, rows, f"{base}/quarantine")


@contextlib.contextmanager
def _reading(files: Sequence[File]) -> Iterator[None]:
    """Names the file at which Spark has given up a job, if it is one of these."""
    try:
        yield
    except Exception as error:
        path, why = unread_file(text_of(error)) or ("", "")
        if all(file.path != path for file in files):  # no input's fault
            raise
        raise UnreadError(path, why) from error


def _write(rows: DataFrame, uri: str) -> tuple[int, int]:
    """Writes all events, duplicates included; counts events and other records."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    is_event = sql.col(WHY).isNull()
    seen = Observation()
    observed = rows.observe(
        seen,
        sql.count_if(is_event).alias("events"),
        sql.count_if(~is_event).alias("bad"),
    )
    observed.filter(is_event).drop(RAW, WHY).write.parquet(uri)
    counted = seen.get
    return int(counted["events"]), int(counted["bad"])


def _write_quarantine(spark: SparkSession, rows: DataFrame, uri: str) -> dict[str, int]:
    """Called only if there are bad records: it reads all files a second time."""
    quarantined(rows.filter(f"{WHY} is not null")).write.parquet(uri)
    back = spark.read.schema(quarantine_schema()).parquet(uri)
    counts = back.groupBy("reason").count().collect()
    return {row["reason"]: row["count"] for row in counts}


def _rows(spark: SparkSession, files: Sequence[File], at: datetime) -> DataFrame:
    """All records of the files: columns of bronze, `RAW` and `WHY`."""
    from pyspark.sql import functions as sql

    read = spark.read
    paths = [pattern_of(each.path) for each in files]
    parquet = [each for each in paths if each.endswith(PARQUET)]
    texts = [each for each in paths if not each.endswith(PARQUET)]
    parts: list[DataFrame] = []
    if texts:
        lines = read.text(texts).filter(sql.length(sql.trim("value")) > 0)
        parts.append(parsed(lines.select("value", _source().alias(SOURCE)), "value"))
    if parquet:
        rows = read.schema(events_schema()).parquet(*parquet)
        parts.append(checked(rows.select("*", _source().alias(SOURCE))))
    everything = reduce(lambda a, b: a.unionByName(b), parts)
    arrived = sql.lit(at).cast("timestamp").alias(ARRIVED)
    names = [field.name for field in bronze_schema().fields if field.name != ARRIVED]
    return everything.select(*names, arrived, RAW, WHY)


def _source() -> Column:
    """The path of a row's file, as in the ledger."""
    from pyspark.sql import functions as sql

    uri, most = sql.col("_metadata.file_path"), 2**31 - 1
    # The URI of a local file has one slash, or three.
    path = (
        sql.when(uri.startswith("file:///"), uri.substr(len("file:///"), most))
        .when(uri.startswith("file:/"), uri.substr(len("file:/"), most))
        .otherwise(uri)
    )
    decoded = sql.try_url_decode(sql.replace(path, sql.lit("+"), sql.lit("%2B")))
    # Decoding runs for every row, and most paths do not need it.
    return sql.when(path.contains("%"), decoded).otherwise(path)
