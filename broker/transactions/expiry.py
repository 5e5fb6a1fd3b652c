"""Expiry of transactional ids (``transactional.id.expiration.ms``)."""

from __future__ import annotations

from typing import Final

from kohort.broker.transactions.state import AT_REST
from kohort.broker.transactions.transaction_metadata import TransactionMetadata
from kohort.broker.transactions.turn import Turn

LARGEST_PART: Final = 1000
"""Ids that are checked at once: about a millisecond, if all of them expire."""


def expire(
    turn: Turn, transactions: dict[str, TransactionMetadata], unchecked: list[str]
) -> list[str]:
    """Writes tombstones of the ids that have not been used for long.

    Args:
        turn: collects the effects.
        transactions: by id.
        unchecked: ids that this check has not seen yet; empty: a check begins.

    Returns:
        The ids that are left for the next part of the check.
    """
    unchecked = unchecked or list(transactions)
    part, rest = unchecked[:LARGEST_PART], unchecked[LARGEST_PART:]
    before_ms = turn.now_ms - turn.settings.expiration_ms
    expired = []
    for transactional_id in part:
        found = transactions.get(transactional_id)
        if (
            found is not None
            and found.pending is None
            and found.state in AT_REST
            and found.metadata.last_update_ms <= before_ms
        ):
            expired.append(found)
    if expired:
        turn.bury(expired)
    return rest
