"""The metrics of groups in hours, of groups, and of runs: one implementation.

Hours are made from silver. Sums and maxima of groups and runs are taken from hours.
Percentiles and numbers of different names, which do not add up, are computed anew at
each grain by the same function of the key columns, from tables that are small. The
events themselves are read once, for the hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.columns import (
    at_hour,
    clipped,
    counted,
    durations,
    hour_of,
    nanoseconds,
    seconds,
)
from kohort.pipeline.gold.downtime import in_work
from kohort.pipeline.silver.order import down, of_kinds
from kohort.pipeline.table_functions import (
    EVENTS,
    GROUP,
    Frames,
    Options,
    by,
    query,
    shaped,
    together,
)
from kohort.pipeline.tables import VIEWS

HOUR: Final = (*GROUP, "hour")
FULL: Final = ("full", "group_over_max_size")
"""Causes of refusals by a full group (KIP-389)."""

_DELIVERED: Final = (
    "received",
    "again_certain",
    "again_possible",
    "skipped",
    "went_back",
)
"""Numbers of the account of delivery."""
_NUMBERS: Final = (
    "rebalances",
    "completed",
    "interrupted",
    "storms",
    "storm_rebalances",
    "refused_full",
    "partitions_moved",
    "partitions_moved_least",
    "expired",
    "metadata_bytes",
    "assignment_bytes",
    "commits",
    "offsets",
    "commit_failures",
    *_DELIVERED,
    "lag_built",
)
"""Numbers that add up."""
_TIMES: Final = (
    "downtime",
    "unprocessed",
    "partition",
    "paused",
    "member",
    "expired_unread",
)
"""Times that add up: in ns while they are added, then in seconds."""
_MOST: Final = ("members_most", "lag_built_max")
"""The largest of something: of hours the largest is that of all."""
_LONGEST: Final = ("duration_max", "expired_unread_max", "catch_up_max")
"""The same, of times."""


# -- hours


# Not SQL: percentiles and shares are those of groups and runs, by other keys.
def hours(frames: Frames, options: Options) -> DataFrame:
    """gold/hours."""
    parts = [
        _rebalances(frames),
        _storms(frames, options),
        _refusals(frames),
        _intervals(frames, frames["silver/pauses"], "paused_ns"),
        _intervals(frames, frames["silver/memberships"], "member_ns"),
        _intervals(frames, in_work(frames), "partition_ns", F.col("partitions")),
        _expired(frames),
        _expired_unread(frames),
        _moves(frames),
        _lags(frames),
    ]
    of_silver = together(*parts).groupBy(*by(*HOUR)).agg(*_sums(), *_maxima())
    of_events = _events(frames[EVENTS])
    # An hour with an event need not have a member, nor one with members an event.
    both = of_silver.join(of_events, [*HOUR], "full")
    for more in (_downtime(frames), _uncommitted(frames), _exact(frames, HOUR)):
        both = both.join(more, [*HOUR], "left")
    return _finished(both, "gold/hours")


def _sums() -> list[Column]:
    taken = {"commits", "offsets", "commit_failures", *_DELIVERED}  # from events
    taken.add("downtime_ns")  # from its causes
    names = [name for name in (*_NUMBERS, *_ns(_TIMES)) if name not in taken]
    return [F.sum(name).alias(name) for name in names]


def _maxima() -> list[Column]:
    return [F.max(name).alias(name) for name in (*_MOST, *_ns(_LONGEST))]


def _ns(names: Sequence[str]) -> list[str]:
    return [f"{name}_ns" for name in names]


def _in_hour(frame: DataFrame, column: str, **values: Column) -> DataFrame:
    """Narrow rows for the union: the keys, and some of the numbers."""
    named = (value.cast("bigint").alias(name) for name, value in values.items())
    return frame.select(*GROUP, hour_of(column).alias("hour"), *named)


def _one_if(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)


def _is_completed() -> Column:
    return F.col("outcome") == "completed"


def _rebalances(frames: Frames) -> DataFrame:
    done = _is_completed()
    return _in_hour(
        frames["silver/rebalances"],
        "started_ns",
        rebalances=F.lit(1),
        completed=_one_if(done),
        interrupted=_one_if(F.col("outcome") == "interrupted"),
        duration_max_ns=F.when(done, F.col("duration_ns")),
        members_most=F.when(done & F.col("members").isNotNull(), F.size("members")),
        metadata_bytes=F.when(done, F.col("metadata_bytes")),
        assignment_bytes=F.when(done, F.col("assignment_bytes")),
        unprocessed_ns=F.col("unprocessed_ns"),
    )


def _storms(frames: Frames, options: Options) -> DataFrame:
    storms = query(frames, options, VIEWS["storms"])
    begun = storms.groupBy(*by(*GROUP, "storm")).agg(
        F.min("started_ns").alias("from_ns"), F.count("*").alias("rebalances")
    )
    return _in_hour(
        begun, "from_ns", storms=F.lit(1), storm_rebalances=F.col("rebalances")
    )


def _refused_full(frames: Frames) -> DataFrame:
    return frames["silver/refusals"].where(F.col("cause").isin(*FULL))


def _refusals(frames: Frames) -> DataFrame:
    return _in_hour(_refused_full(frames), "time_ns", refused_full=F.lit(1))


def _intervals(
    frames: Frames, rows: DataFrame, name: str, weight: Column | None = None
) -> DataFrame:
    parts = clipped(rows, frames["silver/runs"], weight)
    return parts.withColumnRenamed("ns", name)


def _downtime(frames: Frames) -> DataFrame:
    """Downtime of hours: every one of them has partitions, too, see `in_work`."""
    parts = clipped(
        down(frames), frames["silver/runs"], F.col("partitions"), F.col("cause")
    )
    by_cause = parts.groupBy(*by(*HOUR, "cause")).agg(F.sum("ns").alias("ns"))
    return by_cause.groupBy(*by(*HOUR)).agg(
        F.sum("ns").alias("downtime_ns"),
        counted(F.col("cause"), seconds(F.col("ns"))).alias("downtime_by_cause"),
    )


def _expired(frames: Frames) -> DataFrame:
    expired = frames["silver/memberships"].where("how = 'expired'")
    return _in_hour(expired, "until_ns", expired=F.lit(1))


def _expired_unread(frames: Frames) -> DataFrame:
    """A row per member that expired: several accounts may have a part of it."""
    expired = (
        frames["silver/unread"]
        .where("cause = 'expired'")
        .groupBy(*by(*GROUP, "member_id"))
        .agg(
            F.min("from_ns").alias("from_ns"),
            F.max("until_ns").alias("until_ns"),
            F.sum("unread_ns").alias("unread_ns"),
        )
    )
    return _in_hour(
        expired,
        "from_ns",
        expired_unread_ns=F.col("unread_ns"),
        expired_unread_max_ns=F.col("until_ns") - F.col("from_ns"),
    )


def _moves(frames: Frames) -> DataFrame:
    return _in_hour(
        frames["silver/moves"],
        "started_ns",
        partitions_moved=F.col("moved"),
        partitions_moved_least=F.col("least_moved"),
    )


def _lags(frames: Frames) -> DataFrame:
    return _in_hour(
        frames["silver/lags"],
        "started_ns",
        lag_built=F.col("lag_built"),
        lag_built_max=F.col("lag_built"),
        catch_up_max_ns=F.col("catch_up_ns"),
    )


def _events(events: DataFrame) -> DataFrame:
    """Hours that have events, commits, and delivery: one pass over the largest table.

    Commits without offsets count, too, so it is events that are counted.
    """
    accepted = F.col("kind") == "offsets_committed"
    refused = F.col("kind") == "commit_refused"
    # Of the offsets one field is enough, and is all that is read of them.
    offsets = F.coalesce(F.size("offsets.offset"), F.lit(0))
    is_account = F.col("kind") == "delivery_account"
    return (
        events.where("`group` is not null")
        .groupBy(
            *by(
                *GROUP,
                hour_of("time_ns").alias("hour"),
                F.when(refused, F.col("error")).alias("error"),
            )
        )
        .agg(
            F.count_if(accepted).alias("commits"),
            F.sum(F.when(accepted, offsets)).alias("offsets"),
            F.count_if(refused).alias("commit_failures"),
            *(
                F.sum(F.when(is_account, F.col(name))).alias(name)
                for name in _DELIVERED[:-1]
            ),
            F.sum(F.size("rewinds.offset")).alias("went_back"),
        )
        .groupBy(*by(*HOUR))
        .agg(
            *(F.sum(n).alias(n) for n in ("commits", "offsets", *_DELIVERED)),
            F.sum("commit_failures").alias("commit_failures"),
            counted(F.col("error"), F.col("commit_failures")).alias(
                "commit_failures_by_error"
            ),
        )
    )


def _uncommitted(frames: Frames) -> DataFrame:
    """Of each group the number in its last account of the hour.

    Apart from `_events`: an aggregate of structs makes Spark sort all of its rows.
    """
    last = F.max(F.struct("time_ns", "node", "sequence", "uncommitted"))
    accounts = of_kinds(frames, "delivery_account")
    return (
        accounts.groupBy(*by(*GROUP, hour_of("time_ns").alias("hour")))
        .agg(last.alias("last"))
        .select(*HOUR, "last.uncommitted")
    )


# -- metrics that cannot be summed over hours


def _exact(frames: Frames, keys: Sequence[str]) -> DataFrame:
    """Percentiles, different names and causes, by any keys.

    One union of narrow rows, so that all of them take one shuffle.
    """
    rebalances = at_hour(frames["silver/rebalances"], "started_ns", keys)
    names = at_hour(_refused_full(frames), "time_ns", keys).where("name is not null")
    lags = at_hour(frames["silver/lags"], "started_ns", keys)
    rows = together(
        rebalances.where(_is_completed()).select(*keys, "duration_ns"),
        rebalances.groupBy(*by(*keys, "cause")).agg(F.count("*").alias("times")),
        lags.where("catch_up_ns is not null").select(*keys, "catch_up_ns"),
        names.select(*keys, "name").distinct(),
    )
    return rows.groupBy(*by(*keys)).agg(
        *durations(F.col("duration_ns").isNotNull()),
        counted(F.col("cause"), F.col("times")).alias("by_cause"),
        seconds(F.percentile("catch_up_ns", F.lit(0.5))).alias("catch_up_p50_s"),
        F.count("name").alias("refused_full_names"),
    )


# -- groups and runs


# Not SQL: the sums of runs, and the percentiles of hours, by other keys.
def groups(frames: Frames, options: Options) -> DataFrame:
    """gold/groups: every group that has an event has hours."""
    return _finished(_rolled_up(frames, GROUP), "gold/groups")


# Not SQL: the sums of groups, and the percentiles of hours, by other keys.
def runs(frames: Frames, options: Options) -> DataFrame:
    """gold/runs: with or without groups."""
    metrics = _rolled_up(frames, ("run",))
    about = frames["silver/runs"].drop("nodes")
    return _finished(about.join(metrics, "run", "left"), "gold/runs")


def _rolled_up(frames: Frames, keys: Sequence[str]) -> DataFrame:
    of_hours = frames["gold/hours"]
    times = {name: f"{name}_s" for name in (*_TIMES, *_LONGEST)}
    sums = of_hours.groupBy(*by(*keys)).agg(
        *(F.sum(name).alias(name) for name in _NUMBERS),
        *(F.max(name).alias(name) for name in _MOST),
        *(F.sum(nanoseconds(F.col(times[n]))).alias(f"{n}_ns") for n in _TIMES),
        *(F.max(nanoseconds(F.col(times[n]))).alias(f"{n}_ns") for n in _LONGEST),
    )
    for more in (
        _exact(frames, keys),
        _last_uncommitted(of_hours, keys),
        _added(of_hours, "commit_failures_by_error", keys),
        _added(of_hours, "downtime_by_cause", keys, is_time=True),
    ):
        sums = sums.join(more, [*keys], "left")
    return sums


def _last_uncommitted(of_hours: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Of each group the number in its last hour with one, added up."""
    known = of_hours.where("uncommitted is not null")
    last = known.groupBy(*by(*GROUP)).agg(
        F.max_by("uncommitted", "hour").alias("uncommitted")
    )
    return last.groupBy(*by(*keys)).agg(F.sum("uncommitted").alias("uncommitted"))


