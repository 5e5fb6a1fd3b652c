"""Rules about members that go and come: static membership and session timeouts."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import MEMBER, seconds
from kohort.pipeline.gold.settings.rule import (
    FEWEST,
    MARGIN,
    MS_NS,
    is_,
    number,
    recommended,
    rounded_up,
    sure,
)
from kohort.pipeline.table_functions import GROUP, Frames

SESSION: Final = "session.timeout.ms"

STEP_MS: Final = 5000
"""Suggested session timeouts are multiples of this; 17,350 would be odd."""
SHORT_MS: Final = 15_000
"""The session timeout that is suggested against long waits for crashed members. Five
heartbeats of 3 s; Kafka advises three at least, and 10 s, the default up to 2.8, proved
too short for networks of clouds (KIP-735)."""
LONG_MS: Final = 2 * SHORT_MS
"""Session timeouts below this have little to gain."""
WAITING_SHARE: Final = 0.8
"""The least share of the wait for the session's end in the time that partitions of
crashed members had no reader: below it, the session timeout is not the reason."""
UNSEEN_PAUSES: Final = 0.8
"""The part of the confidence that is left: no member expired alive with a long timeout,
and one might with a shorter one."""


def _need_ms(longest: str) -> Column:
    return rounded_up(F.col(longest) * MARGIN / MS_NS, STEP_MS)


# -- too short


def _is_higher() -> Column:
    needs_more = _need_ms("alive_ns") > F.col("alive_session_ms")
    return is_((F.col("alive") >= FEWEST) & needs_more)


def session_timeout_higher() -> Column:
    """session.timeout.ms is too short: members expired that were alive.

    Their old ids were heard of again, in a JoinGroup or an OffsetCommit, refused as
    unknown; or a new member of the same process came on the same connection, or
    within 5 s of the expiry (by chance a crashed one may be back just then, so it
    takes several). Static members
    that were back later, within ten minutes, count, too: their timeout was to cover
    that. Suggested: half as much again as the longest silence, in steps of 5 s.
    Confidence: by their number, times their share of all that expired.
    """
    return recommended(
        "session-timeout-higher",
        SESSION,
        "client",
        _is_higher(),
        ~is_(_is_static_longer() & (_need_ms("back_ns") > _need_ms("alive_ns"))),
        suggested=_need_ms("alive_ns"),
        evidence=F.format_string(
            "%d of %d members whose sessions expired were alive: they were heard of"
            " again, after a silence of %.1f s at the most. session.timeout.ms was %d"
            " at the most.",
            "alive",
            "expired",
            seconds(F.col("alive_ns")),
            "alive_session_ms",
        ),
        cases=F.col("alive"),
        rebalances_saved=number("alive_made"),
        paused_saved_s=number("alive_still_s"),
        confidence=sure(F.col("alive"), F.col("alive") / F.col("expired")),
    )


# -- too long


def of_crashes(frames: Frames) -> DataFrame:
    """Numbers of groups: partitions of dynamic members that crashed."""
    crashed = (
        frames["silver/memberships"]
        .where("how = 'expired' and instance_id is null")
        .select(*MEMBER, "session_timeout_ms", F.col("until_ns").alias("expired_ns"))
    )
    # Partitions wait for the session first, then for their new reader.
    waiting_ns = F.least("until_ns", "expired_ns") - F.least("from_ns", "expired_ns")
    is_first = F.col("from_ns") < F.col("expired_ns")
    gained = F.when(is_first, (F.col("session_timeout_ms") - SHORT_MS) * MS_NS)
    return (
        frames["silver/unread"]
        .where("cause = 'expired'")
        .join(crashed, [*MEMBER])
        .groupBy(*GROUP)
        .agg(
            F.count_distinct("member_id").alias("crashes"),
            F.sum("unread_ns").alias("idle_ns"),
            F.sum(waiting_ns * F.col("partitions")).alias("waiting_ns"),
            F.sum(gained * F.col("partitions")).alias("gained_ns"),
            F.min("session_timeout_ms").alias("crash_session_least_ms"),
            F.max("session_timeout_ms").alias("crash_session_ms"),
        )
    )


def session_timeout_lower() -> Column:
    """session.timeout.ms is long: partitions of crashed members wait for its end.

    Where 80 % of the time from a crash to the new owner was that wait, and the timeout
    is 30 s or more. Not of static members, whose timeout has to cover a restart, not
    where static membership is recommended for the same reason, and not where one single
    member expired alive. Confidence: by the crashes, times the share of the wait, times
    0.8.
    """
    waiting = F.col("waiting_ns") / F.when(F.col("idle_ns") > 0, F.col("idle_ns"))
    return recommended(
        "session-timeout-lower",
        SESSION,
        "client",
        F.col("crashes") >= FEWEST,
        F.col("crash_session_least_ms") >= LONG_MS,
        waiting >= WAITING_SHARE,
        number("alive") == 0,
        ~_is_static(),
        suggested=F.lit(SHORT_MS),
        evidence=F.format_string(
            "After %d crashes partitions had no reader for %.1f partition-seconds, %.0f"
            " %% of them because the session of %d ms had to expire first; %.1f would"
            " have been spared. The price: a member that pauses for longer is taken"
            " out. heartbeat.interval.ms has to be a third of it or less.",
            "crashes",
            seconds(F.col("idle_ns")),
            waiting * 100,
            "crash_session_ms",
            seconds(F.col("gained_ns")),
        ),
        cases=F.col("crashes"),
        confidence=sure(F.col("crashes"), waiting * UNSEEN_PAUSES),
    )


# -- static membership


def _is_static() -> Column:
    return is_((F.col("back") >= FEWEST) & (F.col("back_made") >= FEWEST))


def _is_static_longer() -> Column:
    return _is_static() & is_(_need_ms("back_ns") > F.col("back_session_ms"))


def static_membership() -> Column:
    """group.instance.id (KIP-345): members that go and come back, as in a restart.

    Dynamic members that left or crashed, and whose process was back within ten
    minutes, at least three times, and at a cost of at least three rebalances. Not those
    that left for want of a poll, or were alive when they expired. Of few processes it
    is a crash loop, which static members do not end, but keep from the others.
    Confidence: by the restarts, times their share of all departures of dynamic members.
    """
    return recommended(
        "static-membership",
        "group.instance.id",
        "client",
        _is_static(),
        suggested=F.lit("a different one for each member"),
        evidence=F.format_string(
            "%d of %d departures were restarts, of %d processes (by name and host):"
            " each was back after %.1f s at the most, as a new member. That made %d"
            " rebalances, with %.1f member-seconds of pauses. A static member"
            " takes its old place, if it does not leave when it stops, and"
            " session.timeout.ms is %d or more (it was %d at the most).",
            "back",
            "departures",
            "back_processes",
            seconds(F.col("back_ns")),
            "back_made",
            number("back_still_s").cast("double"),
            _need_ms("back_ns"),
            "back_session_ms",
        ),
        cases=F.col("back"),
        rebalances_saved=F.col("back_made"),
        paused_saved_s=number("back_still_s"),
        confidence=sure(F.col("back"), F.col("back") / F.col("departures")),
    )


def static_session_timeout() -> Column:
    """session.timeout.ms, for the static members that are recommended.

    Where it is shorter than half as much again as the longest absence, in steps of 5 s.
    Confidence: that of static membership.
    """
    return recommended(
        "static-session-timeout",
        SESSION,
        "client",
        _is_static_longer(),
        # Both want it longer: the longer one serves both.
        ~is_(_is_higher() & (_need_ms("alive_ns") >= _need_ms("back_ns"))),
        suggested=_need_ms("back_ns"),
        evidence=F.format_string(
            "Together with group.instance.id: restarts took %.1f s at the most, and"
            " session.timeout.ms was %d at the most.",
            seconds(F.col("back_ns")),
            "back_session_ms",
        ),
        cases=F.col("back"),
        confidence=sure(F.col("back"), F.col("back") / F.col("departures")),
    )
