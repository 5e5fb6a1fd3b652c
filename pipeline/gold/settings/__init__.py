"""Settings that would help a group, one rule each.

The rules, their thresholds and how sure each is: docs/pipeline-settings.md.

No rule is about heartbeat.interval.ms: clients do not send theirs, and a group whose
members learn late of a rebalance looks to a broker like one whose members poll late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.settings import (
    assignments,
    limits,
    members,
    polling,
    sessions,
)
from kohort.pipeline.table_functions import GROUP, Frames, Options, shaped

RULES: Final[tuple[Callable[[], Column], ...]] = (
    limits.initial_delay_played,
    limits.initial_delay_seen,
    sessions.static_membership,
    sessions.static_session_timeout,
    sessions.session_timeout_higher,
    sessions.session_timeout_lower,
    assignments.cooperative_rebalancing,
    assignments.sticky_assignor,
    polling.max_poll_interval,
    polling.slow_to_rejoin,
    limits.group_max_size,
    limits.runaway_deployment,
    assignments.commit_on_revocation,
)
"""Each reads the numbers of a group, and makes a row of gold/settings, or null. Rules
that could contradict each other (session.timeout.ms) read each other's numbers, too."""


def settings(frames: Frames, options: Options) -> DataFrame:
    """gold/settings."""
    said = F.explode(F.array_compact(F.array(*(rule() for rule in RULES))))
    rows = numbers(frames).select(*GROUP, said.alias("said"))
    return shaped(rows.select(*GROUP, "said.*"), "gold/settings")


def numbers(frames: Frames) -> DataFrame:
    """All that rules know: one row for each group."""
    lives = members.lives(frames)
    newcomers = limits.arrivals(frames)
    parts = [
        frames["gold/groups"].select(*GROUP, "members_most"),
        members.of_members(lives),
        members.caused(frames, lives, newcomers),
        sessions.of_crashes(frames),
        polling.of_waits(frames),
        assignments.of_moves(frames),
        assignments.of_commits(frames),
        limits.of_arrivals(newcomers),
        limits.of_pairs(frames),
        limits.of_refusals(frames),
    ]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    known = (
        F.first(name, ignorenulls=True).alias(name)
        for name in rows.columns
        if name not in GROUP
    )
    # Each number has one row at the most that knows it.
    return rows.groupBy(*GROUP).agg(*known)
