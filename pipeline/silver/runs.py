"""silver/runs: extent and labels of each run."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kohort.pipeline.table_functions import EVENTS, Frames, Options, by, shaped


def runs(frames: Frames, _options: Options) -> DataFrame:
    """One row per run.

    The labels are those of the first event of each node, the first node's first:
    all events of a run have the same.
    """
    events = frames[EVENTS]
    nodes = events.groupBy(*by("run", "node", "group")).agg(
        f.min("time_ns").alias("first_ns"),
        f.max("time_ns").alias("last_ns"),
        f.min("sequence").alias("sequence"),
        f.count(f.lit(1)).alias("events"),
    )
    totals = nodes.groupBy(*by("run")).agg(
        f.min("first_ns").alias("first_ns"),
        f.max("last_ns").alias("last_ns"),
        f.sum("events").alias("events"),
        f.sort_array(f.collect_set("node")).alias("nodes"),
        f.count_distinct("group").alias("groups"),
    )
    firsts = nodes.groupBy(*by("run", "node")).agg(f.min("sequence").alias("sequence"))
    labels = (
        events.select("run", "node", "sequence", "labels")
        .join(f.broadcast(firsts), ["run", "node", "sequence"])
        .groupBy(*by("run"))
        .agg(f.min_by("labels", "node").alias("labels"))
    )
    found = totals.join(labels, "run", "left").withColumns(
        {
            "scenario": f.col("labels")["scenario"],
            "seed": f.col("labels")["seed"],
        }
    )
    return shaped(found, "silver/runs")
