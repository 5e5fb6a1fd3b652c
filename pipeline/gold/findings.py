"""Findings of groups, added up by code."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import seconds
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped


def findings(frames: Frames, _options: Options) -> DataFrame:
    """gold/findings. Words and the setting are those of the costliest finding."""
    said = F.struct("title", "advice", "setting", "current", "suggested")
    rank = F.struct(
        F.coalesce("saving_ns", F.lit(-1)), "unread_ns", "evidence_count", "finding"
    )
    table = (
        frames["silver/findings"]
        .groupBy(*by(*GROUP, "code"))
        .agg(
            F.count("*").alias("findings"),
            F.count_if("is_sure").alias("sure"),
            F.sum("evidence_count").alias("cases"),
            F.min("from_ns").alias("from_ns"),
            F.max("until_ns").alias("until_ns"),
            seconds(F.sum("unread_ns")).alias("downtime_s"),
            seconds(F.sum("paused_ns")).alias("paused_s"),
            F.sum("records").alias("records"),
            seconds(F.sum("saving_ns")).alias("downtime_saved_s"),
            F.max_by(said, rank).alias("said"),
        )
        .select("*", "said.*")
    )
    return shaped(table, "gold/findings")
