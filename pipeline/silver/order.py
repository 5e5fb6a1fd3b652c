"""Shared by the tables of silver: the order of events, windows along it, schemas.

All windows run from the start of their rows to the current one: later rows are found
by looking back along the reversed order, or by counting.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as f

from kohort.pipeline.table_functions import EVENTS, Frames

IN_ORDER: Final = ("time_ns", "node", "sequence")
"""The columns that events of a run are in order by."""
GONE: Final = ("member_left", "member_expired", "member_kicked")
"""Kinds of events that end a member's time, unless it was pending; the fourth,
member_replaced, names the member in another field."""


def of_kinds(frames: Frames, *kinds: str) -> DataFrame:
    """The events of groups that have one of these kinds."""
    kind, group = f.col("kind"), f.col("group")
    return frames[EVENTS].where(kind.isin(*kinds) & group.isNotNull())


def is_pending() -> Column:
    """True if an event is about a pending member."""
    return f.coalesce(f.col("was_pending"), f.lit(False))


def along(*keys: str) -> WindowSpec:
    """The rows with the same keys, in order."""
    return Window.partitionBy(*keys).orderBy(*IN_ORDER)


def up_to_here(window: WindowSpec) -> WindowSpec:
    """From the first row to the current one."""
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def down(frames: Frames) -> DataFrame:
    """The rows of silver/unread that are downtime."""
    return frames["silver/unread"].where("cause not in ('group_empty', 'work_ended')")
