"""Findings: the latest revision of each, as the broker published it.

The broker judges; these tables only keep, add up and compare. Its rules are in
docs/reference/why.md.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import of_kinds
from kohort.pipeline.table_functions import GROUP, Frames, Options, shaped


def findings(frames: Frames, _options: Options) -> DataFrame:
    """One row per finding that was not withdrawn."""
    latest = Window.partitionBy(*GROUP, "finding").orderBy(
        f.col("revision").desc(), f.col("time_ns").desc(), "node", "sequence"
    )
    found = (
        of_kinds(frames, "finding")
        .withColumn("place", f.row_number().over(latest))
        .where("place = 1 and not is_withdrawn")
        .withColumnsRenamed({"since_ns": "from_ns"})
    )
    return shaped(found, "silver/findings")
