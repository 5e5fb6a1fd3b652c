"""Silver: groups in intervals and rows; one pure function per table.

Native expressions only, and nothing that depends on the order in which rows come.
`kohort.pipeline.tables.silver` has the meaning of each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.pipeline.silver.accounts import (
    moves,
    pauses,
    rebalances,
    returns,
    unread,
)
from kohort.pipeline.silver.commits import commits, lag_changes, lags
from kohort.pipeline.silver.delivery import delivery
from kohort.pipeline.silver.findings import findings
from kohort.pipeline.silver.memberships import memberships
from kohort.pipeline.silver.ownership import ownership
from kohort.pipeline.silver.refusals import refusals
from kohort.pipeline.silver.runs import runs
from kohort.pipeline.silver.transactions import transactions
from kohort.pipeline.table_functions import TableFunction

TABLE_FUNCTIONS: Final[Mapping[str, TableFunction]] = MappingProxyType(
    {
        "silver/runs": runs,
        "silver/rebalances": rebalances,
        "silver/memberships": memberships,
        "silver/ownership": ownership,
        "silver/pauses": pauses,
        "silver/unread": unread,
        "silver/returns": returns,
        "silver/commits": commits,
        "silver/delivery": delivery,
        "silver/refusals": refusals,
        "silver/moves": moves,
        "silver/lag_changes": lag_changes,
        "silver/lags": lags,
        "silver/transactions": transactions,
        "silver/findings": findings,
    }
)
"""Table functions by path, each after the tables that it reads."""
