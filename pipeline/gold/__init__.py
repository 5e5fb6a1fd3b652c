"""Gold: the numbers that a platform team decides by, per hour, group and run.

Each table is a pure function of the tables before it. gold/quality is made elsewhere:
it is about the data, not about groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.pipeline.gold import (
    causes,
    culprits,
    findings,
    initial_delay,
    metrics,
    storms,
    transactions,
)
from kohort.pipeline.table_functions import TableFunction

TABLE_FUNCTIONS: Final[Mapping[str, TableFunction]] = MappingProxyType(
    {
        "gold/hours": metrics.hours,
        "gold/groups": metrics.groups,
        "gold/runs": metrics.runs,
        "gold/causes": causes.causes,
        "gold/storms": storms.storms,
        "gold/culprits": culprits.culprits,
        "gold/waited_for": culprits.waited_for,
        "gold/initial_delay": initial_delay.initial_delay,
        "gold/transactions": transactions.transactions,
        "gold/findings": findings.findings,
    }
)
"""Table functions by path, in order: each may read the tables before it."""
