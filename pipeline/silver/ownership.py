"""silver/ownership: which member has which partition, from when to when."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.makers import Frames, Options
from kohort.pipeline.silver.order import (
    GROUP,
    IN_ORDER,
    along,
    before_here,
    count_if,
    of_kinds,
    shaped,
    up_to_here,
)

_CHANGED: Final = "partitions_changed"
_STARTED: Final = "rebalance_started"
_PARTITION: Final = (*GROUP, "topic", "partition")


def ownership(frames: Frames, _options: Options) -> DataFrame:
    """One row per time that a member had a partition."""
    members = frames["silver/memberships"].select(
        *(*GROUP, "member_id", "owner", "name", "how", "silent_ns"),
        f.col("until_ns").alias("gone_ns"),
    )
    steps = _steps(_numbered(frames).join(members, [*GROUP, "member_id"], "left"))
    # One exchange for both windows: by partition.
    rows = _begun(steps.repartition(*_PARTITION))
    before = ("owner", "member_id", "until_ns", "how", "gone_ns", "silent_ns")
    found = rows.withColumn(
        "before", f.lag(f.struct(*before)).over(along(*_PARTITION))
    ).withColumns(
        {
            "from_ns": f.col("time_ns"),
            "from_node": f.col("node"),
            "from_sequence": f.col("sequence"),
            "began": f.col("cause"),
            "previous_owner": f.col("before.owner"),
            "previous_member_id": f.col("before.member_id"),
            "moved": f.coalesce(
                (f.col("cause") == "assigned")
                & (f.col("before.owner") != f.col("owner")),
                f.lit(False),
            ),
            "idle_ns": _idle_ns(),
            "crash_idle_ns": _crash_idle_ns(),
        }
    )
    return shaped(found, "silver/ownership")


def _numbered(frames: Frames) -> DataFrame:
    """What members gained and lost, with the number of the last rebalance before."""
    kind = f.col("kind")
    loaded = f.when(f.col("cause") == "loaded", f.col("owned"))
    number = count_if(kind == _STARTED).over(up_to_here(along(*GROUP)))
    return (
        of_kinds(frames, _CHANGED, _STARTED)
        .select(
            *(*GROUP, *IN_ORDER, "kind", "cause"),
            f.when(kind == _CHANGED, f.col("member_id")).alias("member_id"),
            f.col("partitions_gained").alias("gained"),
            f.col("partitions_lost").alias("lost"),
            loaded.alias("loaded"),
        )
        .where(
            (kind == _STARTED)
            | (f.size("gained") > 0)
            | (f.size("lost") > 0)
            | (f.size("loaded") > 0)
        )
        .withColumn("number", f.nullif(number, f.lit(0)))
        .where(kind == _CHANGED)
        .drop("kind")
    )


def _steps(changes: DataFrame) -> DataFrame:
    """A row per partition: what an event says of a member's having it."""
    lists = [
        f.struct(f.lit(name).alias("step"), f.col(name).alias("parts"))
        for name in ("gained", "lost", "loaded")
    ]
    return (
        changes.withColumn("list", f.explode(f.array(*lists)))
        .drop("gained", "lost", "loaded")
        .withColumns({"step": f.col("list.step"), "part": f.explode("list.parts")})
        .withColumn("topic", f.col("part.topic"))
        .withColumn("partition", f.explode("part.partitions"))
        .drop("list", "part")
    )


def _begun(steps: DataFrame) -> DataFrame:
    """The steps with which having begins, and when it ends.

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


def _idle_ns() -> Column:
    """0 where the row before had not ended by then."""
    idle = f.greatest(f.col("time_ns") - f.col("before.until_ns"), f.lit(0))
    return f.when(f.col("before").isNotNull(), f.coalesce(idle, f.lit(0)))


def _crash_idle_ns() -> Column:
    """From the last sign of life of who had it, if that is why it was free."""
    gone_ns = f.col("before.gone_ns")
    crashed = (f.col("before.how") == "expired") & (f.col("before.until_ns") == gone_ns)
    return f.when(
        crashed & (f.col("cause") == "assigned"),
        f.col("time_ns") - (gone_ns - f.col("before.silent_ns")),
    )
