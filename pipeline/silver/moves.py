"""silver/moves: how many partitions a rebalance moved, and how few it could have.

How many partitions an owner was the last one of is a running sum over the rows of
ownership: one more where a row is its, one less where the next one is another's. So
rebalances and partitions never meet; only those that changed count.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.makers import Frames, Options
from kohort.pipeline.silver.order import GROUP, shaped, up_to_here

_OWNER: Final = (*GROUP, "owner")
_OF_OWNER: Final = ("change", "is_there", "moved", "first")


def moves(frames: Frames, _options: Options) -> DataFrame:
    """One row per completed rebalance.

    Leaders assign to members of the generation alone, so that a partition that goes
    from one of them goes to one of them.
    """
    completed = frames["silver/rebalances"].where(f.col("outcome") == "completed")
    rows = frames["silver/ownership"]
    first = (
        _assigned(rows)
        .groupBy(*GROUP, "number")
        .agg(f.count(f.when(f.col("previous_owner").isNull(), 1)).alias("first_owned"))
    )
    shares = (
        _shares(frames, completed)
        .groupBy(*GROUP, "number")
        .agg(
            f.sum("after").alias("owned"),
            f.sum("moved").alias("moved"),
            f.sum(f.col("after") - f.col("first")).alias("common"),
            f.sort_array(f.collect_list("before"), asc=False).alias("b"),
            f.sort_array(
                f.collect_list(f.col("after") - f.col("first")), asc=False
            ).alias("a"),
        )
    )
    kept = f.aggregate(
        f.zip_with("b", "a", _lesser),
        f.lit(0).cast("bigint"),
        lambda sum_, least: sum_ + least,
    )
    found = (
        completed.select(
            *(*GROUP, "number", "started_ns", "generation"),
            f.size("members").alias("members"),
        )
        .join(shares.withColumn("least_moved", f.col("common") - kept), _on(), "left")
        .join(first, _on(), "left")
        .withColumn("members", f.when(f.col("members") >= 0, f.col("members")))
        .na.fill(0, ["owned", "moved", "least_moved", "first_owned"])
    )
    return shaped(found, "silver/moves")


def _lesser(one: Column, other: Column) -> Column:
    return f.least(one, other)


def _on() -> list[str]:
    return [*GROUP, "number"]


def _assigned(rows: DataFrame) -> DataFrame:
    return rows.where((f.col("began") == "assigned") & f.col("number").isNotNull())


def _shares(frames: Frames, completed: DataFrame) -> DataFrame:
    """Of how many partitions each member of a generation was the last owner.

    Columns: run, group, number, owner; before, after: how many; moved: of those
    after, how many had another one before; first: how many had none.
    """
    members = frames["silver/memberships"].select(*GROUP, "member_id", "owner")
    asked = (
        completed.select(*GROUP, "number", f.explode("members").alias("member_id"))
        .join(members, [*GROUP, "member_id"], "left")
        .select(
            *GROUP,
            f.coalesce("owner", "member_id").alias("owner"),
            (2 * f.col("number")).alias("at"),
            f.lit(1).cast("bigint").alias("is_there"),
        )
    )
    changes = _changes(frames, completed)
    own = Window.partitionBy(*_OWNER).orderBy("at")
    return (
        changes.unionByName(asked, allowMissingColumns=True)
        .groupBy(*_OWNER, "at")
        .agg(*(f.coalesce(f.sum(n), f.lit(0)).alias(n) for n in _OF_OWNER))
        .withColumn("after", f.sum("change").over(up_to_here(own)))
        .where(f.col("is_there") > 0)
        .select(
            *GROUP,
            f.floor(f.col("at") / 2).alias("number"),
            *("owner", "after", "moved", "first"),
            (f.col("after") - f.col("change")).alias("before"),
        )
    )


def _changes(frames: Frames, completed: DataFrame) -> DataFrame:
    """What each owner won and lost, and when.

    Column ``at`` is in order: twice the number of a rebalance for what it assigned,
    one more for what happened between it and the next one.
    """
    rows = frames["silver/ownership"].select(
        *(*GROUP, "topic", "partition", "from_ns", "from_node", "from_sequence"),
        *("number", "began", "owner", "previous_owner"),
    )
    place = f.struct("from_ns", "from_node", "from_sequence")
    # A partition that an assignor gives to several has one last owner.
    dealt = (
        _assigned(rows)
        .groupBy(*GROUP, "number", "topic", "partition")
        .agg(
            f.max_by("owner", place).alias("owner"),
            f.min_by("previous_owner", place).alias("previous_owner"),
        )
        .select(*GROUP, "owner", "previous_owner", (2 * f.col("number")).alias("at"))
    )
    ended = completed.select(*GROUP, "number", "ended_ns")
    others = (
        rows.where((f.col("began") != "assigned") | f.col("number").isNull())
        .join(ended, _on(), "left")
        .select(*GROUP, "owner", "previous_owner", _between().alias("at"))
    )
    changed = dealt.unionByName(others).where(
        ~f.col("owner").eqNullSafe(f.col("previous_owner"))
    )
    was, is_first = f.col("previous_owner"), f.col("previous_owner").isNull()
    one = f.lit(1).cast("bigint")
    sides = f.array(
        f.struct(
            f.col("owner").alias("owner"),
            one.alias("change"),
            f.when(is_first, 0).otherwise(1).cast("bigint").alias("moved"),
            f.when(is_first, 1).otherwise(0).cast("bigint").alias("first"),
        ),
        f.struct(
            was.alias("owner"),
            (-one).alias("change"),
            (one - one).alias("moved"),
            (one - one).alias("first"),
        ),
    )
    return (
        changed.select(*GROUP, "at", f.explode(sides).alias("side"))
        .select(*GROUP, "at", "side.*")
        .where(f.col("owner").isNotNull())
        .groupBy(*_OWNER, "at")
        .agg(*(f.sum(n).alias(n) for n in ("change", "moved", "first")))
    )


def _between() -> Column:
    """Before what the rebalance with its number assigned, or after it."""
    number = f.coalesce("number", f.lit(0).cast("bigint"))
    is_after = (f.col("from_ns") > f.col("ended_ns")) | (
        (f.col("from_ns") == f.col("ended_ns")) & (f.col("began") == "loaded")
    )
    is_before = ~f.coalesce(is_after, f.lit(True))
    return 2 * number + f.when(is_before, -1).otherwise(1)
