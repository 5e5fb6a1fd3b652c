"""silver/lag_changes and silver/lags: lag, from commits.

Most events are commits. So they pass through one exchange by partition, and all that
follows is small, or has one row per event.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import (
    IN_ORDER,
    along,
    down,
    of_kinds,
    up_to_here,
)
from kohort.pipeline.table_functions import (
    GROUP,
    Frames,
    Options,
    by,
    shaped,
    together,
)

_PARTITION: Final = (*GROUP, "topic", "partition")
_OWN: Final = ("hash", *_PARTITION)
"""The same, after a hash of it: Spark compares rows by the first 8 bytes of the sort
key, and a hash's differ where the names of runs and groups do not."""

_START: Final = (*GROUP, "node", "sequence")
"""The start of a rebalance."""

_PEAK_NS: Final = 30_000_000_000
"""The time after a rebalance in which a peak of lag is taken for its doing."""
SLICE_NS: Final = 60_000_000_000
"""The lag of a group is summed up in slices of this time, each by itself. A minute has
some 100,000 commits at the most; the sums of a day's 1,440 slices are added up then."""
_SLICE: Final = (*GROUP, "slice_ns")


def lags(frames: Frames, _options: Options) -> DataFrame:
    """One row per completed rebalance whose lag is known."""
    grown = f.greatest(f.col("lag_peak") - f.col("lag_before"), f.lit(0))
    grown = f.when(f.col("lag_peak").isNotNull(), grown)
    peaks = _peaks(running_lag(frames["silver/lag_changes"])).where("lag_before >= 0")
    found = (
        frames["silver/rebalances"]
        .where(f.col("outcome") == "completed")
        .select(*_START, "number", "started_ns", "ended_ns")
        .join(peaks, [*_START], "left")
        .join(_appended(frames), [*GROUP, "number"], "left")
        .withColumn("lag_built", f.coalesce("appended", grown))
        .where("lag_built is not null")
        .withColumn(
            "worked_off_ns",
            f.when(f.col("lag_built") > 0, f.col("worked_off_ns")),
        )
        .withColumn("catch_up_ns", _catch_up_ns())
    )
    return shaped(found, "silver/lags")


def _appended(frames: Frames) -> DataFrame:
    """By rebalance: records appended to unread partitions; null: some are unknown."""
    is_known = f.count("records") == f.count("*")
    rows = down(frames).where("number is not null").groupBy(*by(*GROUP, "number"))
    return rows.agg(f.when(is_known, f.sum("records")).alias("appended"))


def _catch_up_ns() -> Column:
    late = f.col("worked_off_ns") - f.col("ended_ns")
    return f.when(late.isNotNull(), f.greatest(late, f.lit(0)))


def lag_changes(frames: Frames, _options: Options) -> DataFrame:
    """Changes of the group's lag, by event and slice of time.

    Starts of rebalances are among them: their change is null. Partitions are exchanged
    by themselves, and then slices: no task has all rows of a group.
    """
    own = along(*_OWN)
    committed = f.last("offset", ignorenulls=True).over(up_to_here(own))
    names = (*_PARTITION, *IN_ORDER, "offset", "end_offset")
    commits_ = frames["silver/commits"].where(
        "error is null and end_offset is not null"
    )
    told = (
        together(commits_.select(*names), _gap_ends(frames).select(*names))
        .withColumn("hash", f.xxhash64(*_PARTITION))
        .withColumn("committed", committed)
        .where("committed is not null")
        .withColumn(
            "lag", f.greatest(f.col("end_offset") - f.col("committed"), f.lit(0))
        )
        .withColumn("change", f.col("lag") - f.lag("lag", 1, 0).over(own))
        .select(*GROUP, *IN_ORDER, "change")
    )
    ends = frames["silver/rebalances"].select(
        *_START, (f.col("ended_ns") + _PEAK_NS).alias("peak_until_ns")
    )
    # One that is under way has no account, and ends the events of the one before.
    starts = (
        of_kinds(frames, "rebalance_started")
        .select(*GROUP, *IN_ORDER)
        .join(ends, [*_START], "left")
        .na.fill(0, ["peak_until_ns"])
    )
    time_ns = f.col("time_ns")
    found = (
        together(told, starts)
        .withColumn("slice_ns", time_ns - f.pmod(time_ns, f.lit(SLICE_NS)))
        .repartition(*_SLICE)
        .groupBy(*by(*_SLICE, *IN_ORDER))
        .agg(
            f.sum("change").alias("change"),
            f.max("peak_until_ns").alias("peak_until_ns"),
        )
    )
    return shaped(found, "silver/lag_changes")


