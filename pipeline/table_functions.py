"""The type of the functions that compute tables, and of their arguments.

A table is a pure function of the tables before it, whether events came from files or
from a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP: Final = ("run", "group")
"""The columns that tell groups apart."""
EVENTS: Final = "bronze/events"
"""The path of the table that all others are made from."""


@dataclass(frozen=True, slots=True)
class Options:
    """The user's settings of tables.

    Attributes:
        storm_rebalances: rebalances that count as a storm
        storm_seconds: when they start within this many seconds.
    """

    storm_rebalances: int = 5
    storm_seconds: float = 60.0


Frames = Mapping[str, "DataFrame"]
"""Tables by their paths: `EVENTS`, and those of `kohort.pipeline.tables`."""
TableFunction = Callable[[Frames, Options], "DataFrame"]
"""Computes a table of those before it, with the columns of the table's schema."""


def shaped(frame: DataFrame, path: str) -> DataFrame:
    """The columns of a table, in its order, with its types; others are left out."""
    from pyspark.sql import functions as sql

    return frame.select(
        *[
            sql.col(column.name).cast(column.type).alias(column.name)
            for column in BY_PATH[path].columns
        ]
    )
