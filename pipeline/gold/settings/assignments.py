"""Rules about partitions that rebalances move, and about commits before them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.event_schema import ADVICE, WORDS
from kohort.pipeline.gold.columns import REBALANCE, SECOND_NS, seconds
from kohort.pipeline.gold.settings.members import before_the_end
from kohort.pipeline.gold.settings.rule import (
    FEWEST,
    recommended,
    said,
    saved_s,
    sure,
)
from kohort.pipeline.table_functions import GROUP, Frames, by

STRATEGY: Final = "partition.assignment.strategy"
COOPERATIVE: Final = "cooperative-sticky"
COOPERATIVE_RULE: Final = "cooperative-rebalancing"

KEPT: Final[float] = ADVICE["kept_share"]
STILL_S: Final[float] = ADVICE["eager_pause_ns"] / SECOND_NS
STICKY: Final = (*WORDS["cooperative"], "sticky", "default")
"""Sticky assignors, and those of other clients than consumers (Streams, Connect)."""
TOO_FAR: Final = 2.0
"""Ratio of moved partitions to those that had to move; sticky assignors stay far
below it."""
TOO_MANY: Final = 10
"""Partitions moved for nothing: fewer are not worth a deployment."""
TOO_LATE: Final = ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")
"""Errors of commits that came while partitions were given up, or after that."""


def moves(frames: Frames, endings: DataFrame) -> DataFrame:
    """Rows of silver/moves before the end of groups, with their pauses.

    Returns:
        the columns of silver/moves, paused_ns, protocol, and
        is_eager: members paused in it.
        least: the partitions that had to move.
        stood_ns: downtime of partitions whose members paused.
    """
    rebalances = frames["silver/rebalances"].select(*REBALANCE, "paused_ns", "protocol")
    stood = (
        frames["silver/unread"]
        .where("cause = 'paused'")
        .groupBy(*by(*REBALANCE))
        .agg(F.sum("unread_ns").alias("stood_ns"))
    )
    return (
        before_the_end(frames["silver/moves"], endings)
        .join(rebalances, [*REBALANCE])
        .join(stood, [*REBALANCE], "left")
        .withColumn("is_eager", (F.col("paused_ns") > 0) & (F.col("owned") > 0))
        .withColumn("least", F.least("least_moved", "owned"))
    )


def kept(moves_: DataFrame) -> DataFrame:
    """Downtime of partitions that stood still and did not have to move.

    Returns:
        run, group, number, rule, saved_ns.
    """
    saved_ns = F.col("stood_ns") * (1 - F.col("least") / F.col("owned"))
    return moves_.where("is_eager and stood_ns > 0").select(
        *REBALANCE,
        F.lit(COOPERATIVE_RULE).alias("rule"),
        saved_ns.cast("bigint").alias("saved_ns"),
    )


def of_moves(moves_: DataFrame) -> DataFrame:
    """Numbers of groups, of their `moves`.

    ``eager_``: of those in which members paused. ``loose_``: of those by assignors
    that are not sticky, in which there was something to keep.
    """
    still, least, eager = F.col("paused_ns"), F.col("least"), F.col("is_eager")
    loose = ~F.col("protocol").isin(*STICKY) & (F.col("owned") > F.col("first_owned"))
    too_far = loose & (F.col("moved") > F.col("least_moved"))
    loose_by = F.collect_set(F.when(too_far, F.col("protocol")))
    return moves_.groupBy(*by(*GROUP)).agg(
        F.count_if(eager).alias("eager"),
        seconds(F.sum(F.when(eager, still))).alias("eager_still_s"),
        seconds(F.sum(F.when(eager, F.col("stood_ns")))).alias("eager_stood_s"),
        F.sum(F.when(eager, F.col("owned"))).alias("eager_owned"),
        F.sum(F.when(eager, least)).alias("eager_least"),
        F.count_if(loose).alias("loose"),
        F.count_if(too_far).alias("loose_too_far"),
        F.sum(F.when(loose, F.col("moved"))).alias("loose_moved"),
        F.sum(F.when(loose, F.col("least_moved"))).alias("loose_least"),
        F.array_join(F.array_sort(loose_by), ", ").alias("loose_by"),
    )


def cooperative_rebalancing() -> Column:
    """Cooperative instead of eager rebalancing (KIP-429), where most could have stayed.

    Over the completed rebalances in which eager members paused: at least three,
    with a second of it each, on average, and at least half of the partitions did not
    have to move. Saved is the downtime times the share that did not have to.
    Confidence: by the rebalances, times that share of all of them.
    """
    owned = F.when(F.col("eager_owned") > 0, F.col("eager_owned"))
    kept = 1 - F.col("eager_least") / owned
    return recommended(
        COOPERATIVE_RULE,
        STRATEGY,
        "client",
        F.col("eager") >= FEWEST,
        F.col("eager_still_s") >= STILL_S * F.col("eager"),
        kept >= KEPT,
        suggested=F.lit(COOPERATIVE),
        evidence=said(
            "In %d rebalances members revoked all partitions, which had no reader for"
            " %.1f partition-seconds; of %d partitions (summed over the rebalances) %d"
            " had to move. Cooperative members revoke only partitions that move; if"
            " some do, a second, short rebalance follows.",
            "eager",
            F.coalesce("eager_stood_s", F.lit(0.0)),
            "eager_owned",
            "eager_least",
        ),
        cases=F.col("eager"),
        downtime_saved_s=saved_s(COOPERATIVE_RULE),
        confidence=sure(F.col("eager"), kept),
    )


def sticky_assignor() -> Column:
    """A sticky assignor: partitions moved that could have stayed where they were.

    Over the completed rebalances by assignors that are not sticky: at least twice as
    many moved as had to, at least ten more, and more than had to in at least three
    rebalances. Confidence: by these, times their share of those in which there was
    something to keep.
    """
    moved, least = F.col("loose_moved"), F.col("loose_least")
    cases = F.col("loose_too_far")
    return recommended(
        "sticky-assignor",
        STRATEGY,
        "client",
        cases >= FEWEST,
        moved >= TOO_FAR * least,
        moved - least >= TOO_MANY,
        suggested=F.lit(COOPERATIVE),
        evidence=said(
            "In %d of %d rebalances %s moved more partitions than necessary for the"
            " same shares: %d moved in total, %d had to.",
            cases,
            "loose",
            "loose_by",
            moved,
            least,
        ),
        cases=cases,
        confidence=sure(cases, cases / F.col("loose")),
    )


def of_commits(frames: Frames) -> DataFrame:
    """Numbers of groups: records that were processed twice, and commits too late."""
    twice = (
        frames["silver/delivery"]
        .where("reason = 'commit_refused'")
        .groupBy(*by(*GROUP))
        .agg(
            F.count_distinct("node", "sequence").alias("twice"),
            F.sum("records").alias("twice_records"),
        )
    )
    late = (
        frames["gold/groups"]
        .select(*GROUP, "commit_failures", F.explode("commit_failures_by_error"))
        .where(F.col("key").isin(*TOO_LATE))
        .groupBy(*by(*GROUP, "commit_failures"))
        .agg(F.sum("value").alias("late"))
    )
    return twice.join(late, [*GROUP])


def commit_on_revocation() -> Column:
    """enable.auto.commit: records were processed twice after commits came too late.

    At least three times. When partitions are revoked, the consumer should commit their
    processed records, synchronously, before it gives them up. Confidence: by the
    times, times the share of refused commits that were refused for a rebalance.
    """
    return recommended(
        "commit-on-revocation",
        "enable.auto.commit",
        "client",
        F.col("twice") >= FEWEST,
        # A broker does not see whether the client commits automatically.
        suggested=F.lit("false, and commitSync in onPartitionsRevoked"),
        evidence=said(
            "%d records were processed twice, in %d cases, after commits were refused:"
            " %d of %d refused commits came during a rebalance or after it. Commit in"
            " onPartitionsRevoked with commitSync.",
            "twice_records",
            "twice",
            "late",
            "commit_failures",
        ),
        cases=F.col("twice"),
        confidence=sure(F.col("twice"), F.col("late") / F.col("commit_failures")),
    )
