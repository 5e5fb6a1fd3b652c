"""Rules about members that go and come: static membership and session timeouts."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import MEMBER, REBALANCE, seconds
from kohort.pipeline.gold.settings.rule import (
    FEWEST,
    MARGIN,
    MS_NS,
    is_,
    made,
    number,
    recommended,
    rounded_up,
    said,
    saved_s,
    sure,
)
from kohort.pipeline.table_functions import GROUP, Frames, by

SESSION: Final = "session.timeout.ms"
INSTANCE: Final = "group.instance.id"
HIGHER: Final = "session-timeout-higher"
LOWER: Final = "session-timeout-lower"
STATIC: Final = "static-membership"
LOOP: Final = "crash-loop"

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
        HIGHER,
        SESSION,
        "client",
        _is_higher(),
        ~is_(_is_static_longer() & (_need_ms("back_ns") > _need_ms("alive_ns"))),
        suggested=_need_ms("alive_ns"),
        evidence=said(
            "%d of %d members whose sessions expired were alive: they sent requests"
            " again after at most %.1f s of silence. session.timeout.ms was at most"
            " %d.",
            "alive",
            "expired",
            seconds(F.col("alive_ns")),
            "alive_session_ms",
        ),
        cases=F.col("alive"),
        rebalances_saved=made(HIGHER),
        downtime_saved_s=F.greatest(saved_s(HIGHER), F.lit(0.0)),
        confidence=sure(F.col("alive"), F.col("alive") / F.col("expired")),
    )


# -- too long


def crashes(frames: Frames, endings: DataFrame) -> DataFrame:
    """Time without a reader of partitions of dynamic members that crashed.

    Returns:
        run, group, number, member_id, session_timeout_ms, unread_ns, and of that
        waiting_ns (for the end of the session), saved_ns (with `SHORT_MS`).
    """
    crashed = (
        frames["silver/memberships"]
        .where("how = 'expired' and instance_id is null")
        .join(endings, [*MEMBER], "left_anti")
        .select(
            *(*MEMBER, "session_timeout_ms", "silent_ns"),
            F.col("until_ns").alias("expired_ns"),
        )
    )
    # Partitions wait for the session first, then for their new reader.
    gone_ns = F.col("expired_ns") - F.coalesce("silent_ns", F.lit(0))
    earlier_ns = gone_ns + SHORT_MS * MS_NS

    def until(moment: Column) -> Column:
        return F.greatest(
            F.least("until_ns", "expired_ns") - F.greatest("from_ns", moment), F.lit(0)
        )

    return (
        frames["silver/unread"]
        .where("cause = 'expired'")
        .join(crashed, [*MEMBER])
        .withColumn("waiting_ns", until(F.col("from_ns")) * F.col("partitions"))
        .withColumn("saved_ns", until(earlier_ns) * F.col("partitions"))
        .select(
            *(*REBALANCE, "member_id", "session_timeout_ms"),
            *("unread_ns", "waiting_ns", "saved_ns"),
        )
    )


def earlier(crashes_: DataFrame) -> DataFrame:
    """The waits for the end of sessions beyond `SHORT_MS`.

    Returns:
        run, group, number, rule, saved_ns.
    """
    rows = crashes_.groupBy(*by(*REBALANCE)).agg(F.sum("saved_ns").alias("saved_ns"))
    return rows.withColumn("rule", F.lit(LOWER))


def of_crashes(crashes_: DataFrame) -> DataFrame:
    """Numbers of groups, of their `crashes`."""
    return crashes_.groupBy(*by(*GROUP)).agg(
        F.count_distinct("member_id").alias("crashes"),
        F.sum("unread_ns").alias("idle_ns"),
        F.sum("waiting_ns").alias("waiting_ns"),
        F.min("session_timeout_ms").alias("crash_session_least_ms"),
        F.max("session_timeout_ms").alias("crash_session_ms"),
    )


def session_timeout_lower() -> Column:
    """session.timeout.ms is long: partitions of crashed members wait for its end.

    Where 80 % of the time from a crash to the new owner was that wait, and the timeout
    is 30 s or more. Not of static members, whose timeout has to cover a restart, not
    where static membership is recommended for the same reason, not of a crash loop, and
    not where one single member expired alive. Confidence: by the crashes, times the
    share of the wait, times 0.8.
    """
    waiting = F.col("waiting_ns") / F.when(F.col("idle_ns") > 0, F.col("idle_ns"))
    return recommended(
        LOWER,
        SESSION,
        "client",
        F.col("crashes") >= FEWEST,
        F.col("crash_session_least_ms") >= LONG_MS,
        waiting >= WAITING_SHARE,
        number("alive") == 0,
        ~_is_static(),
        ~_is_loop(),
        suggested=F.lit(SHORT_MS),
        evidence=said(
            "After %d crashes partitions had no reader for %.1f partition-seconds, %.0f"
            " %% of them because the session of %d ms had to expire first; the change"
            " would have saved %.1f. The price: the group removes a member that pauses"
            " for longer. Set heartbeat.interval.ms to at most a third of it.",
            "crashes",
            seconds(F.col("idle_ns")),
            waiting * 100,
            "crash_session_ms",
            saved_s(LOWER),
        ),
        cases=F.col("crashes"),
        downtime_saved_s=saved_s(LOWER),
        confidence=sure(F.col("crashes"), waiting * UNSEEN_PAUSES),
    )


# -- static membership


def _is_static() -> Column:
    is_often = (F.col("back") >= FEWEST) & (made(STATIC) >= FEWEST)
    return is_(is_often) & (saved_s(STATIC) > 0) & ~_is_loop()


def _is_loop() -> Column:
    return number("looping") >= FEWEST


def _is_static_longer() -> Column:
    return _is_static() & is_(_need_ms("back_ns") > F.col("back_session_ms"))


def static_membership() -> Column:
    """group.instance.id (KIP-345): members that go and come back, as in a restart.

    Dynamic members that left or crashed, and whose process was back within ten
    minutes, at least three times, and at a cost of at least three rebalances. Not those
    that left for want of a poll, or were alive when they expired, nor a crash loop,
    which comes first. Only where it saves downtime: the partitions of a static member
    wait for it, so that a slow start may cost more than the rebalances.
    Confidence: by the restarts, times their share of all departures of dynamic members.
    """
    return recommended(
        STATIC,
        INSTANCE,
        "client",
        _is_static(),
        suggested=F.lit("a different one for each member"),
        evidence=said(
            "%d of %d departures were restarts, of %d processes (by name and host):"
            " each was back within %.1f s, as a new member. They caused %d"
            " rebalances; without these, and with their partitions waiting for them"
            " instead, there would have been %.1f partition-seconds less of downtime. A"
            " static member takes its old place if it does not leave when it stops and"
            " session.timeout.ms is at least %d (it was at most %d).",
            "back",
            "departures",
            "back_processes",
            seconds(F.col("back_ns")),
            made(STATIC),
            saved_s(STATIC),
            _need_ms("back_ns"),
            "back_session_ms",
        ),
        cases=F.col("back"),
        rebalances_saved=made(STATIC),
        downtime_saved_s=saved_s(STATIC),
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
        evidence=said(
            "Together with group.instance.id: restarts took at most %.1f s, and"
            " session.timeout.ms was at most %d.",
            seconds(F.col("back_ns")),
            "back_session_ms",
        ),
        cases=F.col("back"),
        confidence=sure(F.col("back"), F.col("back") / F.col("departures")),
    )


def crash_loop() -> Column:
    """A process in a crash loop: it is to be mended before any setting is changed.

    It restarted at least three times in a row, and lived for at most ten minutes in
    between. A static member would spare the others the rebalances, but its partitions
    would wait for a process that does not work. Confidence: by the restarts.
    """
    return recommended(
        LOOP,
        INSTANCE,
        "client",
        _is_loop(),
        suggested=F.concat(
            F.lit("not yet: mend "), F.col("looping_names"), F.lit(" first")
        ),
        evidence=said(
            "%s restarted %d times, again and again within ten minutes: a crash loop,"
            " which caused %d rebalances with %.1f partition-seconds of downtime. Mend"
            " the process first. With group.instance.id its partitions would wait for"
            " it after each crash.",
            "looping_names",
            "looping",
            made(LOOP),
            saved_s(LOOP),
        ),
        cases=F.col("looping"),
        rebalances_saved=made(LOOP),
        downtime_saved_s=saved_s(LOOP),
        confidence=sure(F.col("looping")),
    )
