"""Why a group rebalanced: from its events to accounts, plain words and findings.

Pure: events go in as dicts, as `kohort.broker.events.schema` has them, and nothing
else is read. The same on a live broker, on a file, and in the simulation.

    found = history(broker.events.recent("billing"), "billing")
    print(found.text())
"""

from __future__ import annotations

from kohort.broker.events.account import Account, Outcome
from kohort.control.why.findings import Evidence, Finding
from kohort.control.why.history import History, history

__all__ = ["Account", "Evidence", "Finding", "History", "Outcome", "history"]
