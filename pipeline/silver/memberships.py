"""silver/memberships: one row per member, from its first event to its end."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kohort.pipeline.event_schema import WORDS
from kohort.pipeline.silver.order import GONE, IN_ORDER, is_pending, of_kinds
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped, together

FORGOTTEN: Final = "unseen"
"""The end of a member that a coordinator, which had moved, did not load."""

_OFFERS: Final = ("member_joined", "member_replaced")
_HAVE: Final = (*_OFFERS, "member_synced", "partitions_changed")
"""Kinds of events that have their member_id as a member."""
_LIST: Final = ("rebalance_started", "join_completed", "group_loaded")
"""Kinds of events that list members."""


# Not SQL: a dozen columns are the first or last value in order of three unlike sources.
def memberships(frames: Frames, _options: Options) -> DataFrame:
    """One row per member id.

    A member of which a coordinator that moved still knows, though its end was seen,
    is there again: the last of its ends counts, and none if it was loaded after that.
    """
    partial = together(_introduced(frames), _listed(frames), _ended(frames))
    whole = (
        partial.groupBy(*by(*GROUP, "member_id"))
        .agg(
            f.min("from_ns").alias("from_ns"),
            f.max("is_start_known").alias("is_start_known"),
            _first("instance_id"),
            _first("client_id"),
            _first("host"),
            _first("connection"),
            _last("connection").alias("last_connection"),
            _first("offer"),
            f.max("end").alias("end"),
        )
        .where(f.col("from_ns").isNotNull())
        .join(f.broadcast(_loads(frames)), [*GROUP], "left")
        .withColumn("forgotten_ns", _forgotten_ns())
    )
    is_cooperative = f.forall(
        f.col("offer.protocols"), lambda name: name.isin(*WORDS["cooperative"])
    )
    found = whole.select(
        *GROUP,
        "member_id",
        "instance_id",
        "client_id",
        "host",
        "connection",
        "last_connection",
        "from_ns",
        f.coalesce("instance_id", "member_id").alias("owner"),
        f.coalesce("instance_id", "client_id", "member_id").alias("name"),
        (~is_cooperative).alias("is_eager"),
        f.col("offer.session_timeout_ms").alias("session_timeout_ms"),
        f.col("offer.rebalance_timeout_ms").alias("rebalance_timeout_ms"),
        f.coalesce("is_start_known", f.lit(False)).alias("is_start_known"),
        f.coalesce("end.until_ns", "forgotten_ns").alias("until_ns"),
        f.when(f.col("forgotten_ns").isNotNull(), FORGOTTEN)
        .otherwise(f.col("end.how"))
        .alias("how"),
        f.col("end.reason").alias("reason"),
        f.col("end.silent_ns").alias("silent_ns"),
    )
    return shaped(found, "silver/memberships")


def _loads(frames: Frames) -> DataFrame:
    """The times at which each group was loaded: few, as moves are few."""
    loaded = of_kinds(frames, "group_loaded")
    return loaded.groupBy(*by(*GROUP)).agg(f.collect_list("time_ns").alias("loads"))


def _forgotten_ns() -> Column:
    """The first load without a member that has no end; null: each load had it."""
    # Without one, "end" has when it was loaded last; null: it never was.
    since_ns = f.coalesce("end.time_ns", "from_ns")
    later = f.filter("loads", lambda time_ns: time_ns > since_ns)
    return f.when(f.col("end.how").isNull(), f.array_min(later))


def _first(name: str) -> Column:
    """The first value in order that is not null."""
    row = f.struct(*IN_ORDER, f.col(name).alias("value"))
    return f.min(f.when(f.col(name).isNotNull(), row))["value"].alias(name)


def _last(name: str) -> Column:
    """The last value in order that is not null."""
    row = f.struct(*IN_ORDER, f.col(name).alias("value"))
    return f.max(f.when(f.col(name).isNotNull(), row))["value"]


def _introduced(frames: Frames) -> DataFrame:
    """The details that events give of their member.

    A member says the same of itself nearly each time, so that grouping by that leaves
    few rows, by hashing alone. Within a node the smallest number has the smallest time.
    """
    kind = f.col("kind")
    is_start = (kind == "member_replaced") | (
        (kind == "member_joined") & f.coalesce("is_first", f.lit(False))
    )
    offer = f.struct("protocols", "session_timeout_ms", "rebalance_timeout_ms")
    return (
        of_kinds(frames, *_HAVE, *GONE)
        .where(f.col("member_id").isNotNull() & ~is_pending())
        .select(
            *(*GROUP, "member_id", *IN_ORDER),
            *("instance_id", "client_id", "host", "connection"),
            f.when(kind.isin(*_OFFERS), offer).alias("offer"),
            f.when(kind.isin(*_HAVE), f.col("time_ns")).alias("from_ns"),
            is_start.alias("is_start"),
        )
        .groupBy(
            *by(
                *(*GROUP, "member_id", "node"),
                *("instance_id", "client_id", "host", "connection", "offer"),
            )
        )
        .agg(
            f.min("time_ns").alias("time_ns"),
            f.min("sequence").alias("sequence"),
            f.min("from_ns").alias("from_ns"),
            f.max("is_start").alias("is_start_known"),
        )
    )


def _listed(frames: Frames) -> DataFrame:
    """The first time that a list of members has each."""
    return (
        of_kinds(frames, *_LIST)
        .select(*GROUP, "time_ns", f.explode("members").alias("member_id"))
        .groupBy(*by(*GROUP, "member_id"))
        .agg(f.min("time_ns").alias("from_ns"))
    )


def _ended(frames: Frames) -> DataFrame:
    """The ends of members, and when they were loaded, which takes an end back."""
    kind = f.col("kind")
    gone = of_kinds(frames, *GONE).where(~is_pending())
    how = (
        f.when(kind == "member_left", f.coalesce("cause", f.lit("left")))
        .when(f.col("cause") == "commanded", "commanded")
        .when(kind == "member_expired", "expired")
        .otherwise("kicked")
    )
    replaced = of_kinds(frames, "member_replaced")
    loaded = of_kinds(frames, "group_loaded").withColumn("id", f.explode("members"))
    nothing = f.lit(None)
    return (
        gone.select(*GROUP, "member_id", _end("time_ns", how, "reason", "silent_ns"))
        .unionByName(
            replaced.select(
                *GROUP,
                f.col("replaced_member_id").alias("member_id"),
                _end("time_ns", f.lit("replaced"), "reason", "silent_ns"),
            )
        )
        .unionByName(
            loaded.select(
                *GROUP,
                f.col("id").alias("member_id"),
                _end(nothing, nothing, nothing, nothing),
            )
        )
    )


def _end(
    until: Column | str, how: Column, reason: Column | str, silent: Column | str
) -> Column:
    """The greatest of these is the last in order."""
    values = [
        f.col(value) if isinstance(value, str) else value
        for value in (until, how, reason, silent)
    ]
    return f.struct(
        *IN_ORDER,
        values[0].cast("bigint").alias("until_ns"),
        values[1].cast("string").alias("how"),
        values[2].cast("string").alias("reason"),
        values[3].cast("bigint").alias("silent_ns"),
    ).alias("end")