def _added(
    of_hours: DataFrame, name: str, keys: Sequence[str], *, is_time: bool = False
) -> DataFrame:
    """A map of hours, its values added up; see `nanoseconds` for those of times."""
    value = F.sum("value")
    if is_time:
        value = seconds(F.sum(nanoseconds(F.col("value"))))
    return (
        of_hours.select(*keys, F.explode(name))
        .groupBy(*by(*keys, "key"))
        .agg(value.alias("total"))
        .groupBy(*by(*keys))
        .agg(counted(F.col("key"), F.col("total")).alias(name))
    )


# -- at each grain


def _finished(frame: DataFrame, path: str) -> DataFrame:
    """Replaces missing counts by zeros and ns by seconds, and adds the shares."""
    numbers = (*_NUMBERS, "members_most", "refused_full_names", *_ns(_TIMES))
    known = frame.withColumns(
        {name: F.coalesce(F.col(name), F.lit(0)) for name in numbers}
    )
    times = {f"{n}_s": seconds(F.col(f"{n}_ns")) for n in (*_TIMES, *_LONGEST)}
    size = F.col("metadata_bytes") + F.col("assignment_bytes")
    shares = {
        "downtime_share": _share(F.col("downtime_s"), F.col("partition_s")),
        "bytes_per_rebalance": _share(size, F.col("completed")),
    }
    return shaped(known.withColumns(times).withColumns(shares), path)


def _share(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, part / whole)
