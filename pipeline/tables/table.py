"""A table of silver or gold, and the terms that descriptions of tables use.

Terms:

- *in order*: by (time_ns, node, sequence), within a run.
- *the run's end*: the greatest time_ns of the run's events.
- An interval reaches from ``from_ns`` (inclusive) to ``until_ns`` (exclusive). Null:
  it lasted at the run's end, and counts up to there.
- Times are ns since the epoch on the broker's clock; ``_s`` are seconds.
- *owner*: who a member is across restarts: its instance id, else its member id.
- *name*: what people call it: its instance id, else its client id, else its member id.
- A member is *eager* unless all assignors that it supports are cooperative (KIP-429),
  see [why](why.md).
- *accepted*: a row of an ``offsets_committed``; *refused*: of a ``commit_refused``.
"""

from __future__ import annotations

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
        name: its name; ends with the unit, where it has one.
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
        key: the columns that tell rows apart.
        columns: all of them, in order.
    """

    name: str
    layer: str
    says: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def path(self) -> str:
        """Its path in a build: ``silver/rebalances``."""
        return f"{self.layer}/{self.name}"

    @property
    def ddl(self) -> str:
        """Its columns, as SQL spells them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def schema(self) -> StructType:
        """Its columns, as Spark has them; all may be null. Needs a session."""
        from pyspark.sql.types import StructType

        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType)
        return schema


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Columns of (name, type, meaning)."""
    return tuple(Column(*row) for row in rows)


GROUP: Final = columns(
    ("run", "string", "the start of the broker"), ("group", "string", "the group's id")
)
MEMBER: Final = columns(
    ("member_id", "string", "the member's id"),
    ("owner", "string", "see Terms"),
    ("name", "string", "see Terms"),
)
