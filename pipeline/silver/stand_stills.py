"""silver/stand_stills: eager members that wait for an assignment.

A member waits from its JoinGroup, or from coming back under a new id in a rebalance,
until it has synced or is gone; joins in between are part of the same wait. It stands
still if it had partitions when the wait began, and no other way of going on (KIP-429).
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.makers import Frames, Options
from kohort.pipeline.silver.members import FORGOTTEN
from kohort.pipeline.silver.order import (
    GONE,
    GROUP,
    IN_ORDER,
    along,
    count_if,
    is_pending,
    of_kinds,
    shaped,
    up_to_here,
)

_MEMBER: Final = (*GROUP, "member_id")
_SYNCED: Final = "member_synced"
_CHANGED: Final = "partitions_changed"
_STARTED: Final = "rebalance_started"
_REPLACED: Final = "static_member_replaced"


def stand_stills(frames: Frames, _options: Options) -> DataFrame:
    """One row per wait of an eager member that had something to do."""
    members = frames["silver/memberships"].select(*_MEMBER, "owner", "name", "is_eager")
    stood = (
        _waits(_marks(frames))
        .where("has")
        .join(members, [*_MEMBER], "left")
        .where(f.coalesce("is_eager", f.lit(True)))
    )
    return shaped(_numbered(stood, frames), "silver/stand_stills")


def _marks(frames: Frames) -> DataFrame:
    """What matters to a member's waits.

    Columns: those of the member and the order; has: whether it has partitions from
    now on (null: nothing is said of that), is_start: whether a wait may begin, ended:
    how one may end.
    """
    kind, cause = f.col("kind"), f.col("cause")
    is_back = (cause == "replaced") & (f.size("owned") > 0)
    own = (
        of_kinds(frames, "member_joined", _SYNCED, _CHANGED, *GONE)
        .where(~is_pending())
        .where((kind != "member_joined") | (cause != "repeated") | cause.isNull())
        # Those are told apart in `_returns`.
        .where((kind != _CHANGED) | ~f.coalesce(is_back, f.lit(False)))
        .select(
            *(*_MEMBER, *IN_ORDER),
            f.when(kind == _CHANGED, f.size("owned") > 0).alias("has"),
            (kind == "member_joined").alias("is_start"),
            f.when(kind == _SYNCED, "synced")
            .when(kind.isin(*GONE), "gone")
            .alias("ended"),
        )
    )
    fenced = of_kinds(frames, "member_replaced").select(
        *GROUP,
        f.col("replaced_member_id").alias("member_id"),
        *IN_ORDER,
        f.lit(None).cast("boolean").alias("has"),
        f.lit(False).alias("is_start"),
        f.lit("gone").alias("ended"),
    )
    return reduce(
        DataFrame.unionByName, [own, fenced, _forgotten(frames), _returns(frames)]
    )


def _forgotten(frames: Frames) -> DataFrame:
    """Members that are gone unseen, behind all else that happened then."""
    last = 2**31 - 1
    return (
        frames["silver/memberships"]
        .where(f.col("how") == FORGOTTEN)
        .select(
            *_MEMBER,
            f.col("until_ns").alias("time_ns"),
            f.lit(last).alias("node"),
            f.lit(last).cast("bigint").alias("sequence"),
            f.lit(None).cast("boolean").alias("has"),
            f.lit(False).alias("is_start"),
            f.lit("gone").alias("ended"),
        )
    )


def _returns(frames: Frames) -> DataFrame:
    """Static members that come back, and whether the group is in a join phase then.

    The second way to wait is to be a culprit of a rebalance: a row of its own.
    """
    kind, cause = f.col("kind"), f.col("cause")
    rows = (
        of_kinds(frames, _STARTED, "join_completed", "group_loaded", _CHANGED)
        .where(
            (kind != _CHANGED) | ((cause == "replaced") & (f.size("owned") > 0)),
        )
        .select(
            *(*GROUP, *IN_ORDER, "kind", "cause"),
            f.when(kind == _CHANGED, f.array("member_id"))
            .when(cause == _REPLACED, f.col("culprits"))
            .alias("members"),
        )
        .withColumn(
            "is_joining",
            f.last(f.when(kind != _CHANGED, kind == _STARTED), ignorenulls=True).over(
                up_to_here(along(*GROUP))
            ),
        )
    )
    return rows.select(
        *(*GROUP, *IN_ORDER),
        f.explode("members").alias("member_id"),
        f.when(kind == _CHANGED, f.lit(True)).alias("has"),
        f.coalesce("is_joining", f.lit(False)).alias("is_start"),
        f.lit(None).cast("string").alias("ended"),
    )


def _waits(marks: DataFrame) -> DataFrame:
    """A row per wait: from its first start to what ends it."""
    own = along(*_MEMBER)
    is_start, ended = f.col("is_start"), f.col("ended")
    is_open = f.lag("is_start").over(own)
    following = f.lead(f.struct("time_ns", "ended")).over(own)
    return (
        marks.withColumn("has", f.last("has", ignorenulls=True).over(up_to_here(own)))
        .where(is_start | ended.isNotNull())
        .withColumn("is_open", f.coalesce(is_open, f.lit(False)))
        .where(~(is_start & f.col("is_open")))
        .withColumn("following", following)
        .where("is_start")
        .select(
            *_MEMBER,
            "has",
            f.col("time_ns").alias("from_ns"),
            f.col("following.time_ns").alias("until_ns"),
            f.col("following.ended").alias("ended"),
        )
    )


def _numbered(stood: DataFrame, frames: Frames) -> DataFrame:
    """With the number of the last rebalance that had started by then."""
    starts = frames["silver/rebalances"].select(
        *GROUP, f.col("started_ns").alias("from_ns"), f.lit(1).alias("start")
    )
    by_then = (
        Window.partitionBy(*GROUP)
        .orderBy("from_ns")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    number = count_if(f.col("start").isNotNull()).over(by_then)
    return (
        stood.unionByName(starts, allowMissingColumns=True)
        .withColumn("number", f.nullif(number, f.lit(0)))
        .where(f.col("start").isNull())
    )
