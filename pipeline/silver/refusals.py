"""silver/refusals: refused joins, and members removed because the group was full."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import of_kinds
from kohort.pipeline.table_functions import Frames, Options, shaped


def refusals(frames: Frames, _options: Options) -> DataFrame:
    """One row per refused JoinGroup, and per member that was one too many."""
    kind, cause = f.col("kind"), f.col("cause")
    found = (
        of_kinds(frames, "member_refused", "member_kicked")
        .where(
            (kind == "member_refused") | cause.isin("full", "group_over_max_size"),
        )
        .withColumn("name", f.coalesce("instance_id", "client_id", "member_id"))
    )
    return shaped(found, "silver/refusals")
