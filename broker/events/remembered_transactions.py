"""The events of transactions that a broker remembers for longer than the latest ones.

An explanation needs the open transactions, however old they are, and those that did not
end well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from kohort.broker.events.seen import Seen

STATE: Final = "transaction_state"
FENCED: Final = "transaction_fenced"

MARKER: Final = "transaction_ended_in_partition"

KINDS: Final = frozenset({STATE, FENCED, MARKER})
"""Kinds about transactions. Markers are frequent: only the latest are remembered."""

_OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
_BAD_ENDS: Final = frozenset({"timeout", "fenced", "operator"})
"""Causes of an end that is not the producer's own."""


class RememberedTransactions:
    """Open transactions, and the latest ones that did not end well.

    Args:
        size: maximum number of each.

    Attributes:
        latest: the latest event of each transaction that is open or being ended, by
            transactional id.
        troubles: ends by a timeout, by another producer or by an operator, and refused
            requests of fenced producers; oldest first.
    """

    __slots__ = ("_size", "latest", "troubles")

    def __init__(self, size: int) -> None:
        self._size = size
        self.latest: dict[str, Seen] = {}
        self.troubles: deque[Seen] = deque(maxlen=size)

    def add(self, seen: Seen) -> None:
        """Takes an event of one of the `KINDS`."""
        kind, fields = seen.notice.kind, seen.notice.fields
        if kind == FENCED or (kind == STATE and fields["cause"] in _BAD_ENDS):
            self.troubles.append(seen)
        if kind != STATE:
            return
        latest, transactional_id = self.latest, fields["transactional_id"]
        if fields["state"] not in _OPEN:
            latest.pop(transactional_id, None)
            return
        latest[transactional_id] = seen
        if len(latest) > self._size:
            del latest[next(iter(latest))]

    def begin(self) -> None:
        """Forgets the open ones: with a new run coordinators load them again."""
        self.latest.clear()

    def all(self) -> Iterable[Seen]:
        """All of these events, each once, in no order."""
        return {id(s): s for s in (*self.latest.values(), *self.troubles)}.values()
