"""Counts of transactions: ends and refusals from the events, states as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.broker.events.remembered_transactions import FENCED, KINDS, MARKER, STATE
from kohort.broker.events.schema import BY_NAME
from kohort.broker.events.seen import Seen
from kohort.broker.server import Broker

if TYPE_CHECKING:
    from kohort.broker.transactions.transaction_metadata import TransactionMetadata

UNHEARD: Final = BY_NAME.keys() - KINDS
"""Kinds that are not counted."""

STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort"),
)
"""States in which a transactional id stays."""

_RESULTS: Final[Mapping[str, str]] = {
    "PrepareCommit": "committed",
    "PrepareAbort": "aborted",
}
_OPEN: Final = frozenset({"Ongoing", *_RESULTS})
_IDS_PER_TURN: Final = 5_000
"""Transactional ids that are looked at before others get their turn, some ms."""


class TransactionCounts:
    """Counters of all transactions of a broker.

    Attributes:
        ended: transactions that were committed or aborted, by (result, cause).
        fenced: requests refused because of the producer's epoch, by error.
        held_back: records that markers released.
    """

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.fenced: Counter[str] = Counter()
        self.held_back = 0

    def take(self, seen: Seen) -> None:
        """Counts an event of one of the `KINDS`."""
        kind, fields = seen.notice.kind, seen.notice.fields
        if kind == MARKER:
            self.held_back += fields["held_back"]
        elif kind == FENCED:
            self.fenced[fields["error"]] += 1
        elif kind == STATE:
            result = _RESULTS.get(fields["state"])
            # A coordinator that loads it has not decided it.
            if result is not None and fields["cause"] != "loaded":
                self.ended[result, fields["cause"]] += 1

    def snapshot(self, broker: Broker) -> Iterator[dict[str, Any] | None]:
        """The counts and the states of all ids; yields None to let others run."""
        states = dict.fromkeys(STATES, 0)
        oldest_ms: int | None = None
        for number, each in enumerate(_known(broker), 1):
            if not number % _IDS_PER_TURN:
                yield None
            state = each.metadata.state.value
            if state in states:  # else it is about to go
                states[state] += 1
            if state in _OPEN:
                start_ms = each.metadata.start_ms
                oldest_ms = start_ms if oldest_ms is None else min(oldest_ms, start_ms)
        age_ms = 0 if oldest_ms is None else broker.cluster.now_ms() - oldest_ms
        yield {
            "states": states,
            "open_seconds": max(age_ms, 0) / 1000,
            "ended": [
                {"result": result, "cause": cause, "count": count}
                for (result, cause), count in sorted(self.ended.items())
            ],
            "fenced": dict(self.fenced),
            "held_back": self.held_back,
        }


def _known(broker: Broker) -> Iterator[TransactionMetadata]:
    for shard in broker.cluster.transactions:
        yield from [*shard.states.values()]
