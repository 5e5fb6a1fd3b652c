"""Rebalances by their causes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from kohort.pipeline.gold.columns import (
    GROUP,
    REBALANCE,
    durations,
    hour_of,
    lasting,
    seconds,
    shaped,
)
from kohort.pipeline.makers import Frames, Options
from kohort.pipeline.tables import BY_PATH


def with_stand_still(frames: Frames) -> DataFrame:
    """Rebalances with ``stand_still_ns``: of all stand-stills with their numbers.

    Whole: those that last count up to the run's end. 0 where there is none.
    """
    still = (
        lasting(frames["silver/stand_stills"], frames["silver/runs"])
        .groupBy(*REBALANCE)
        .agg(F.sum(F.col("end_ns") - F.col("from_ns")).alias("stand_still_ns"))
    )
    return (
        frames["silver/rebalances"]
        .join(still, [*REBALANCE], "left")
        .withColumn("stand_still_ns", F.coalesce("stand_still_ns", F.lit(0)))
    )


def causes(frames: Frames, options: Options) -> DataFrame:  # noqa: ARG001 - a maker
    """gold/causes."""
    is_completed = F.col("outcome") == "completed"
    rows = with_stand_still(frames).groupBy(
        *GROUP, hour_of("started_ns").alias("hour"), "cause"
    )
    table = rows.agg(
        F.count("*").alias("rebalances"),
        F.count_if(is_completed).alias("completed"),
        *durations(is_completed),
        seconds(F.sum("stand_still_ns")).alias("stand_still_s"),
    )
    return shaped(table, BY_PATH["gold/causes"])
