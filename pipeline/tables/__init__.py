"""Every table of silver and gold, every column, and the definition of each number.

The schemas, the checks of the tests and the page in the documents are made from here.
An implementation in another language needs these words alone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kohort.pipeline.tables.files import read, views
from kohort.pipeline.tables.table import GOLD, SILVER, Column, Table, view

__all__ = ["BY_PATH", "GOLD", "SILVER", "TABLES", "VIEWS", "Column", "Table", "view"]

_SILVER: Final = (
    *("runs", "rebalances", "memberships", "ownership", "pauses", "unread"),
    *("returns", "commits", "delivery", "refusals", "moves", "lag_changes", "lags"),
    *("transactions", "findings"),
)
_GOLD: Final = (
    *("hours", "groups", "runs", "causes", "storms", "culprits", "waited_for"),
    *("initial_delay", "transactions", "findings", "quality"),
)
TABLES: Final = tuple(
    read(f"{layer}/{name}")
    for layer, names in ((SILVER, _SILVER), (GOLD, _GOLD))
    for name in names
)
"""All of them; a table comes after those that it is made from."""

BY_PATH: Final = MappingProxyType({table.path: table for table in TABLES})
"""The same by ``silver/rebalances`` and so on."""
VIEWS: Final = views()
"""Queries that several tables read, by their names in SQL."""
