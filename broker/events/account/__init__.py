"""The account of every rebalance, computed once, for all views.

Pure: the only input is events as dicts, as `kohort.broker.events.schema` describes
them. `kohort.broker.events.account.flow` describes the flow, step by step.

    accounts = Accounts()
    for event in events:
        for account in accounts.take_all(event):
            print(account.kind, account.cause, account.unread_ns)
"""

from __future__ import annotations

from kohort.broker.events.account.accounts import Accounts
from kohort.broker.events.account.values import Account, Outcome, UnreadAccount

__all__ = ["Account", "Accounts", "Outcome", "UnreadAccount"]
