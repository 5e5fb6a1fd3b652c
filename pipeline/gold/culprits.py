"""Members that caused rebalances, and members that join phases waited for."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import MEMBER, seconds
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped


def culprits(frames: Frames, options: Options) -> DataFrame:
    """gold/culprits. Without a culprit the name is null, so that the rows add up."""
    rows = frames["silver/rebalances"].groupBy(
        *by(*GROUP, "cause", F.col("culprit_name").alias("name"))
    )
    table = rows.agg(
        F.count("*").alias("rebalances"),
        seconds(F.sum(F.coalesce("duration_ns", F.lit(0)))).alias("duration_s"),
        seconds(F.sum("unread_ns")).alias("downtime_s"),
        seconds(F.sum("paused_ns")).alias("paused_s"),
    )
    return shaped(table, "gold/culprits")


def waits(frames: Frames) -> DataFrame:
    """Join phases that waited for a member, with its ``name``.

    The id stands for a member whose membership was not seen.
    """
    names = frames["silver/memberships"].select(*MEMBER, F.col("name").alias("known"))
    return (
        frames["silver/rebalances"]
        .where("waited_for is not null")
        .withColumnRenamed("waited_for", "member_id")
        .join(names, [*MEMBER], "left")
        .withColumn("name", F.coalesce("known", "member_id"))
        .drop("known")
    )


def waited_for(frames: Frames, options: Options) -> DataFrame:
    """gold/waited_for."""
    table = (
        waits(frames)
        .groupBy(*by(*GROUP, "name"))
        .agg(
            F.count("*").alias("rebalances"),
            seconds(F.sum("waited_ns")).alias("waited_s"),
            seconds(F.max("waited_ns")).alias("waited_max_s"),
        )
    )
    return shaped(table, "gold/waited_for")
