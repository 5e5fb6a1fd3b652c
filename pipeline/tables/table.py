"""A table of silver or gold, and the terms in the descriptions of tables.

Terms:

- *in order*: sorted by (time_ns, node, sequence), within a run.
- *the run's end*: the greatest time_ns of the run's events.
- An interval reaches from ``from_ns`` (inclusive) to ``until_ns`` (exclusive). Null:
  it had not ended at the run's end, and counts up to there.
- Times are ns since the epoch on the broker's clock; ``_s`` are seconds.
- *owner*: identifies a member across restarts: its instance id, or else its member id.
- *name*: for display: its instance id, or else its client id, or else its member id.
- A member is *eager* unless all assignors that it supports are cooperative (KIP-429),
  see [why](why.md).
- *accepted*: a row of an ``offsets_committed``; *refused*: of a ``commit_refused``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SILVER: Final = "silver"
GOLD: Final = "gold"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: its name; ends with the unit, if it has one.
        type: as SQL spells it.
        says: its meaning.
    """

    name: str
    type: str
    says: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        name: its name, without the layer.
        layer: `SILVER` or `GOLD`.
        says: the meaning of a row.
        key: the columns that identify a row.
        columns: all of them, in order.
        sql: the query that makes it; empty: a function does.
    """

    name: str
    layer: str
    says: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    sql: str = ""

    @property
    def path(self) -> str:
        """Its path in a build: ``silver/rebalances``."""
        return f"{self.layer}/{self.name}"

    @property
    def ddl(self) -> str:
        """Its columns, as SQL spells them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def schema(self) -> StructType:
        """Its columns in Spark; all may be null. Needs a session."""
        return schema_of(self.ddl)


@functools.cache
def schema_of(ddl: str) -> StructType:
    """Columns as SQL spells them. Needs a session, which parses them once."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def view(table: Table | str) -> str:
    """The name of a table, or of its path, in SQL: ``gold_hours``."""
    path = table if isinstance(table, str) else table.path
    return path.replace("/", "_")
