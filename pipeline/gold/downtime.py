"""Downtime: the time for which partitions of a group with members have no reader.

The one measure of what rebalances cost, for eager and cooperative members, crashes and
restarts alike, with or without a rebalance. Its source is ``unread`` of the accounts,
without the time of Empty groups, and what follows the end of their work.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import lasting
from kohort.pipeline.silver.order import down
from kohort.pipeline.table_functions import GROUP, Frames, by

__all__ = ["down", "in_work"]


def in_work(frames: Frames) -> DataFrame:
    """Intervals in which partitions had an owner or downtime: each moment once.

    Ownership and downtime overlap: an eager member keeps the ownership of its
    partitions while it pauses. Of the intervals of a partition, in order, each adds
    the part beyond the latest end before it.

    Returns:
        run, group, from_ns, until_ns, partitions (their number).
    """
    part = (*GROUP, "topic", "partition")
    owned = lasting(frames["silver/ownership"], frames["silver/runs"]).select(
        *part, "from_ns", F.col("end_ns").alias("until_ns")
    )
    unread = down(frames).withColumn("partition", F.explode("partition_numbers"))
    before = (
        Window.partitionBy(*part)
        .orderBy("from_ns", "until_ns")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    covered_ns = F.max("until_ns").over(before)
    return (
        owned.unionByName(unread.select(*part, "from_ns", "until_ns"))
        .withColumn("covered_ns", covered_ns)
        .withColumn("from_ns", F.greatest("from_ns", "covered_ns"))
        .where("until_ns > from_ns")
        .groupBy(*by(*GROUP, "from_ns", "until_ns"))
        .agg(F.count("*").alias("partitions"))
    )
