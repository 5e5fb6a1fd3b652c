"""How tables are made: pure functions of the tables before them.

The same functions make them of a folder of files and of a stream's micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS: Final = "bronze/events"
"""The path of the table that all others are made from."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may set about the tables.

    Attributes:
        storm_rebalances: so many rebalances are a storm,
        storm_seconds: if they start within so many seconds.
    """

    storm_rebalances: int = 5
    storm_seconds: float = 60.0


Frames = Mapping[str, "DataFrame"]
"""Tables by their paths: `EVENTS`, and those of `kohort.pipeline.tables`."""
Maker = Callable[[Frames, Options], "DataFrame"]
"""Makes a table of those before it; its columns are those of the table's schema."""
