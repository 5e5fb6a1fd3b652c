"""Explains rebalances: accounts, plain words and findings from a group's events.

Pure: events go in as dicts, as `kohort.broker.events.schema` has them, and nothing
else is read. The same for a live broker and for a file of events.

    found = history(broker.events.recent("billing"), "billing")
    print(found.text())
"""

from __future__ import annotations

from kohort.broker.events.account import Account, Outcome
from kohort.broker.events.findings.finding import Evidence, Finding
from kohort.control.why.history import History, history

__all__ = ["Account", "Evidence", "Finding", "History", "Outcome", "history"]
