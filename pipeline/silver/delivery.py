"""silver/delivery: records that were sent again or skipped, and commits that went back.

The broker keeps the account of delivery, and publishes what is new in it as events.
Nothing of it is computed here again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kohort.pipeline.silver.accounts import named
from kohort.pipeline.silver.order import IN_ORDER, of_kinds
from kohort.pipeline.table_functions import GROUP, Frames, Options, shaped, together


def delivery(frames: Frames, _options: Options) -> DataFrame:
    """One row per row of a delivery_account, and of an offsets_went_back."""
    again = _rows(frames, "delivery_account", "again").withColumns(
        {
            "what": f.when(f.col("is_certain"), "again_certain").otherwise(
                "again_possible"
            ),
            "reason": f.col("reason_again"),
            "member_id": f.col("reader"),
            "previous_id": f.col("previous_reader"),
        }
    )
    skips = _rows(frames, "delivery_account", "skips").withColumns(
        {
            "what": f.lit("skipped"),
            "reason": f.col("reason_skipped"),
            "member_id": f.col("reader"),
        }
    )
    rewinds = _rows(frames, "offsets_went_back", "rewinds").withColumns(
        {
            "what": f.lit("went_back"),
            "reason": f.col("cause"),
            "first": f.col("offset"),
            "end": f.col("previous_offset"),
        }
    )
    found = named(together(again, skips, rewinds), frames)
    name = f.coalesce("name", "client_id")
    return shaped(found.withColumn("name", name), "silver/delivery")


def _rows(frames: Frames, kind: str, field: str) -> DataFrame:
    """The rows of a field of events, with the events' columns."""
    common = (*GROUP, *IN_ORDER, "cause", "member_id", "client_id")
    return (
        of_kinds(frames, kind)
        .select(*common, f.posexplode(field).alias("position", "row"))
        .select(*common, "position", "row.*")
    )
