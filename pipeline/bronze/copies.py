"""Copies of one event in several sources.

Sequence numbers have no gaps, so a bit per number tells cheaply whether an event is
there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from kohort.pipeline.bronze.columns import ARRIVED, LOST, SOURCE
from kohort.pipeline.event_schema import IDENTITY
from kohort.pipeline.table_functions import by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def of_runs(rows: DataFrame, runs: Sequence[str]) -> DataFrame:
    """The rows of these runs."""
    from pyspark.sql import functions as sql

    return rows.filter(sql.col("run").isin([*runs]))


def statistics(rows: DataFrame) -> DataFrame:
    """Counts of each run's node; a bit per number marks the different ones.

    ``numbers`` are different ones, also of events that are missing; ``events`` are
    those that are there. See `identities` for the others.
    """
    from pyspark.sql import functions as sql

    number = sql.col("sequence")
    bits = sql.bitmap_construct_agg(sql.bitmap_bit_position(number))
    lost = sql.col("kind") == LOST
    losses = sql.when(lost, sql.struct("first", "last"))
    buckets = rows.groupBy(
        *by("run", "node", sql.bitmap_bucket_number(number).alias("b"))
    )
    return (
        buckets.agg(
            sql.count("*").alias("rows"),
            sql.bitmap_count(bits).alias("numbers"),
            sql.bitmap_count(
                sql.bitmap_construct_agg(
                    sql.when(~lost, sql.bitmap_bit_position(number))
                )
            ).alias("events"),
            sql.min(number).alias("first"),
            sql.max(number).alias("last"),
            sql.collect_set(losses).alias("losses"),
        )
        .withColumn(
            "announced",
            sql.aggregate(
                "losses",
                sql.lit(0).cast("long"),
                lambda sum_, each: sum_ + each["last"] - each["first"] + 1,
            ),
        )
        .groupBy(*by("run", "node"))
        .agg(
            *(
                sql.sum(name).alias(name)
                for name in ("rows", "numbers", "events", "announced")
            ),
            sql.min("first").alias("first"),
            sql.max("last").alias("last"),
        )
    )


def once(rows: DataFrame) -> DataFrame:
    """One row per identity: the event rather than the notice of its loss."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    order = (
        sql.col("kind") == LOST,
        sql.col("first"),
        sql.col(ARRIVED),
        sql.col(SOURCE),
    )
    window = Window.partitionBy(*IDENTITY).orderBy(*order)
    numbered = rows.withColumn("_copy", sql.row_number().over(window))
    return numbered.filter("_copy = 1").drop("_copy")


def not_in(rows: DataFrame, there: DataFrame) -> DataFrame:
    """Rows whose event is not stored; a stored events_lost is not that event."""
    from pyspark.sql import functions as sql

    known = there.select(
        *(sql.col(name).alias(f"_{name}") for name in IDENTITY),
        (sql.col("kind") == LOST).alias("_lost"),
    )
    same = reduce(
        lambda a, b: a & b,
        (sql.col(name).eqNullSafe(sql.col(f"_{name}")) for name in IDENTITY),
    )
    as_good = (sql.col("kind") == LOST) | ~sql.col("_lost")
    return rows.join(known, same & as_good, "left_anti")
