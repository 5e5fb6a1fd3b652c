"""Rules about the broker's settings: the initial delay and the size of groups."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import SECOND_NS, seconds
from kohort.pipeline.gold.initial_delay import DELAY
from kohort.pipeline.gold.metrics import FULL
from kohort.pipeline.gold.settings.members import GAP_NS
from kohort.pipeline.gold.settings.rule import (
    FEWEST,
    made,
    recommended,
    said,
    saved_s,
    sure,
)
from kohort.pipeline.table_functions import GROUP, Frames, by, together

INITIAL_DELAY: Final = "initial-delay"
MAX_SIZE: Final = "group.max.size"

SURGE: Final = 1.25
"""Room beyond the members and refused processes: a rolling update of Kubernetes starts
a quarter more pods (maxSurge) before it stops the old ones."""


# -- group.initial.rebalance.delay.ms


def of_pairs(frames: Frames) -> DataFrame:
    """Numbers of groups of runs without a delay, from `gold/initial_delay`.

    ``played`` is the result of the best delay over all pairs of the scenario: the one
    that saved most rebalances on average, and of equals the shortest. ``saved`` is its
    result in the run itself.
    """
    pairs = frames["gold/initial_delay"]
    keys = ("scenario", "group")
    helped = F.when(F.col("rebalances_saved") > 0, 1.0).otherwise(0.0)
    of_delay = pairs.groupBy(*by(*keys, "delay_ms")).agg(
        F.count("*").alias("pairs"),
        F.sum("rebalances_saved").alias("saved"),
        F.avg("rebalances_saved").alias("mean"),
        F.avg(helped).alias("share"),
        F.avg("later_s").alias("later_s"),
    )
    row = F.struct("delay_ms", "pairs", "saved", "mean", "share", "later_s")
    rank = F.struct(-F.col("mean"), "delay_ms")
    best = of_delay.groupBy(*by(*keys)).agg(F.min_by(row, rank).alias("played"))
    is_best = F.col("delay_ms") == F.col("played.delay_ms")
    # There are pairs of all runs, but settings may be computed for some runs only.
    asked = frames["gold/groups"].select(*GROUP)
    return (
        pairs.withColumnRenamed("run_without", "run")
        .join(asked, [*GROUP], "left_semi")
        .join(best, [*keys])
        .groupBy(*by(*GROUP))
        .agg(
            F.first("played").alias("played"),
            F.avg(F.when(is_best, F.col("rebalances_saved"))).alias("played_saved"),
            F.avg(F.when(is_best, F.col("downtime_saved_s"))).alias("played_down_s"),
        )
    )


def initial_delay_played() -> Column:
    """group.initial.rebalance.delay.ms (KIP-134), by the same seeds with and without.

    The delay that saved most over all seeds: at least three rebalances in all, and some
    in this run. Confidence: by the pairs, times the share of them in which it saved
    some.
    """
    return recommended(
        INITIAL_DELAY,
        DELAY,
        "broker",
        F.col("played.saved") >= FEWEST,
        F.col("played_saved") > 0,
        suggested=F.col("played.delay_ms"),
        evidence=said(
            "The same seeds ran with and without a delay of %d ms (%d pairs): it saved"
            " %.1f rebalances on average, and some in %.0f %% of the pairs; the first"
            " assignment was %.1f s later.",
            "played.delay_ms",
            "played.pairs",
            "played.mean",
            F.col("played.share") * 100,
            "played.later_s",
        ),
        cases=F.col("played.pairs"),
        rebalances_saved=F.round("played_saved"),
        downtime_saved_s=F.col("played_down_s"),
        confidence=sure(F.col("played.pairs"), F.col("played.share")),
    )


def arrivals(frames: Frames) -> DataFrame:
    """Newcomers after the first of an empty group, at most 10 s after one another.

    A start is over when a member goes: those that come after that may be restarted.

    Returns:
        run, group, start_ns (of the start that they belong to), member_id, gap_ns.
    """
    emptied = (
        frames["silver/rebalances"]
        .where("previous_state = 'Empty' and cause = 'member_joined'")
        .select(*GROUP, F.col("started_ns").alias("at_ns"))
        .withColumn("start_ns", F.col("at_ns"))
    )
    came = (
        frames["silver/memberships"]
        .where("is_start_known")
        .select(*GROUP, F.col("from_ns").alias("at_ns"), "member_id")
    )
    went = (
        frames["silver/memberships"]
        .where("how <> 'replaced'")
        .select(*GROUP, F.col("until_ns").alias("at_ns"), "member_id")
        .withColumn("is_over", F.lit(True))
    )
    # The first member comes at the time of the rebalance that it makes.
    in_order = Window.partitionBy(*GROUP).orderBy(
        "at_ns", F.col("member_id").isNotNull(), "member_id"
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    of_start = Window.partitionBy(*GROUP, "start_ns").orderBy("at_ns", "member_id")
    is_break = F.col("is_over") | (F.col("gap_ns") > GAP_NS)
    breaks = F.count_if(is_break).over(
        of_start.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        together(emptied, came, went)
        .withColumn("start_ns", F.last("start_ns", ignorenulls=True).over(so_far))
        .where("member_id is not null and start_ns is not null")
        .withColumn("gap_ns", F.col("at_ns") - F.lag("at_ns").over(of_start))
        .withColumn("breaks", breaks)
        .where("breaks = 0 and gap_ns is not null")
        .drop("at_ns", "breaks", "is_over")
    )


def of_arrivals(newcomers: DataFrame) -> DataFrame:
    """Numbers of groups, of their `arrivals`."""
    return newcomers.groupBy(*by(*GROUP)).agg(
        F.count_distinct("start_ns").alias("starts"),
        F.count("*").alias("newcomers"),
        F.max("gap_ns").alias("gap_ns"),
    )


def initial_delay_seen() -> Column:
    """group.initial.rebalance.delay.ms (KIP-134), by a start that was many rebalances.

    Newcomers, at most 10 s after one another, made at least three rebalances beyond the
    first. Only without pairs, which are better evidence. Suggested: the first
    whole second above the longest gap: a window in which a member joined is extended by
    another, so that the delay need not cover the whole start. Confidence: by the
    rebalances, times the number of them for each newcomer (at most 1).
    """
    caused = made(INITIAL_DELAY)
    each = F.least(caused / F.col("newcomers"), F.lit(1.0))
    delay_s = F.floor(F.col("gap_ns") / SECOND_NS) + 1
    return recommended(
        INITIAL_DELAY,
        DELAY,
        "broker",
        F.col("played").isNull(),
        caused >= FEWEST,
        suggested=delay_s.cast("bigint") * 1000,
        evidence=said(
            "In %d starts of the group, %d members joined after the first one, at most"
            " %.1f s apart, and caused %d rebalances. A delay above the longest gap"
            " makes this one rebalance per start; the first assignment comes later by"
            " the delay, or more while members keep joining.",
            "starts",
            "newcomers",
            seconds(F.col("gap_ns")),
            caused,
        ),
        cases=caused,
        rebalances_saved=caused,
        downtime_saved_s=saved_s(INITIAL_DELAY),
        confidence=sure(caused, each),
    )


# -- group.max.size


def of_refusals(frames: Frames) -> DataFrame:
    """Numbers of groups that were full: refused processes, members and partitions."""
    full = frames["silver/refusals"].where(F.col("cause").isin(*FULL))
    askers = (
        full.groupBy(*by(*GROUP, "name", "host"))
        .agg(F.count("*").alias("times"))
        .groupBy(*by(*GROUP))
        .agg(
            F.sum("times").alias("refusals"),
            F.count("*").alias("askers"),
            F.max(F.struct("times", "name", "host")).alias("worst"),
        )
    )
    partitions = (
        frames["silver/ownership"]
        .join(full.select(*GROUP), [*GROUP], "left_semi")
        .groupBy(*by(*GROUP))
        .agg(F.count_distinct("topic", "partition").alias("partitions"))
    )
    return askers.join(partitions, [*GROUP], "left")


def _fits() -> Column:
    """True if there are partitions for the refused processes, or if it is unknown."""
    together = F.col("members_most") + F.col("askers")
    is_normal = F.col("askers") <= F.col("members_most")
    return is_normal & F.coalesce(together <= F.col("partitions"), F.lit(True))


_FULL_TOLD: Final = (
    "%d joins of %d processes (by name and host) were refused because the group was"
    " full; it had at most %d members"
)
_FULL_NUMBERS: Final = ("refusals", "askers", "members_most")


def group_max_size() -> Column:
    """group.max.size (KIP-389) is too low: a full group refused at least three joins.

    Refused processes are counted by name and host: no more than the members, and all
    together no more than the partitions. Suggested: room for all and a quarter more.
    Confidence: by the refused processes.
    """
    room = F.ceil((F.col("members_most") + F.col("askers")) * SURGE)
    return recommended(
        "group-max-size",
        MAX_SIZE,
        "broker",
        F.col("refusals") >= FEWEST,
        F.col("members_most") > 0,
        _fits(),
        suggested=room.cast("bigint"),
        evidence=said(
            _FULL_TOLD + ". There is work for all of them: the limit is too low.",
            *_FULL_NUMBERS,
        ),
        cases=F.col("refusals"),
        confidence=sure(F.col("askers")),
    )


def runaway_deployment() -> Column:
    """group.max.size (KIP-389) works as intended: more processes than partitions.

    At least three refused joins, of more processes than there are members, or than
    there are partitions left. The limit is to stay, and the deployment to be found.
    Confidence: by the refusals.
    """
    return recommended(
        "runaway-deployment",
        MAX_SIZE,
        "broker",
        F.col("refusals") >= FEWEST,
        F.col("members_most") > 0,
        ~_fits(),
        suggested=F.col("members_most"),
        evidence=said(
            _FULL_TOLD + ", and %s partitions. Keep the limit and find the"
            " deployment: %s on host %s was refused most, %d times.",
            *_FULL_NUMBERS,
            F.coalesce(F.col("partitions").cast("string"), F.lit("no known")),
            "worst.name",
            "worst.host",
            "worst.times",
        ),
        cases=F.col("refusals"),
        confidence=sure(F.col("refusals")),
    )
