"""Rules about applications that take long between two polls."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.event_schema import ADVICE
from kohort.pipeline.gold.columns import MEMBER, REBALANCE, seconds
from kohort.pipeline.gold.culprits import waits
from kohort.pipeline.gold.downtime import down
from kohort.pipeline.gold.settings.members import before_the_end
from kohort.pipeline.gold.settings.rule import (
    FEWEST,
    MARGIN,
    made,
    recommended,
    rounded_up,
    said,
    saved_s,
    sure,
)
from kohort.pipeline.table_functions import GROUP, Frames, by

MAX_POLL: Final = "max-poll-interval"
SLOW: Final = "slow-to-rejoin"
MINUTE_MS: Final = 60_000
"""max.poll.interval.ms is suggested in whole minutes, as its default is five."""
HELD_UP_NS: Final[int] = ADVICE["held_up_ns"]
DOMINANT: Final = 0.5
"""The least share of long waits for one member that makes it the cause."""
RECORDS: Final = 500
"""The default of max.poll.records: clients do not tell theirs."""


def max_poll_interval() -> Column:
    """max.poll.interval.ms: members left because they did not poll in time.

    They say so, or their process joined again on the same connection.

    Suggested: the longest that one took, its max.poll.interval.ms (as Kafka's consumer
    sends it: the rebalance timeout) and the time until it was back, and half as much
    again, in whole minutes; twice its value if none was back within ten minutes.
    Confidence: by their number, times a half (it may be stuck) to 1 (all were back).
    """
    need = F.coalesce(F.col("slow_took_ms") * MARGIN, F.col("slow_now_ms") * 2.0)
    return recommended(
        MAX_POLL,
        "max.poll.interval.ms",
        "client",
        F.col("slow") >= FEWEST,
        suggested=rounded_up(need, MINUTE_MS),
        evidence=said(
            "%d times a member left because its application had not polled within"
            " max.poll.interval.ms (at most %d); %d times it was back within ten"
            " minutes. This caused %d rebalances. Fewer records at a time"
            " (max.poll.records) also help.",
            "slow",
            "slow_now_ms",
            "slow_back",
            made(MAX_POLL),
        ),
        cases=F.col("slow"),
        rebalances_saved=made(MAX_POLL),
        downtime_saved_s=saved_s(MAX_POLL),
        confidence=sure(F.col("slow"), (1 + F.col("slow_back") / F.col("slow")) / 2),
    )


def long_waits(frames: Frames, endings: DataFrame) -> DataFrame:
    """Join phases that waited for a member for 5 s or more."""
    return before_the_end(waits(frames), endings).where(
        F.col("waited_ns") >= HELD_UP_NS
    )


def of_waits(long: DataFrame) -> DataFrame:
    """Numbers of groups: the ``slowest`` member in `long_waits`, and all these."""
    of_member = long.groupBy(*by(*MEMBER)).agg(
        F.max("name").alias("name"),
        F.count("*").alias("times"),
        F.percentile("waited_ns", F.lit(0.5)).alias("median_ns"),
    )
    row = F.struct("member_id", "name", "times", "median_ns")
    rank = F.struct(-F.col("times"), "member_id")
    return of_member.groupBy(*by(*GROUP)).agg(
        F.min_by(row, rank).alias("slowest"), F.sum("times").alias("long_waits")
    )


def shortened(frames: Frames, long: DataFrame, of_waits_: DataFrame) -> DataFrame:
    """The downtime while the slowest member was waited for, beyond the first 5 s.

    Returns:
        run, group, number, rule, saved_ns.
    """
    slowest = of_waits_.select(*GROUP, "slowest.member_id")
    wait = long.join(slowest, [*GROUP, "member_id"]).select(
        *REBALANCE,
        (F.col("started_ns") + HELD_UP_NS).alias("held_up_ns"),
        (F.col("started_ns") + F.col("waited_ns")).alias("waited_until_ns"),
    )
    part = F.least("until_ns", "waited_until_ns") - F.greatest("from_ns", "held_up_ns")
    saved_ns = F.greatest(part, F.lit(0)) * F.col("partitions")
    return (
        down(frames)
        .join(wait, [*REBALANCE])
        .groupBy(*by(*REBALANCE))
        .agg(F.sum(saved_ns).alias("saved_ns"))
        .withColumn("rule", F.lit(SLOW))
    )


def slow_to_rejoin() -> Column:
    """max.poll.records: most long join phases waited for one and the same member.

    Of the join phases with a wait of 5 s or more at least three, and half, were for it:
    it joins again at its next poll, and until then it processes records of the last.
    Suggested: the part of the default with which the median wait would be 5 s. The
    downtime saved is that beyond 5 s of waiting. Confidence: by their
    number, times its share of the long waits.
    """
    times = F.col("slowest.times")
    median = F.col("slowest.median_ns")
    share = times / F.col("long_waits")
    records = F.greatest(F.floor(RECORDS * HELD_UP_NS / median), F.lit(1))
    return recommended(
        SLOW,
        "max.poll.records",
        "client",
        times >= FEWEST,
        share >= DOMINANT,
        suggested=records.cast("bigint"),
        evidence=said(
            "%d of %d join phases that waited for 5 s or more waited for %s, half of"
            " them for %.1f s or more: a member rejoins only in its next poll, after"
            " it has processed the records of the last one. The suggestion is for the"
            " default of 500; if yours differs, reduce it in proportion.",
            times,
            "long_waits",
            "slowest.name",
            seconds(median),
        ),
        cases=times,
        downtime_saved_s=saved_s(SLOW),
        confidence=sure(times, share),
    )
