"""Every table of silver and gold, every column, and the definition of each number.

The schemas, the checks of the tests and the page in the documents are made from here.
An implementation in another language needs these words alone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kohort.pipeline.tables.gold import GOLD_TABLES
from kohort.pipeline.tables.silver import SILVER_TABLES
from kohort.pipeline.tables.table import GOLD, SILVER, Column, Table, view

__all__ = ["BY_PATH", "GOLD", "SILVER", "TABLES", "Column", "Table", "view"]

TABLES: Final = (*SILVER_TABLES, *GOLD_TABLES)
"""All of them; a table comes after those that it is made from."""

BY_PATH: Final = MappingProxyType({table.path: table for table in TABLES})
"""The same by ``silver/rebalances`` and so on."""
