"""silver/ownership: which member has which partition, from when to when."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import IN_ORDER, before_here, of_kinds
from kohort.pipeline.table_functions import GROUP, Frames, Options, shaped

_PARTITION: Final = (*GROUP, "topic", "partition")


def ownership(frames: Frames, _options: Options) -> DataFrame:
    """One row per time that a member had a partition."""
    members = frames["silver/memberships"].select(*GROUP, "member_id", "owner", "name")
    found = (
        _begun(_steps(frames))
        .join(members, [*GROUP, "member_id"], "left")
        .withColumnsRenamed(
            {
                "time_ns": "from_ns",
                "node": "from_node",
                "sequence": "from_sequence",
                "cause": "began",
            }
        )
    )
    return shaped(found, "silver/ownership")


def _steps(frames: Frames) -> DataFrame:
    """A row per partition that an event lists as gained, lost or loaded."""
    loaded = f.when(f.col("cause") == "loaded", f.col("owned"))
    lists = [
        f.struct(f.lit(step).alias("step"), parts.alias("parts"))
        for step, parts in (
            ("gained", f.col("partitions_gained")),
            ("lost", f.col("partitions_lost")),
            ("loaded", loaded),
        )
    ]
    return (
        of_kinds(frames, "partitions_changed")
        .select(
            *(*GROUP, *IN_ORDER, "cause", "member_id"),
            f.explode(f.array(*lists)).alias("list"),
        )
        .select("*", "list.step", f.explode("list.parts").alias("part"))
        .select("*", "part.topic", f.explode("part.partitions").alias("partition"))
        .drop("list", "part")
    )


def _begun(steps: DataFrame) -> DataFrame:
    """The steps that begin an ownership, with the time of its end.

    Along the reversed order: the next loss is the last one so far.
    """
    reversed_ = Window.partitionBy(*_PARTITION, "member_id").orderBy(
        *(f.col(name).desc() for name in IN_ORDER)
    )
    step = f.col("step")
    lost_ns = f.last(f.when(step == "lost", f.col("time_ns")), ignorenulls=True)
    is_new = f.coalesce(f.col("step_before") == "lost", f.lit(True))
    return (
        steps.withColumns(
            {
                "until_ns": lost_ns.over(before_here(reversed_)),
                "step_before": f.lead("step").over(reversed_),
            }
        )
        .where((step == "gained") | ((step == "loaded") & is_new))
        .drop("step", "step_before")
    )
