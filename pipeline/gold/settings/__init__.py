"""Settings that would help a group, one rule each.

The rules, their thresholds and how sure each is: docs/reference/pipeline-settings.md.

No rule is about heartbeat.interval.ms: clients do not send theirs, and a group whose
members learn late of a rebalance looks to a broker like one whose members poll late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kohort.pipeline.gold.settings import (
    assignments,
    limits,
    members,
    polling,
    savings,
    sessions,
)
from kohort.pipeline.table_functions import (
    GROUP,
    Frames,
    Options,
    by,
    kept,
    shaped,
    together,
)

RULES: Final[tuple[Callable[[], Column], ...]] = (
    limits.initial_delay_played,
    limits.initial_delay_seen,
    sessions.crash_loop,
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
    lives = kept(members.lives(frames))
    newcomers = limits.arrivals(frames)
    endings = members.endings(frames)
    moves = assignments.moves(frames, endings)
    crashes = sessions.crashes(frames, endings)
    waits = polling.long_waits(frames, endings)
    of_waits = polling.of_waits(waits)
    saved = kept(
        reduce(
            DataFrame.unionByName,
            [
                savings.avoided(frames, lives, newcomers),
                savings.costs(frames, lives),
                sessions.earlier(crashes),
                polling.shortened(frames, waits, of_waits),
                assignments.kept(moves),
            ],
        )
    )
    parts = [
        frames["gold/groups"].select(*GROUP, "members_most"),
        savings.of_rules(saved),
        members.of_members(lives),
        sessions.of_crashes(crashes),
        of_waits,
        assignments.of_moves(moves),
        assignments.of_commits(frames),
        limits.of_arrivals(newcomers),
        limits.of_pairs(frames),
        limits.of_refusals(frames),
    ]
    told = F.explode(F.array_compact(F.array(*(rule() for rule in RULES))))
    # The local engine plans each half faster than both together.
    told_rows = kept(_numbers(parts)).select(*GROUP, told.alias("said"))
    said = kept(told_rows.select(*GROUP, "said.*"))
    shared = savings.saved_together(frames, said, saved)
    return shaped(said.join(shared, [*GROUP], "left"), "gold/settings")


def _numbers(parts: Sequence[DataFrame]) -> DataFrame:
    """All that rules know: one row for each group."""
    names = dict.fromkeys(name for part in parts for name in part.columns)
    known = (
        F.first(name, ignorenulls=True).alias(name)
        for name in names
        if name not in GROUP
    )
    # Each number has one row at the most that knows it.
    return together(*parts).groupBy(*by(*GROUP)).agg(*known)
