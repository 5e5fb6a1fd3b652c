"""silver/rebalances: from a rebalance_started to what ended it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.makers import Frames, Options
from kohort.pipeline.silver.order import (
    GROUP,
    IN_ORDER,
    along,
    count_if,
    of_kinds,
    shaped,
    up_to_here,
)

STARTED: Final = "rebalance_started"
LOADED: Final = "group_loaded"
JOINED: Final = "join_completed"
ASSIGNED: Final = "assignment_made"

_OF_START: Final = (
    *("kind", "cause", "reason", "member_id", "instance_id", "client_id"),
    *("culprits", "previous_state", "members"),
)
_OF_JOIN: Final = (
    *("cause", "generation", "members", "gained", "lost", "duration_ns", "waits"),
)
_OF_ASSIGNMENT: Final = (
    *("generation", "duration_ns", "protocol", "leader", "bytes", "metadata_bytes"),
)


def rebalances(frames: Frames, _options: Options) -> DataFrame:
    """One row per rebalance_started."""
    events = of_kinds(frames, STARTED, LOADED, JOINED, ASSIGNED)
    kind, so_far = f.col("kind"), up_to_here(along(*GROUP))
    stretches = (
        events.select(
            *GROUP,
            *IN_ORDER,
            "kind",
            _if(kind.isin(STARTED, LOADED), _OF_START).alias("start"),
            _if(kind == JOINED, _OF_JOIN).alias("join"),
            _if(kind == ASSIGNED, _OF_ASSIGNMENT).alias("assignment"),
        )
        .withColumns(
            {
                "stretch": count_if(kind.isin(STARTED, LOADED)).over(so_far),
                "number": count_if(kind == STARTED).over(so_far),
            }
        )
        .groupBy(*GROUP, "stretch", "number")
        .agg(
            # What comes first in them is the place in order.
            *(f.min(name).alias(name) for name in ("start", "join", "assignment"))
        )
    )
    following = Window.partitionBy(*GROUP).orderBy("stretch")
    found = (
        stretches.withColumn("next", f.lead("start").over(following))
        .where(f.col("start.kind") == STARTED)
        .withColumn("outcome", _outcome())
        .withColumn("ended_ns", _ended_ns())
        .withColumn("waited_ns", f.array_max(f.col("join.waits.waited_ns")))
    )
    return shaped(found.select("*", *_columns()), "silver/rebalances")


def _if(condition: Column, fields: tuple[str, ...]) -> Column:
    return f.when(condition, f.struct(*IN_ORDER, *fields))


def _outcome() -> Column:
    following = f.col("next.kind")
    return (
        f.when(f.col("assignment").isNotNull(), "completed")
        .when(f.size("join.members") == 0, "emptied")
        .when(following == STARTED, "interrupted")
        .when(following == LOADED, "moved")
        .otherwise("open")
    )


def _ended_ns() -> Column:
    outcome = f.col("outcome")
    return (
        f.when(outcome == "completed", f.col("assignment.time_ns"))
        .when(outcome == "emptied", f.col("join.time_ns"))
        .otherwise(f.col("next.time_ns"))
    )


def _columns() -> list[Column]:
    """The columns of the table that are not there under their names yet."""
    longest = f.filter(
        f.col("join.waits"), lambda wait: wait["waited_ns"] == f.col("waited_ns")
    )
    made = {
        "node": f.col("start.node"),
        "sequence": f.col("start.sequence"),
        "started_ns": f.col("start.time_ns"),
        "duration_ns": f.col("ended_ns") - f.col("start.time_ns"),
        "cause": f.col("start.cause"),
        "reason": f.col("start.reason"),
        "culprit": f.col("start.member_id"),
        "culprit_name": f.coalesce(
            "start.instance_id", "start.client_id", "start.member_id"
        ),
        "culprits": f.col("start.culprits"),
        "previous_state": f.col("start.previous_state"),
        "expected": f.col("start.members"),
        "generation": f.coalesce("join.generation", "assignment.generation"),
        "members": f.col("join.members"),
        "gained": f.col("join.gained"),
        "lost": f.col("join.lost"),
        "join_ended": f.col("join.cause"),
        "join_ns": f.col("join.duration_ns"),
        "sync_ns": f.col("assignment.duration_ns"),
        "waited_for": f.array_min(f.transform(longest, lambda wait: wait["member_id"])),
        "protocol": f.col("assignment.protocol"),
        "leader": f.col("assignment.leader"),
        "assignment_bytes": f.col("assignment.bytes"),
        "metadata_bytes": f.col("assignment.metadata_bytes"),
    }
    return [column.alias(name) for name, column in made.items()]
