"""Rules about applications that take long between two polls."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.event_schema import ADVICE
from kohort.pipeline.gold.columns import MEMBER, SECOND_NS, seconds
from kohort.pipeline.gold.culprits import waits
from kohort.pipeline.gold.settings.rule import (
    FEWEST,
    MARGIN,
    number,
    recommended,
    rounded_up,
    sure,
)
from kohort.pipeline.table_functions import GROUP, Frames

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
        "max-poll-interval",
        "max.poll.interval.ms",
        "client",
        F.col("slow") >= FEWEST,
        suggested=rounded_up(need, MINUTE_MS),
        evidence=F.format_string(
            "%d times a member left because its application had not polled within"
            " max.poll.interval.ms (%d at the most); %d times it was back within ten"
            " minutes. That made %d rebalances. Fewer records at a time"
            " (max.poll.records) help as well.",
            "slow",
            "slow_now_ms",
            "slow_back",
            number("slow_made"),
        ),
        cases=F.col("slow"),
        rebalances_saved=number("slow_made"),
        paused_saved_s=number("slow_still_s"),
        confidence=sure(F.col("slow"), (1 + F.col("slow_back") / F.col("slow")) / 2),
    )


def of_waits(frames: Frames) -> DataFrame:
    """Numbers of groups: the ``slowest`` member in long join phases, and all these."""
    beyond = (F.col("waited_ns") - HELD_UP_NS) / F.col("duration_ns")
    saved_ns = F.col("paused_ns") * F.least(beyond, F.lit(1.0))
    of_member = (
        waits(frames)
        .where(F.col("waited_ns") >= HELD_UP_NS)
        .groupBy(*MEMBER)
        .agg(
            F.max("name").alias("name"),
            F.count("*").alias("times"),
            F.percentile("waited_ns", F.lit(0.5)).alias("median_ns"),
            F.sum(F.when(F.col("duration_ns") > 0, saved_ns)).alias("saved_ns"),
        )
    )
    row = F.struct("name", "times", "median_ns", "saved_ns")
    rank = F.struct(-F.col("times"), "member_id")
    return of_member.groupBy(*GROUP).agg(
        F.min_by(row, rank).alias("slowest"), F.sum("times").alias("long_waits")
    )


def slow_to_rejoin() -> Column:
    """max.poll.records: most long join phases waited for one and the same member.

    Of the join phases with a wait of 5 s or more at least three, and half, were for it:
    it joins again at its next poll, and until then it processes records of the last.
    Suggested: the part of the default with which the median wait would be 5 s. The
    pauses saved are the part of theirs beyond 5 s of waiting. Confidence: by their
    number, times its share of the long waits.
    """
    times = F.col("slowest.times")
    median = F.col("slowest.median_ns")
    share = times / F.col("long_waits")
    records = F.greatest(F.floor(RECORDS * HELD_UP_NS / median), F.lit(1))
    return recommended(
        "slow-to-rejoin",
        "max.poll.records",
        "client",
        times >= FEWEST,
        share >= DOMINANT,
        suggested=records.cast("bigint"),
        evidence=F.format_string(
            "%d of %d join phases that waited for 5 s or more waited for %s, half of"
            " them for %.1f s or more: it joins again only by its next poll, when it"
            " has processed the records of the last one. The suggestion is for the"
            " default of 500; if yours differs, reduce it in proportion.",
            times,
            "long_waits",
            "slowest.name",
            seconds(median),
        ),
        cases=times,
        paused_saved_s=F.round(F.col("slowest.saved_ns") / SECOND_NS, 3),
        confidence=sure(times, share),
    )
