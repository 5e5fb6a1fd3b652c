"""Silver: groups in intervals and rows.

Most tables are SQL, `kohort.pipeline.tables`; here are the functions of the others.
Native expressions only, and nothing that depends on the order in which rows come.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.pipeline.silver.lags import lag_changes, lags
from kohort.pipeline.silver.memberships import memberships
from kohort.pipeline.silver.transactions import transactions
from kohort.pipeline.table_functions import TableFunction, functions
from kohort.pipeline.tables import SILVER

TABLE_FUNCTIONS: Final[Mapping[str, TableFunction]] = MappingProxyType(
    functions(
        SILVER,
        {
            "silver/memberships": memberships,
            "silver/lag_changes": lag_changes,
            "silver/lags": lags,
            "silver/transactions": transactions,
        },
    )
)
"""Table functions by path, each after the tables that it reads."""
