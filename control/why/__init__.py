"""Why a group rebalanced: from its events to rebalances, plain words and findings.

Pure: events go in as dicts, as `kohort.broker.events.schema` has them, and nothing
else is asked. The same on a live broker, on a file, and in the simulation.

    found = history(broker.events.recent("billing"), "billing")
    print(found.text())
"""

from __future__ import annotations

from kohort.control.why.findings import Evidence, Finding
from kohort.control.why.history import History, history
from kohort.control.why.model import (
    Member,
    Moves,
    Outcome,
    Rebalance,
    StandStill,
    Wait,
)

__all__ = [
    "Evidence",
    "Finding",
    "History",
    "Member",
    "Moves",
    "Outcome",
    "Rebalance",
    "StandStill",
    "Wait",
    "history",
]
