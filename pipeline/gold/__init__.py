"""Gold: the numbers that a platform team decides by, per hour, group and run.

Most tables are SQL, `kohort.pipeline.tables`; here are the functions of the others.
gold/quality is made elsewhere: it is about the data, not about groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.pipeline.gold import metrics
from kohort.pipeline.table_functions import TableFunction, functions
from kohort.pipeline.tables import GOLD

TABLE_FUNCTIONS: Final[Mapping[str, TableFunction]] = MappingProxyType(
    functions(
        GOLD,
        {
            "gold/hours": metrics.hours,
            "gold/groups": metrics.groups,
            "gold/runs": metrics.runs,
        },
    )
)
"""Table functions by path, in order: each may read the tables before it."""
