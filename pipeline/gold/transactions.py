"""Transactions by hour, and of whole runs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import counted, hour_of, seconds
from kohort.pipeline.table_functions import Frames, Options, by, shaped


def transactions(frames: Frames, options: Options) -> DataFrame:
    """gold/transactions: each transaction counts in its hour, and in its run."""
    whole_run = F.lit(None).cast("timestamp")
    rows = frames["silver/transactions"].withColumn(
        "hour", F.explode(F.array(hour_of("from_ns"), whole_run))
    )
    keys = ("run", "hour")
    of = F.percentile("open_ns", F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)))
    totals = rows.groupBy(*by(*keys)).agg(
        F.count("*").alias("transactions"),
        F.count_distinct("transactional_id").alias("transactional_ids"),
        F.count_if(F.col("result") == "committed").alias("committed"),
        F.count_if(F.col("result") == "aborted").alias("aborted"),
        F.count_if(F.col("result").isNull()).alias("undecided"),
        *(
            seconds(F.round(of[i], 2)).alias(name)
            for i, name in enumerate(("open_p50_s", "open_p95_s", "open_p99_s"))
        ),
        seconds(F.max("open_ns")).alias("open_max_s"),
        F.sum("held_back").alias("held_back"),
        F.max("held_back").alias("held_back_max"),
    )
    causes = (
        rows.where("result = 'aborted'")
        .groupBy(*by(*keys, "cause"))
        .agg(F.count("*").alias("times"))
        .groupBy(*by(*keys))
        .agg(counted(F.col("cause"), F.col("times")).alias("aborts_by_cause"))
    )
    # The hour of a whole run is null, and equals no other in a usual join.
    same = F.col("run").eqNullSafe(F.col("cause_run")) & F.col("hour").eqNullSafe(
        F.col("cause_hour")
    )
    both = totals.join(
        causes.withColumnsRenamed({key: f"cause_{key}" for key in keys}), same, "left"
    )
    return shaped(both, "gold/transactions")
