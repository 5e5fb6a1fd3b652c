"""Findings of a group: known problems that its events show, with advice and evidence.

Pure: the only input is events as dicts, as `kohort.broker.events.schema` describes
them.

1. `fold` makes `Facts` of a group's events: the accounts of its rebalances, lives of
   members, refusals, transactions.
2. `Names` names its members.
3. Each of `rules.RULES` makes findings from both.
"""
