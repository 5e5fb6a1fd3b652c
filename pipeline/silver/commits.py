"""silver/commits, and from them records processed twice, and lag.

Most events are commits. So they pass through one exchange by partition, and all that
follows is small, or has one row per event.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import (
    IN_ORDER,
    along,
    before_here,
    count_if,
    of_kinds,
    up_to_here,
)
from kohort.pipeline.table_functions import GROUP, Frames, Options, shaped

_PARTITION: Final = (*GROUP, "topic", "partition")
_OWN: Final = ("hash", *_PARTITION)
"""The same, after a hash of it: Spark compares rows by the first 8 bytes of the sort
key, and a hash's differ where the names of runs and groups do not."""

_START: Final = (*GROUP, "node", "sequence")
"""The start of a rebalance."""

_PEAK_NS: Final = 30_000_000_000
"""The time after a rebalance in which a peak of lag is taken for its doing."""


def commits(frames: Frames, _options: Options) -> DataFrame:
    """One row per offset of an OffsetCommit: nothing is sorted or exchanged."""
    found = (
        of_kinds(frames, "offsets_committed", "commit_refused")
        .select(
            *(*GROUP, *IN_ORDER, "member_id", "generation", "error"),
            *("client_id", "host", "connection"),
            f.coalesce("instance_id", "client_id", "member_id").alias("name"),
            f.posexplode("offsets").alias("position", "row"),
        )
        .select("*", (f.col("position") == 0).alias("is_first"), "row.*")
    )
    return shaped(found, "silver/commits")


# -- records processed twice


def reprocessed(frames: Frames, _options: Options) -> DataFrame:
    """One row per accepted commit that shows some, and way of showing it."""
    offset, is_accepted = f.col("offset"), f.col("is_accepted")
    own = along(*_OWN)
    accepted = f.when(is_accepted, offset)
    rows = (
        frames["silver/commits"]
        .select(
            *(f.xxhash64(*_PARTITION).alias("hash"), *_PARTITION, *IN_ORDER),
            *("member_id", "offset", f.col("error").isNull().alias("is_accepted")),
        )
        .withColumns(
            {
                "before": f.last(accepted, ignorenulls=True).over(before_here(own)),
                "was_refused": ~f.lag(is_accepted).over(own),
                "turn": count_if(is_accepted).over(up_to_here(own)),
            }
        )
        # Of most partitions nothing is left here.
        .where(
            f.col("before").isNotNull()
            & (~is_accepted | f.col("was_refused") | (f.col("before") > offset))
        )
    )
    # `least` passes over nulls.
    lost = f.when(
        f.col("refused_offset").isNotNull(), f.least("a.offset", "refused_offset")
    )
    records = lost - f.col("before")
    rewound = f.when(f.length("a.member_id") > 0, f.col("before") - f.col("a.offset"))
    found = (
        _turns(rows)
        .select(
            *(*_PARTITION, "a.*"),
            f.explode(
                f.array(
                    f.struct(f.lit("refused").alias("why"), records.alias("records")),
                    f.struct(f.lit("rewound").alias("why"), rewound.alias("records")),
                )
            ).alias("found"),
        )
        .select("*", "found.*")
        .where(f.col("records") > 0)
    )
    return shaped(found, "silver/reprocessed")


def _turns(rows: DataFrame) -> DataFrame:
    """Each accepted row A, with the commits of others refused since the one before.

    Columns: the partition's, before: that one's offset, a: of A, refused_offset: the
    largest offset that was refused to other member ids than A's; null: none was.
    """
    is_accepted = f.col("is_accepted")
    by_member = (
        rows.withColumn("turn", f.col("turn") - is_accepted.cast("bigint"))
        .groupBy(*_OWN, "turn", "member_id")
        .agg(
            f.max("before").alias("before"),
            f.max(
                f.when(is_accepted, f.struct(*IN_ORDER, "member_id", "offset"))
            ).alias("a"),
            f.max(f.when(~is_accepted, f.col("offset"))).alias("refused"),
        )
    )
    others = f.filter(
        f.col("all_refused"),
        lambda row: ~row["member_id"].eqNullSafe(f.col("a.member_id")),
    )
    return (
        by_member.groupBy(*_OWN, "turn")
        .agg(
            f.max("before").alias("before"),
            f.max("a").alias("a"),
            f.collect_list(f.struct("member_id", "refused")).alias("all_refused"),
        )
        .where(f.col("a").isNotNull())
        .withColumn(
            "refused_offset",
            f.array_max(f.transform(others, lambda row: row["refused"])),
        )
    )


