"""Rebalances by their causes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import durations, hour_of, seconds
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped


def causes(frames: Frames, options: Options) -> DataFrame:
    """gold/causes."""
    is_completed = F.col("outcome") == "completed"
    rows = frames["silver/rebalances"].groupBy(
        *by(*GROUP, hour_of("started_ns").alias("hour"), "cause")
    )
    table = rows.agg(
        F.count("*").alias("rebalances"),
        F.count_if(is_completed).alias("completed"),
        *durations(is_completed),
        seconds(F.sum("unread_ns")).alias("downtime_s"),
        seconds(F.sum("paused_ns")).alias("paused_s"),
    )
    return shaped(table, "gold/causes")
