"""Members as the rules see them: where each went, and which one replaced it.

The end of a group is no evidence: its members go one after the other, and nothing is
left that a rebalance could disturb. So they are no departures, and the rebalances
between them do not count.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kohort.pipeline.event_schema import ADVICE
from kohort.pipeline.gold.columns import MEMBER, SECOND_NS
from kohort.pipeline.gold.settings.rule import MS_NS, RESTART_NS, is_
from kohort.pipeline.table_functions import GROUP, Frames, by

BACK_AT_ONCE_NS: Final = 5 * SECOND_NS
"""The longest time in which a member that expired while it was alive is back: its next
heartbeat (3 s by default) is refused, and its next poll joins again."""
GAP_NS: Final[int] = ADVICE["arrival_gap_ns"]
"""The longest time between two members that come, or go, together."""


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
        is_looping: the same, in a crash loop, see `_loops`; it is not is_back then.
        is_ending: it went at the end of the group, see `endings`.
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
    ending = endings(frames).select(*MEMBER, F.lit(True).alias("is_ending"))
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
        .join(_loops(frames), [*MEMBER], "left")
        .withColumn("is_looping", is_(is_back & F.col("in_loop")))
        .withColumn("is_back", is_(is_back & F.col("in_loop").isNull()))
        .join(ending, [*MEMBER], "left")
        .withColumn("is_ending", is_(F.col("is_ending") & ~F.col("is_alive")))
    )


def endings(frames: Frames) -> DataFrame:
    """The members that went at the end of their group: run, group, member_id, gone_ns.

    Nobody came after them or stayed, and they went at most 10 s after one another, by
    their last signs of life: a process that is killed expires much later.
    """
    gone_ns = F.col("until_ns") - F.coalesce("silent_ns", F.lit(0))
    group = Window.partitionBy(*GROUP)
    last_first = group.orderBy(F.col("gone_ns").desc(), "member_id")
    so_far = last_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    gap_ns = F.lag("gone_ns").over(last_first) - F.col("gone_ns")
    return (
        frames["silver/memberships"]
        .select(*MEMBER, "from_ns", gone_ns.alias("gone_ns"))
        .withColumn("came_ns", F.max("from_ns").over(group))
        .withColumn("staying", F.count_if(F.col("gone_ns").isNull()).over(group))
        .withColumn("gap_ns", gap_ns)
        .withColumn("gaps", F.count_if(F.col("gap_ns") > GAP_NS).over(so_far))
        .where("staying = 0 and gaps = 0 and gone_ns > came_ns")
        .select(*MEMBER, "gone_ns")
    )


def before_the_end(rebalances: DataFrame, endings_: DataFrame) -> DataFrame:
    """Rows with ``started_ns`` from before the end of their group."""
    ends = endings_.groupBy(*by(*GROUP)).agg(F.min("gone_ns").alias("end_ns"))
    return (
        rebalances.join(ends, [*GROUP], "left")
        .where("end_ns is null or started_ns < end_ns")
        .drop("end_ns")
    )


def _loops(frames: Frames) -> DataFrame:
    """The members in crash loops, with ``in_loop``.

    A process restarted three times in a row, and lived for at most ten minutes between
    two restarts. Restarts are followed from member to member: processes with the same
    client id and host do not add up to a loop.
    """
    lived = frames["silver/memberships"].select(*MEMBER, "from_ns", "until_ns")
    restarts = (
        frames["silver/returns"]
        .where("is_restart and how in ('left', 'expired')")
        .select(
            *GROUP,
            F.col("previous_id").alias("member_id"),
            F.col("member_id").alias("next_id"),
        )
        .join(lived, [*MEMBER])
    )
    again = restarts.where(F.col("until_ns") - F.col("from_ns") <= RESTART_NS)

    def named(rows: DataFrame, member_id: str, next_id: str) -> DataFrame:
        ids = (F.col("member_id").alias(member_id), F.col("next_id").alias(next_id))
        return rows.select(*GROUP, *ids)

    return (
        named(restarts, "a", "b")
        .join(named(again, "b", "c"), [*GROUP, "b"])
        .join(named(again, "c", "d"), [*GROUP, "c"])
        .select(*GROUP, F.explode(F.array("a", "b", "c")).alias("member_id"))
        .distinct()
        .withColumn("in_loop", F.lit(True))
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
    """The times when expired ids sent requests again, refused as unknown.

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
        .groupBy(*by(*MEMBER))
        .agg(F.min("time_ns").alias("asked_ns"))
    )


def of_members(members: DataFrame) -> DataFrame:
    """Numbers of groups, of their `lives`."""
    back, alive = F.col("is_back"), F.col("is_alive")
    slow = F.col("is_slow") & F.col("rebalance_timeout_ms").isNotNull()
    slow_back = slow & (F.col("away_ns") <= RESTART_NS)
    took_ms = F.col("rebalance_timeout_ms") + F.col("away_ns") / MS_NS
    departed = F.col("went") & ~F.col("is_ending")
    dynamic = F.col("instance_id").isNull()
    looping = F.col("is_looping")
    process = F.struct("client_id", "host")
    return members.groupBy(*by(*GROUP)).agg(
        F.count_if(dynamic & departed & ~F.col("is_slow")).alias("departures"),
        F.count_if(looping).alias("looping"),
        F.array_join(
            F.array_sort(F.collect_set(F.when(looping, F.col("name")))), ", "
        ).alias("looping_names"),
        F.count_if(back).alias("back"),
        F.size(F.collect_set(F.when(back, process))).alias("back_processes"),
        F.max(F.when(back, F.col("away_ns"))).alias("back_ns"),
        F.max(F.when(back, F.col("session_timeout_ms"))).alias("back_session_ms"),
        F.count_if((F.col("how") == "expired") & departed).alias("expired"),
        F.count_if(alive).alias("alive"),
        F.max(F.when(alive, F.col("silence_ns"))).alias("alive_ns"),
        F.max(F.when(alive, F.col("session_timeout_ms"))).alias("alive_session_ms"),
        F.count_if(slow).alias("slow"),
        F.count_if(slow_back).alias("slow_back"),
        F.max(F.when(slow_back, took_ms)).alias("slow_took_ms"),
        F.max(F.when(slow, F.col("rebalance_timeout_ms"))).alias("slow_now_ms"),
    )
