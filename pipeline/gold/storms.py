"""Storms: many rebalances of a group within a short time."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import SECOND_NS, counted
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped


def storms_of(rebalances: DataFrame, options: Options) -> DataFrame:
    """The rebalances that are in storms, and in which: ``storm`` numbers a group's.

    A stretch is k rebalances that follow each other within t. A rebalance is in a storm
    if the last stretch that began at or before it reaches to it, and in the same one as
    the rebalance before if a stretch has both. So two running frames per row
    are enough for any k.

    Returns:
        run, group, number, started_ns, cause, culprit_name, storm.
    """
    k = options.storm_rebalances
    t_ns = round(options.storm_seconds * SECOND_NS)
    in_order = Window.partitionBy(*GROUP).orderBy("number")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    kth = F.lead("started_ns", k - 1).over(in_order)
    begins_stretch = kth - F.col("started_ns") <= t_ns
    stretch = F.max(F.when(begins_stretch, F.col("row"))).over(so_far)
    has = F.col("stretch") > F.col("row") - k
    has_both = F.lag("stretch").over(in_order) > F.col("row") - k
    return (
        rebalances.select(*GROUP, "number", "started_ns", "cause", "culprit_name")
        .withColumn("row", F.row_number().over(in_order))
        .withColumn("stretch", stretch)
        .withColumn("is_in", F.coalesce(has, F.lit(False)))
        .withColumn("is_same", F.coalesce(has_both, F.lit(False)))
        .withColumn(
            "storm", F.count_if(F.col("is_in") & ~F.col("is_same")).over(so_far)
        )
        .where("is_in")
        .drop("row", "stretch", "is_in", "is_same")
    )


def storms(frames: Frames, options: Options) -> DataFrame:
    """gold/storms."""
    keys = (*GROUP, "storm")
    rows = storms_of(frames["silver/rebalances"], options)
    by_cause = rows.groupBy(*by(*keys, "cause")).agg(
        F.count("*").alias("times"),
        F.min_by("started_ns", "number").alias("from_ns"),
        F.max_by("started_ns", "number").alias("until_ns"),
        F.min("number").alias("first_number"),
        F.max("number").alias("last_number"),
    )
    of_causes = by_cause.groupBy(*by(*keys)).agg(
        F.min_by("from_ns", "first_number").alias("from_ns"),
        F.max_by("until_ns", "last_number").alias("until_ns"),
        F.min("first_number").alias("first_number"),
        F.max("last_number").alias("last_number"),
        F.sum("times").alias("rebalances"),
        counted(F.col("cause"), F.col("times")).alias("by_cause"),
    )
    first_named = rows.where("culprit_name is not null").groupBy(
        *by(*keys, "culprit_name")
    )
    names = (
        first_named.agg(F.min("number").alias("number"))
        .groupBy(*by(*keys))
        .agg(F.array_sort(F.collect_list(F.struct("number", "culprit_name"))))
        .toDF(*keys, "named")
    )
    named = F.coalesce(
        F.col("named.culprit_name"), F.array().cast("array<string>")
    ).alias("names")
    both = of_causes.join(names, [*keys], "left")
    return shaped(both.withColumn("names", named), "gold/storms")
