"""silver/lag_changes and silver/lags: lag, from commits.

Most events are commits, and T is summed up along them, see the tables. So that no task
has all commits of a group, and none is sorted or joined with names:

1. by partition, each commit becomes a change of the group's lag;
2. by minute, each event gets the sum of the changes so far, and its place;
3. the sums of whole minutes, few, are carried on to the minutes after them;
4. of each rebalance, one pass finds the peak, and one the end of its lag.

Windows are partitioned by hashes alone: engines compare one number in place of names. A
collision among a million of them has the chance 1 : 40,000,000.
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
_NUMBER: Final = (*GROUP, "number")
_START: Final = (*GROUP, "start")
"""The events of a rebalance."""
_PEAK_NS: Final = 30_000_000_000
"""The time after a rebalance in which a peak of lag is taken for its doing."""
SLICE_NS: Final = 60_000_000_000
"""The lag of a group is summed up in slices of this time, each by itself. A minute has
some 100,000 commits at the most; the sums of a day's 1,440 slices are added up then."""
_SLICE: Final = (*GROUP, "slice_ns")
_LONG: Final = 2**63 - 1
"""More than any place."""


# Not SQL: a test looks at how the running sums in the middle of it are divided.
def lags(frames: Frames, _options: Options) -> DataFrame:
    """One row per completed rebalance whose lag is known."""
    grown = f.greatest(f.col("lag_peak") - f.col("lag_before"), f.lit(0))
    grown = f.when(f.col("lag_peak").isNotNull(), grown)
    found = (
        frames["silver/rebalances"]
        .where(f.col("outcome") == "completed")
        .select(*GROUP, "number", "started_ns", "ended_ns")
        .join(_peaks(running_lag(frames["silver/lag_changes"])), [*_NUMBER], "left")
        .join(_appended(frames), [*_NUMBER], "left")
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
    rows = down(frames).where("number is not null").groupBy(*by(*_NUMBER))
    return rows.agg(f.when(is_known, f.sum("records")).alias("appended"))


def _catch_up_ns() -> Column:
    late = f.col("worked_off_ns") - f.col("ended_ns")
    return f.when(late.isNotNull(), f.greatest(late, f.lit(0)))


# Not SQL: it says by which column its rows are exchanged, once for three steps.
def lag_changes(frames: Frames, _options: Options) -> DataFrame:
    """Sums of changes of the group's lag, by event, within slices of time."""
    time_ns = f.col("time_ns")
    events = (
        together(_changes(frames), _starts(frames))
        .withColumn("slice_ns", time_ns - f.pmod(time_ns, f.lit(SLICE_NS)))
        .withColumn("hash", f.xxhash64(*_SLICE))
        .repartition("hash")
        .groupBy(*by("hash", *_SLICE, *IN_ORDER))
        .agg(
            *(f.max(name).alias(name) for name in ("start", "number", "peak_until_ns")),
            f.sum("change").alias("change"),
        )
    )
    in_order = along("hash")
    so_far = up_to_here(in_order)
    found = events.select(
        *(*_SLICE, "time_ns", "number"),
        # A minute has more ns than events.
        (f.col("slice_ns") + f.row_number().over(in_order)).alias("place"),
        f.sum("change").over(so_far).alias("lag"),
        f.max("start").over(so_far).alias("start"),
        f.last("peak_until_ns", ignorenulls=True).over(so_far).alias("peak_until_ns"),
    )
    return shaped(found, "silver/lag_changes")


def _changes(frames: Frames) -> DataFrame:
    """Changes of the group's lag, by partition."""
    own = along("hash")
    committed = f.last("offset", ignorenulls=True).over(up_to_here(own))
    names = (*_PARTITION, *IN_ORDER, "offset", "end_offset")
    commits = frames["silver/commits"].where("error is null and end_offset is not null")
    return (
        together(commits.select(*names), _gap_ends(frames).select(*names))
        .select(
            *(*GROUP, *IN_ORDER, "offset", "end_offset"),
            f.xxhash64(*_PARTITION).alias("hash"),
        )
        .withColumn("committed", committed)
        .where("committed is not null")
        .withColumn(
            "lag", f.greatest(f.col("end_offset") - f.col("committed"), f.lit(0))
        )
        .withColumn("change", f.col("lag") - f.lag("lag", 1, 0).over(own))
        .select(*GROUP, *IN_ORDER, "change")
    )


def _starts(frames: Frames) -> DataFrame:
    """The starts of rebalances, numbered.

    One that is under way has no account, and ends the events of the one before. A later
    epoch of a group that is Assigning belongs to the rebalance before (KIP-848).
    """
    own = (*GROUP, "node", "sequence")
    accounts = frames["silver/rebalances"].select(
        *(*own, "number"), (f.col("ended_ns") + _PEAK_NS).alias("peak_until_ns")
    )
    return (
        of_kinds(frames, "rebalance_started")
        .select(*GROUP, *IN_ORDER, "previous_state")
        .join(accounts, [*own], "left")
        .where("number is not null or coalesce(previous_state, '') <> 'Assigning'")
        .drop("previous_state")
        .withColumn("start", f.row_number().over(along(*GROUP)))
        .na.fill(0, ["number", "peak_until_ns"])
    )


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
    ``start`` (null: there was none) and ``until_ns``, the end of the time for its peak.
    """
    slices = changes.groupBy(*by(*_SLICE)).agg(
        f.max_by("lag", "place").alias("of_slice"),
        f.max("start").alias("latest"),
        f.max_by("peak_until_ns", "start").alias("until"),
    )
    earlier = Window.partitionBy(*GROUP).orderBy("slice_ns")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    carried = slices.select(
        *_SLICE,
        f.sum("of_slice").over(earlier).alias("lag_before"),
        f.max("latest").over(earlier).alias("start_before"),
        f.last("until", ignorenulls=True).over(earlier).alias("until_before"),
    )
    here, before = f.col("lag"), f.col("lag_before")
    total = f.coalesce(here + before, here, before)
    return changes.join(carried, [*_SLICE]).select(
        *(*GROUP, "place", "time_ns", "number", total.alias("total")),
        f.coalesce("start", "start_before").alias("start"),
        f.coalesce("peak_until_ns", "until_before").alias("until_ns"),
    )


def _peaks(running: DataFrame) -> DataFrame:
    """A row per rebalance with a commit in the time for its peak, and with lag before.

    Columns: run, group, number; lag_before: the lag at its start; lag_peak: the
    largest; peak_ns: when it was first reached; worked_off_ns: when the lag was first
    back at lag_before after that.
    """
    total, place, time_ns = f.col("total"), f.col("place"), f.col("time_ns")
    is_start = f.col("number").isNotNull()
    events = running.where("start is not null")
    near = f.when(~is_start & (time_ns <= f.col("until_ns")), total)
    # The largest lag, and of several events with it the first.
    rank = _ranked(near) - place
    peaks = (
        events.groupBy(*by(*_START))
        .agg(
            f.max("number").alias("number"),
            f.max(f.when(is_start, total)).alias("lag_before"),
            f.max(near).alias("lag_peak"),
            f.max(rank).alias("rank"),
        )
        .where("number > 0 and lag_peak is not null and lag_before is not null")
    )
    peak_place = (_ranked(f.col("lag_peak")) - f.col("rank")).cast("bigint")
    peaks = peaks.withColumn("peak_place", peak_place).drop("rank")
    is_back = (place >= f.col("peak_place")) & (total <= f.col("lag_before"))
    return (
        events.where(~is_start)
        .drop("number")
        .join(f.broadcast(peaks), [*_START])
        .groupBy(*by(*_NUMBER, "lag_before", "lag_peak"))
        .agg(
            f.min(f.when(place == f.col("peak_place"), time_ns)).alias("peak_ns"),
            f.min(f.when(is_back, time_ns)).alias("worked_off_ns"),
        )
    )


def _ranked(lag: Column) -> Column:
    """A lag as a number from which places can be taken without reaching a lower lag."""
    return lag.cast("decimal(19,0)") * f.lit(_LONG).cast("decimal(19,0)")
