"""Downtime that rules would have saved: of each rebalance, of a rule, and together.

1. A rebalance that only members caused for which a rule speaks would not have been:
   all of its downtime is saved (`avoided`). Other rules shorten rebalances: each
   module of rules has the part of the downtime that its own would have saved.
2. What a rule saves is the sum over rebalances, minus the downtime that it costs: the
   partitions of a static member wait for it while it restarts (`costs`).
3. Two rules may save the same rebalance. Together they save of its downtime what one
   of them does, and the others of the rest: never the sum.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import MEMBER, REBALANCE, seconds
from kohort.pipeline.gold.settings.rule import is_
from kohort.pipeline.table_functions import GROUP, Frames, by, together

WHY: Final = {
    "back": "static-membership",
    "alive": "session-timeout-higher",
    "slow": "max-poll-interval",
    "newcomer": "initial-delay",
    "looping": "crash-loop",
}
"""Rules about rebalances that need not have been, by the flag of `members.lives`."""
COSTS: Final = {"back": "away_ns", "alive": "silence_ns"}
"""The time for which a member's partitions would have waited for it instead."""


def avoided(frames: Frames, members: DataFrame, newcomers: DataFrame) -> DataFrame:
    """The rebalances that these members alone caused, by going or by coming back.

    Args:
        frames: the tables before.
        members: `members.lives`.
        newcomers: run, group, member_id of those whose first coming is looked at.

    Returns:
        run, group, number, rule, saved_ns.
    """
    is_coming = F.col("cause") == "member_joined"
    culprits = (
        frames["silver/rebalances"]
        .where("cause in ('member_joined', 'member_left', 'session_expired')")
        .select(
            *REBALANCE,
            F.coalesce("unread_ns", F.lit(0)).alias("saved_ns"),
            is_coming.alias("is_coming"),
            F.explode(F.array_distinct("culprits")).alias("member_id"),
        )
    )
    alone = (F.min(is_(F.col(f"is_{why}"))).alias(f"is_{why}") for why in WHY)
    rules = (F.when(F.col(f"is_{why}"), F.lit(rule)) for why, rule in WHY.items())
    return (
        culprits.join(_looked_at(members, newcomers), [*MEMBER, "is_coming"], "left")
        .groupBy(*by(*REBALANCE, "saved_ns"))
        .agg(*alone)
        .withColumn("rule", F.explode(F.array_compact(F.array(*rules))))
        .select(*REBALANCE, "rule", "saved_ns")
    )


def _looked_at(members: DataFrame, newcomers: DataFrame) -> DataFrame:
    flags = tuple(f"is_{why}" for why in WHY if why != "newcomer")
    # Two rows of a life: that it went, and that its process came back as another.
    moves = F.array(
        F.struct(F.col("member_id").alias("id"), F.lit(False).alias("is_coming")),
        F.struct(F.col("new_id").alias("id"), F.lit(True).alias("is_coming")),
    )
    both = (
        members.where(" or ".join(flags))
        .select(*GROUP, *flags, F.explode(moves).alias("move"))
        .where("move.id is not null")
        .select(*GROUP, F.col("move.id").alias("member_id"), "move.is_coming", *flags)
    )
    new = newcomers.select(
        *MEMBER, F.lit(True).alias("is_coming"), F.lit(True).alias("is_newcomer")
    )
    return (
        together(both, new)
        .groupBy(*by(*MEMBER, "is_coming"))
        .agg(*(F.max(f"is_{why}").alias(f"is_{why}") for why in WHY))
    )


def costs(frames: Frames, members: DataFrame) -> DataFrame:
    """Downtime that rules cost: the partitions of a member wait while it is away.

    Returns:
        run, group, number (null), rule, saved_ns (negative).
    """
    flags = " or ".join(f"is_{why}" for why in COSTS)
    rule = F.coalesce(*(F.when(F.col(f"is_{w}"), F.lit(WHY[w])) for w in COSTS))
    away_ns = F.coalesce(
        *(F.when(F.col(f"is_{w}"), F.col(name)) for w, name in COSTS.items())
    )
    went = members.where(flags).select(
        *MEMBER, "gone_ns", rule.alias("rule"), away_ns.alias("away_ns")
    )
    owned = frames["silver/ownership"].select(*MEMBER, "from_ns", "until_ns")
    return (
        owned.join(went, [*MEMBER])
        .where("from_ns <= gone_ns and (until_ns is null or until_ns >= gone_ns)")
        .groupBy(*by(*GROUP, "rule"))
        .agg((-F.sum("away_ns")).alias("saved_ns"))
        .withColumn("number", F.lit(None).cast("bigint"))
    )


def of_rules(saved: DataFrame) -> DataFrame:
    """Numbers of groups, of all savings and costs.

    Returns:
        run, group, and maps from rules: ``made`` (rebalances), ``saved_s``.
    """
    total = saved.groupBy(*by(*GROUP, "rule")).agg(
        F.count("number").alias("made"), seconds(F.sum("saved_ns")).alias("saved_s")
    )
    maps = (
        F.map_from_entries(F.collect_list(F.struct("rule", name))).alias(name)
        for name in ("made", "saved_s")
    )
    return total.groupBy(*by(*GROUP)).agg(*maps)


def saved_together(frames: Frames, said: DataFrame, saved: DataFrame) -> DataFrame:
    """Downtime that the rules of a group save together: run, group, together_s."""
    of_said = saved.join(said.select(*GROUP, "rule"), [*GROUP, "rule"])
    downtime = frames["silver/rebalances"].select(*REBALANCE, "unread_ns")
    share = F.least(F.col("saved_ns") / F.col("unread_ns"), F.lit(1.0))
    shares = F.array_sort(F.collect_list(share))
    left = F.aggregate(shares, F.lit(1.0), lambda left, share: left * (1 - share))
    of_rebalances = (
        of_said.join(downtime, [*REBALANCE])
        .where("unread_ns > 0")
        .groupBy(*by(*REBALANCE, "unread_ns"))
        .agg(left.alias("left"))
        # Whole ns: sums of doubles depend on the order of the rows.
        .withColumn("ns", F.round(F.col("unread_ns") * (1 - F.col("left"))))
    )
    all_ns = of_rebalances.select(*GROUP, F.col("ns").cast("bigint").alias("ns"))
    costs_ns = of_said.where("number is null").select(
        *GROUP, F.col("saved_ns").alias("ns")
    )
    net = F.greatest(F.sum("ns"), F.lit(0))
    return (
        all_ns.unionByName(costs_ns)
        .groupBy(*by(*GROUP))
        .agg(seconds(net).alias("together_s"))
    )