# -- lag


def lags(frames: Frames, _options: Options) -> DataFrame:
    """One row per completed rebalance with commits before it and in it."""
    stretches = _stretches(_totals(frames))
    latest = f.max(f.struct("lag_peak", "peak_ns", "worked_off_ns")).alias("peak")
    peaks = stretches.groupBy(*_START, "lag_before").agg(latest)
    built = f.greatest(f.col("lag_peak") - f.col("lag_before"), f.lit(0))
    found = (
        frames["silver/rebalances"]
        .where(f.col("outcome") == "completed")
        .select(*_START, "number", "started_ns", "ended_ns")
        .join(peaks.select("*", "peak.*"), [*_START])
        .withColumn("lag_built", built)
        .withColumn(
            "worked_off_ns",
            f.when(f.col("lag_built") > 0, f.col("worked_off_ns")),
        )
        .withColumn("catch_up_ns", _catch_up_ns())
    )
    return shaped(found, "silver/lags")


def _catch_up_ns() -> Column:
    late = f.col("worked_off_ns") - f.col("ended_ns")
    return f.when(late.isNotNull(), f.greatest(late, f.lit(0)))


def _totals(frames: Frames) -> DataFrame:
    """Changes of the group's lag, by event.

    Starts of rebalances are among them: their change is null. One exchange, by group,
    for all that follows.
    """
    lag = f.greatest(f.col("end_offset") - f.col("offset"), f.lit(0))
    before = f.lag("lag", 1, 0).over(along(*_OWN))
    told = (
        frames["silver/commits"]
        .where(f.col("error").isNull() & f.col("end_offset").isNotNull())
        .select(*_PARTITION, *IN_ORDER, lag.alias("lag"))
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
    return (
        told.unionByName(starts, allowMissingColumns=True)
        .repartition(*GROUP)
        .withColumn("hash", f.xxhash64(*_PARTITION))
        .withColumn("change", f.col("lag") - before)
        .groupBy(*GROUP, *IN_ORDER)
        .agg(
            f.sum("change").alias("change"),
            f.max("peak_until_ns").alias("peak_until_ns"),
        )
    )


def _stretches(totals: DataFrame) -> DataFrame:
    """A row per rebalance and height: from each new largest T to the next.

    Columns: lag_before; lag_peak: the height; peak_ns: when it was first reached;
    worked_off_ns: when T was first back at lag_before, while it was the largest.

    The start grows along the order. So the largest (start, T) so far has the
    largest T of that rebalance so far, without another sort. Rows later than
    `_PEAK_NS` after it are left out there.
    """
    so_far = up_to_here(along(*GROUP))
    change, total = f.col("change"), f.col("total")
    is_near = change.isNotNull() & (f.col("time_ns") <= f.col("peak_until_ns"))
    height = f.max(f.when(is_near, f.struct("start", "total")))
    is_start = f.when(change.isNull(), f.struct(*IN_ORDER))
    # -1: there was none, which is not the same as no rebalance.
    before = f.coalesce("total", f.lit(-1).cast("bigint"))
    began = f.last(f.when(change.isNull(), before), ignorenulls=True)
    return (
        totals.withColumns(
            {
                "total": f.sum("change").over(so_far),
                "start": f.last(is_start, ignorenulls=True).over(so_far),
                "peak_until_ns": f.last("peak_until_ns", ignorenulls=True).over(so_far),
            }
        )
        .withColumns(
            {"height": height.over(so_far), "began": began.over(so_far)},
        )
        .where(change.isNotNull() & (f.col("began") >= 0))
        .where(f.col("height.start") == f.col("start"))
        .select(
            *GROUP,
            *("start.node", "start.sequence"),
            "time_ns",
            "total",
            f.col("began").alias("lag_before"),
            f.col("height.total").alias("lag_peak"),
        )
        .groupBy(*_START, "lag_before", "lag_peak")
        .agg(
            f.min("time_ns").alias("peak_ns"),
            f.min(f.when(total <= f.col("lag_before"), f.col("time_ns"))).alias(
                "worked_off_ns"
            ),
        )
    )
