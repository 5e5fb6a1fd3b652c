"""Members as the rules see them: where each went, and which one replaced it."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.event_schema import ADVICE
from kohort.pipeline.gold.columns import MEMBER, SECOND_NS, seconds
from kohort.pipeline.gold.settings.rule import MS_NS, RESTART_NS, is_
from kohort.pipeline.table_functions import GROUP, Frames

BACK_AT_ONCE_NS: Final = 5 * SECOND_NS
"""The longest time in which a member that expired while it was alive is back: its next
heartbeat (3 s by default) is refused, and its next poll joins again."""
WHY: Final = ("back", "alive", "slow", "newcomer")
"""For which rules a member's going and coming counts, see `lives` and `caused`."""


def lives(frames: Frames) -> DataFrame:
    """Memberships, each with its end and the return of its process.

    Returns:
        the columns of memberships, and
        went: it left, or expired.
        gone_ns: its last sign of life, if it went.
        new_id, back_ns, away_ns: if it went, the row of its process in silver/returns.
        is_rejoin: its process came back on the same connection: it was not restarted.
        is_slow: it left because its application did not poll in time: it says so, or
            its process rejoined.
        is_alive: it expired and was alive, see `_is_alive`.
        silence_ns: how long it was silent then.
        is_back: dynamic, gone for another reason, and restarted.
    """
    went = F.col("how").isin("left", "expired")
    ending_ns = F.col("until_ns") - F.coalesce("silent_ns", F.lit(0))
    expired = F.col("how") == "expired"
    said = [F.col("reason").contains(text) for text in ADVICE["poll_interval_reasons"]]
    is_heard = _came_at_once() | F.col("is_rejoin")
    heard = F.least("asked_ns", F.when(is_heard, F.col("back_ns")))
    is_slow = (F.col("how") == "left") & reduce(or_, said, F.col("is_rejoin"))
    is_back = (
        F.col("instance_id").isNull()
        & F.col("new_id").isNotNull()
        & ~F.col("is_rejoin")
        & ~F.col("is_slow")
        & ~F.col("is_alive")
    )
    return (
        frames["silver/memberships"]
        .withColumn("went", is_(went))
        .withColumn("gone_ns", F.when(F.col("went"), ending_ns))
        .join(_returns(frames), [*MEMBER], "left")
        .withColumn("is_rejoin", is_(F.col("is_rejoin")))
        .join(_asked(frames), [*MEMBER], "left")
        .withColumn("is_slow", is_(is_slow))
        .withColumn("silence_ns", heard - F.col("gone_ns"))
        .withColumn("is_alive", is_(expired & (F.col("silence_ns") <= RESTART_NS)))
        .withColumn("is_back", is_(is_back))
    )


def _returns(frames: Frames) -> DataFrame:
    return (
        frames["silver/returns"]
        .where("how in ('left', 'expired')")
        .select(
            *GROUP,
            F.col("previous_id").alias("member_id"),
            F.col("member_id").alias("new_id"),
            F.col("until_ns").alias("back_ns"),
            "away_ns",
            (~F.col("is_restart")).alias("is_rejoin"),
        )
    )


def _came_at_once() -> Column:
    """A static member's timeout was to cover its restart, however long that took."""
    soon = F.col("back_ns") - F.col("until_ns") <= BACK_AT_ONCE_NS
    is_static = F.col("instance_id").isNotNull()
    return (F.col("back_ns") >= F.col("until_ns")) & (soon | is_static)


def _asked(frames: Frames) -> DataFrame:
    """The time at which expired ids were heard of again, and refused as unknown.

    In a JoinGroup or an OffsetCommit. Few commits are refused, and of the others
    Parquet reads but one column.
    """
    joins = frames["silver/refusals"].where("cause = 'unknown'")
    commits = frames["silver/commits"].where("error = 'UNKNOWN_MEMBER_ID' and is_first")
    ends = frames["silver/memberships"].where("how = 'expired'")
    return (
        joins.select(*MEMBER, "time_ns")
        .unionByName(commits.select(*MEMBER, "time_ns"))
        .join(ends.select(*MEMBER, "until_ns"), [*MEMBER])
        .where("time_ns >= until_ns")
        .groupBy(*MEMBER)
        .agg(F.min("time_ns").alias("asked_ns"))
    )


