"""Commands of tests and operators, as far as accounts depend on them."""

from __future__ import annotations

from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.values import Event


def commanded(group: GroupAccounts, event: Event) -> None:
    """Handles a command: a hold or its end, or a member that no longer counts.

    A rebalance stands still while it is held, and waits for a muted member again.
    """
    rebalance = group.joining()
    if event.get("cause") == "mute" and rebalance is not None:
        rebalance.missing.setdefault(event["member_id"])
    if event.get("cause") in {"hold", "release"}:
        is_hold = event["cause"] == "hold"
        group.held_in = event.get("held_in") if is_hold else None
        if group.last is not None:
            group.last.hold(group.held_in, group.now)
