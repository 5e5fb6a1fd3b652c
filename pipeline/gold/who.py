"""Who made groups rebalance, and for whom they waited."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from kohort.pipeline.gold.causes import with_stand_still
from kohort.pipeline.gold.columns import GROUP, MEMBER, seconds, shaped
from kohort.pipeline.makers import Frames, Options
from kohort.pipeline.tables import BY_PATH


def culprits(frames: Frames, options: Options) -> DataFrame:  # noqa: ARG001 - a maker
    """gold/culprits. Where nobody is named the name is null, so that they add up."""
    rows = with_stand_still(frames).groupBy(
        *GROUP, "cause", F.col("culprit_name").alias("name")
    )
    table = rows.agg(
        F.count("*").alias("rebalances"),
        seconds(F.sum(F.coalesce("duration_ns", F.lit(0)))).alias("duration_s"),
        seconds(F.sum("stand_still_ns")).alias("stand_still_s"),
    )
    return shaped(table, BY_PATH["gold/culprits"])


def waits(frames: Frames) -> DataFrame:
    """Join phases that waited for somebody, with the ``name`` of who it was.

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


def waited_for(frames: Frames, options: Options) -> DataFrame:  # noqa: ARG001 - a maker
    """gold/waited_for."""
    table = (
        waits(frames)
        .groupBy(*GROUP, "name")
        .agg(
            F.count("*").alias("rebalances"),
            seconds(F.sum("waited_ns")).alias("waited_s"),
            seconds(F.max("waited_ns")).alias("waited_max_s"),
        )
    )
    return shaped(table, BY_PATH["gold/waited_for"])