def _gap_ends(frames: Frames) -> DataFrame:
    """The ends of the logs of partitions when they get a reader again, or an account.

    Shaped as commits without an offset; before all events of the same time.
    """
    ends = f.explode(f.arrays_zip("partition_numbers", "end_offsets")).alias("end")
    return (
        down(frames)
        .where("end_offsets is not null")
        .select(*GROUP, "topic", "until_ns", ends)
        .select(
            *(*GROUP, "topic", f.col("end.partition_numbers").alias("partition")),
            f.col("until_ns").alias("time_ns"),
            f.lit(-1).alias("node"),
            f.lit(0).cast("bigint").alias("sequence"),
            f.lit(None).cast("bigint").alias("offset"),
            f.col("end.end_offsets").alias("end_offset"),
        )
    )


def running_lag(changes: DataFrame) -> DataFrame:
    """The state at each event: sums within its slice, and the state as that began.

    Adds ``total``, the group's lag (null: unknown), and of the latest rebalance
    ``start_ns``, ``start_node`` and ``start_sequence`` (null: there was none), and
    ``until_ns``, the end of the time for its peak.
    """
    change = f.col("change")
    is_start = change.isNull()
    start = f.when(is_start, f.struct(*IN_ORDER, "peak_until_ns"))
    slices = changes.groupBy(*by(*_SLICE)).agg(
        f.sum("change").alias("of_slice"), f.max(start).alias("latest")
    )
    earlier = Window.partitionBy(*GROUP).orderBy("slice_ns")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    carried = slices.select(
        *_SLICE,
        f.sum("of_slice").over(earlier).alias("total_before"),
        f.last("latest", ignorenulls=True).over(earlier).alias("latest_before"),
    )
    so_far = up_to_here(along(*_SLICE))
    here, before = f.sum("change").over(so_far), f.col("total_before")
    known = f.coalesce(here, before).isNotNull()
    total = f.coalesce(here, f.lit(0)) + f.coalesce(before, f.lit(0))
    latest = f.last(start, ignorenulls=True).over(so_far)
    return (
        changes.join(carried, [*_SLICE])
        .withColumns(
            {
                "total": f.when(known, total),
                "latest": f.coalesce(latest, "latest_before"),
            }
        )
        .select(
            *(*GROUP, *IN_ORDER, "change", "total"),
            f.col("latest.time_ns").alias("start_ns"),
            f.col("latest.node").alias("start_node"),
            f.col("latest.sequence").alias("start_sequence"),
            f.col("latest.peak_until_ns").alias("until_ns"),
        )
    )


def _peaks(running: DataFrame) -> DataFrame:
    """A row per rebalance with a commit in the time for its peak.

    Columns: those of `_START`; lag_before: the lag at its start, -1: it was unknown;
    lag_peak: the largest; peak_ns: when it was first reached; worked_off_ns: when the
    lag was first back at lag_before after that.
    """
    total, is_start = f.col("total"), f.col("change").isNull()
    is_near = ~is_start & (f.col("time_ns") <= f.col("until_ns"))
    # The largest total, and of several events with it the first.
    back = [(-f.col(name)).alias(name) for name in IN_ORDER]
    started = running.where(f.col("start_ns").isNotNull()).withColumnsRenamed(
        {"start_node": "_node", "start_sequence": "_sequence"}
    )
    own = (*GROUP, "_node", "_sequence")
    peaks = (
        started.groupBy(*by(*own))
        .agg(
            f.max(f.when(is_start, f.coalesce(total, f.lit(-1).cast("bigint")))).alias(
                "lag_before"
            ),
            f.max(f.when(is_near, f.struct("total", *back))).alias("peak"),
        )
        .where(f.col("peak").isNotNull())
    )
    is_later = f.lit(True)
    for name in reversed(IN_ORDER):
        own_place, peak_place = f.col(name), -f.col(f"peak.{name}")
        is_later = (own_place > peak_place) | ((own_place == peak_place) & is_later)
    is_back = ~is_start & is_later & (total <= f.col("lag_before"))
    return (
        started.join(peaks, [*own])
        .groupBy(*by(*own, "lag_before", "peak"))
        .agg(f.min(f.when(is_back, f.col("time_ns"))).alias("worked_off_ns"))
        .select(
            *GROUP,
            f.col("_node").alias("node"),
            f.col("_sequence").alias("sequence"),
            "lag_before",
            f.col("peak.total").alias("lag_peak"),
            (-f.col("peak.time_ns")).alias("peak_ns"),
            "worked_off_ns",
        )
    )
