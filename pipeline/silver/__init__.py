"""Silver: what groups did, in intervals and rows; one pure function per table.

Native expressions only, and nothing that depends on the order in which rows come.
`kohort.pipeline.tables.silver` says what each column means.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.pipeline.makers import Maker
from kohort.pipeline.silver.commits import commits, lags, reprocessed
from kohort.pipeline.silver.members import memberships
from kohort.pipeline.silver.moves import moves
from kohort.pipeline.silver.ownership import ownership
from kohort.pipeline.silver.rebalances import rebalances
from kohort.pipeline.silver.refusals import refusals
from kohort.pipeline.silver.runs import runs
from kohort.pipeline.silver.stand_stills import stand_stills

MAKERS: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "silver/runs": runs,
        "silver/rebalances": rebalances,
        "silver/memberships": memberships,
        "silver/ownership": ownership,
        "silver/stand_stills": stand_stills,
        "silver/commits": commits,
        "silver/reprocessed": reprocessed,
        "silver/refusals": refusals,
        "silver/moves": moves,
        "silver/lags": lags,
    }
)
"""Makers of the tables of silver by their paths, each after those that it reads."""