def of_members(members: DataFrame) -> DataFrame:
    """Numbers of groups, of their `lives`."""
    back, alive = F.col("is_back"), F.col("is_alive")
    slow = F.col("is_slow") & F.col("rebalance_timeout_ms").isNotNull()
    slow_back = slow & (F.col("away_ns") <= RESTART_NS)
    took_ms = F.col("rebalance_timeout_ms") + F.col("away_ns") / MS_NS
    dynamic = F.col("instance_id").isNull()
    process = F.struct("client_id", "host")
    return members.groupBy(*GROUP).agg(
        F.count_if(dynamic & F.col("went") & ~F.col("is_slow")).alias("departures"),
        F.count_if(back).alias("back"),
        F.size(F.collect_set(F.when(back, process))).alias("back_processes"),
        F.max(F.when(back, F.col("away_ns"))).alias("back_ns"),
        F.max(F.when(back, F.col("session_timeout_ms"))).alias("back_session_ms"),
        F.count_if(F.col("how") == "expired").alias("expired"),
        F.count_if(alive).alias("alive"),
        F.max(F.when(alive, F.col("silence_ns"))).alias("alive_ns"),
        F.max(F.when(alive, F.col("session_timeout_ms"))).alias("alive_session_ms"),
        F.count_if(slow).alias("slow"),
        F.count_if(slow_back).alias("slow_back"),
        F.max(F.when(slow_back, took_ms)).alias("slow_took_ms"),
        F.max(F.when(slow, F.col("rebalance_timeout_ms"))).alias("slow_now_ms"),
    )


# -- rebalances that they caused


def caused(frames: Frames, members: DataFrame, newcomers: DataFrame) -> DataFrame:
    """The rebalances that these members alone caused, by going or by coming back.

    Args:
        frames: the tables before.
        members: `lives`.
        newcomers: run, group, member_id of those whose first coming is looked at.

    Returns:
        run, group, and for each w of `WHY` ``{w}_made`` (rebalances), ``{w}_still_s``
        (their pauses).
    """
    is_coming = F.col("cause") == "member_joined"
    culprits = (
        frames["silver/rebalances"]
        .where("cause in ('member_joined', 'member_left', 'session_expired')")
        .select(
            *GROUP,
            "number",
            "paused_ns",
            is_coming.alias("is_coming"),
            F.explode(F.array_distinct("culprits")).alias("member_id"),
        )
    )
    alone = (F.min(is_(F.col(f"is_{why}"))).alias(f"is_{why}") for why in WHY)
    made = (F.count_if(F.col(f"is_{why}")).alias(f"{why}_made") for why in WHY)
    still = (
        seconds(F.sum(F.when(F.col(f"is_{why}"), F.col("paused_ns")))).alias(
            f"{why}_still_s"
        )
        for why in WHY
    )
    return (
        culprits.join(_looked_at(members, newcomers), [*MEMBER, "is_coming"], "left")
        .groupBy(*GROUP, "number", "paused_ns")
        .agg(*alone)
        .groupBy(*GROUP)
        .agg(*made, *still)
    )


def _looked_at(members: DataFrame, newcomers: DataFrame) -> DataFrame:
    flags = ("is_back", "is_alive", "is_slow")
    # Two rows of a life: that it went, and that its process came back as another.
    moves = F.array(
        F.struct(F.col("member_id").alias("id"), F.lit(False).alias("is_coming")),
        F.struct(F.col("new_id").alias("id"), F.lit(True).alias("is_coming")),
    )
    both = (
        members.where("is_back or is_alive or is_slow")
        .select(*GROUP, *flags, F.explode(moves).alias("move"))
        .where("move.id is not null")
        .select(*GROUP, F.col("move.id").alias("member_id"), "move.is_coming", *flags)
    )
    new = newcomers.select(
        *MEMBER, F.lit(True).alias("is_coming"), F.lit(True).alias("is_newcomer")
    )
    return (
        both.unionByName(new, allowMissingColumns=True)
        .groupBy(*MEMBER, "is_coming")
        .agg(*(F.max(f"is_{why}").alias(f"is_{why}") for why in WHY))
    )
