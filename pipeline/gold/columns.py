"""Expressions that the tables of gold share. All are native: none runs Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.table_functions import GROUP

SECOND_NS: Final = 1_000_000_000
HOUR_NS: Final = 3600 * SECOND_NS


def hour_index(column: str) -> Column:
    """The hours from the epoch to a time in ns, in whole numbers, also before it."""
    return F.expr(f"(`{column}` - pmod(`{column}`, {HOUR_NS}L)) div {HOUR_NS}L")


def hour_of(column: str) -> Column:
    """The beginning of the hour (UTC) that a time in ns is in, as timestamp.

    Made from seconds since the epoch, so that no session's time zone matters.
    """
    return F.timestamp_seconds(hour_index(column) * 3600)


def seconds(ns: Column) -> Column:
    """Nanoseconds as seconds, a double."""
    return ns.cast("double") / float(SECOND_NS)


def nanoseconds(seconds_: Column) -> Column:
    """The nanoseconds that `seconds` was made from, as decimal.

    Sums of doubles depend on the order of their rows, which a cluster does not keep;
    sums of these do not, so that a rebuild gives the same bits. Decimal: 2,000 members
    for 60 days are more ns than a long holds.
    """
    return F.round(seconds_ * float(SECOND_NS)).cast("decimal(28,0)")


def counted(key: Column, count: Column) -> Column:
    """An aggregate: a map from keys to numbers, keys in order; null where it is empty.

    Keys are different already, and null is none: maps cannot have it.
    """
    entry = F.when(key.isNotNull(), F.struct(key.alias("key"), count.alias("value")))
    entries = F.collect_list(entry)
    return F.when(F.size(entries) > 0, F.map_from_entries(F.array_sort(entries)))


def at_hour(frame: DataFrame, column: str, keys: Sequence[str]) -> DataFrame:
    """The frame with the hour of a time, where the keys have an hour."""
    return frame.withColumn("hour", hour_of(column)) if "hour" in keys else frame


def lasting(intervals: DataFrame, runs: DataFrame) -> DataFrame:
    """Intervals with ``end_ns``: until when they count, at most up to the run's end."""
    ends = runs.select("run", F.col("last_ns").alias("run_end_ns"))
    return intervals.join(F.broadcast(ends), "run").withColumn(
        "end_ns", F.coalesce("until_ns", "run_end_ns")
    )


def clipped(
    intervals: DataFrame, runs: DataFrame, weight: Column | None = None, *more: Column
) -> DataFrame:
    """Intervals cut at the hours: (run, group, hour, ns, more columns), ns above 0.

    An interval of a thousand hours is a thousand rows, made beside each other. ``ns``
    is multiplied by the weight.
    """
    times = F.lit(1) if weight is None else weight
    spans = intervals.select(
        *GROUP, "from_ns", "until_ns", times.alias("weight"), *more
    )
    whole = (
        lasting(spans, runs)
        .where("end_ns > from_ns")
        .withColumn("last_in_ns", F.col("end_ns") - 1)
    )
    hours = F.sequence(hour_index("from_ns"), hour_index("last_in_ns"))
    starts = F.col("index") * F.lit(HOUR_NS)
    part = F.least("end_ns", starts + HOUR_NS) - F.greatest("from_ns", starts)
    return whole.withColumn("index", F.explode(hours)).select(
        *GROUP,
        F.timestamp_seconds(F.col("index") * 3600).alias("hour"),
        (part * F.col("weight")).alias("ns"),
        *more,
    )


def durations(completed: Column) -> tuple[Column, ...]:
    """Aggregates: three percentiles of duration_ns where completed, in seconds.

    Exact, interpolated linearly between the two neighbours; null of nothing.
    """
    values = F.when(completed, F.col("duration_ns"))
    of = F.percentile(values, F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)))
    names = ("duration_p50_s", "duration_p95_s", "duration_p99_s")
    # Of whole numbers, a percentile has two decimals: the rest depends on the engine.
    return tuple(seconds(F.round(of[i], 2)).alias(name) for i, name in enumerate(names))
