"""Savings of the initial delay (KIP-134): the same seed with and without it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import seconds
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped

DELAY: Final = "group.initial.rebalance.delay.ms"


def initial_delay(frames: Frames, options: Options) -> DataFrame:
    """gold/initial_delay."""
    labelled = _labelled(frames)
    with_ = labelled.where("delay_ms > 0")
    without = labelled.where("delay_ms = 0").drop("scenario", "seed", "delay_ms")
    pairs = with_.withColumnRenamed("run", "run_with").join(
        without.withColumnRenamed("run", "run_without"), "others"
    )
    runs = _groups(frames)
    table = pairs.join(_side(runs, "with"), "run_with").join(
        _side(runs, "without"), ["run_without", "group"]
    )
    for name, unit in (("rebalances", ""), ("downtime", "_s")):
        saved = F.col(f"{name}_without{unit}") - F.col(f"{name}_with{unit}")
        table = table.withColumn(f"{name}_saved{unit}", saved)
    later = F.col("first_assignment_with_s") - F.col("first_assignment_without_s")
    return shaped(table.withColumn("later_s", later), "gold/initial_delay")


def _labelled(frames: Frames) -> DataFrame:
    """Runs that can be in a pair, with ``others``: all labels but the delay's.

    As a list in order, as maps cannot be compared.
    """
    delay = F.try_element_at("labels", F.lit(DELAY)).try_cast("bigint")
    others = F.map_filter("labels", lambda key, _: key != DELAY)
    return (
        frames["silver/runs"]
        .where("scenario is not null and seed is not null")
        .select(
            "run",
            "scenario",
            "seed",
            delay.alias("delay_ms"),
            F.array_sort(F.map_entries(others)).alias("others"),
        )
        .where("delay_ms >= 0")
    )


def _groups(frames: Frames) -> DataFrame:
    """Groups of runs: the cost of their rebalances, and the time to an assignment."""
    came = (
        frames["silver/memberships"]
        .groupBy(*by(*GROUP))
        .agg(F.min("from_ns").alias("came_ns"))
    )
    assigned = (
        frames["silver/rebalances"]
        .where("outcome = 'completed'")
        .groupBy(*by(*GROUP))
        .agg(F.min("ended_ns").alias("assigned_ns"))
    )
    took = seconds(F.col("assigned_ns") - F.col("came_ns"))
    return (
        frames["gold/groups"]
        .select(*GROUP, "rebalances", "downtime_s")
        .join(came, [*GROUP], "left")
        .join(assigned, [*GROUP], "left")
        .withColumn("first_assignment_s", took)
    )


def _side(groups: DataFrame, side: str) -> DataFrame:
    return groups.select(
        F.col("run").alias(f"run_{side}"),
        "group",
        F.col("rebalances").alias(f"rebalances_{side}"),
        F.col("downtime_s").alias(f"downtime_{side}_s"),
        F.col("first_assignment_s").alias(f"first_assignment_{side}_s"),
    )
