"""Folds events into transactions: open ones, bad ends, fenced producers.

They are about producers, so they name no group. A group is concerned if a transaction
has one of its partitions, or its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from kohort.broker.events.account.values import Event, Partition, partitions

LONG_NS = 10_000_000_000
"""Age from which a transaction is remembered although its producer ended it: Kafka
Streams commits every 100 ms, and most checkpoints are seconds apart."""

OPEN_NS = 1_000_000_000
"""Age from which an open transaction is reported: two empty polls of a consumer, which
waits for records for 500 ms (fetch.max.wait.ms)."""
MOST = 1_000
"""Transactions that ended, and refused requests, that remain after a `trim`."""
MOST_IDS = 5_000
"""Producers that are remembered, likewise."""

_BAD_ENDS = frozenset({"timeout", "fenced", "operator"})
_PREPARED = frozenset({"PrepareCommit", "PrepareAbort"})
_OPEN = _PREPARED | {"Ongoing", "PrepareEpochFence"}
_NEW_EPOCHS = frozenset({"initialized", "fenced", "timeout", "operator"})
"""Causes of a new epoch that fences the producer of the one before."""


@dataclass(frozen=True, slots=True)
class ObservedTransaction:
    """A transaction that is open, was open for long, or did not end well.

    Attributes:
        transactional_id: of its producer.
        producer_id: likewise.
        client_id: likewise; None: unknown.
        started_ns: its start.
        sequence: of the last event about it.
        state: its state: Ongoing, PrepareCommit, ..., CompleteAbort.
        timeout_ms: the producer's transaction.timeout.ms.
        partitions: its partitions.
        groups: groups whose offsets are in it.
        ended_by: cause of its end, as in ``transaction_state``; None: it is open.
        decided_ns: when it was committed or aborted; None: it is open.
        ended_ns: when all markers were written; None: some are missing.
        marked: partitions that have the marker, with the records that it released.
    """

    transactional_id: str
    producer_id: int
    client_id: str | None
    started_ns: int
    sequence: int
    state: str
    timeout_ms: int
    partitions: frozenset[Partition]
    groups: frozenset[str]
    ended_by: str | None = None
    decided_ns: int | None = None
    ended_ns: int | None = None
    marked: dict[Partition, int] = field(default_factory=dict)

    def held(self) -> frozenset[Partition]:
        """The partitions whose last stable offset it holds."""
        return self.partitions - self.marked.keys()


@dataclass(frozen=True, slots=True)
class Fenced:
    """A request that was refused because its producer has an old epoch.

    Attributes:
        at_ns: when.
        sequence: of the event.
        transactional_id: of the producer.
        producer_epoch: of the request.
        current_epoch: the epoch that is valid.
        client_id: the client that sent it; None: unknown.
        api: the request's.
        error: the error's name.
        by: cause of the new epoch, as in ``transaction_state``; None: unknown.
        successor: client id of the producer that has the new epoch; None: unknown.
    """

    at_ns: int
    sequence: int
    transactional_id: str
    producer_epoch: int
    current_epoch: int
    client_id: str | None
    api: str
    error: str
    by: str | None
    successor: str | None


class TransactionHistory:
    """All transactions of a stream, as of the events so far.

    Attributes:
        now_ns: the latest time of an event.
        open: those that are open or being ended, by transactional id.
        ended: those that were open for `LONG_NS` or did not end well, in order.
        fenced: refused requests, in order.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.open: dict[str, ObservedTransaction] = {}
        self.ended: list[ObservedTransaction] = []
        self.fenced: list[Fenced] = []
        self._run: str | None = None
        self._known = (0, 0)
        self._on_kind: Mapping[str, Callable[[Event], None]] = {
            "transaction_state": self._change,
            "transaction_ended_in_partition": self._mark,
            "transaction_fenced": self._refuse,
        }
        # By producer id: the transactional id.
        self._ids: dict[int, str] = {}
        # By transactional id: partitions and groups of all its transactions.
        self._partitions: dict[str, set[Partition]] = {}
        self._groups: dict[str, set[str]] = {}
        # By transactional id: the cause of its epoch, and the client that has it.
        self._epochs: dict[str, tuple[str, str | None]] = {}

    def take(self, event: Event) -> None:
        """Handles an event about a transaction, or an ``events_lost``."""
        kind = event["kind"]
        if kind == "events_lost" or event["run"] != self._run:
            # An end may be missing. Coordinators load open transactions at a start.
            self._run = event["run"]
            self.open.clear()
        handle = self._on_kind.get(kind)
        if handle is not None:
            self.now_ns = max(self.now_ns, int(event["time_ns"]))
            handle(event)

    def concerning(
        self, group: str, owned: AbstractSet[Partition]
    ) -> tuple[list[ObservedTransaction], list[Fenced]]:
        """The transactions, and refused producers of such, that concern a group.

        Args:
            group: its id.
            owned: its partitions.
        """
        found = [
            each
            for each in (*self.ended, *self.open.values())
            if group in each.groups or not owned.isdisjoint(each.partitions)
        ]
        ids = {
            each.transactional_id
            for each in self.fenced
            if group in self._groups.get(each.transactional_id, ())
            or not owned.isdisjoint(self._partitions.get(each.transactional_id, ()))
        }
        return found, [each for each in self.fenced if each.transactional_id in ids]

    def is_news(self) -> bool:
        """True if one went wrong since the last call, or is open for a while."""
        known, self._known = self._known, (len(self.ended), len(self.fenced))
        return known != self._known or any(
            self.now_ns - each.started_ns >= OPEN_NS for each in self.open.values()
        )

    def trim(self) -> None:
        """Bounds the memory in an endless stream."""
        for rows in (self.ended, self.fenced):
            if len(rows) > 2 * MOST:
                del rows[:-MOST]
        if len(self._ids) > 2 * MOST_IDS:
            kept = {*[*self._ids.values()][-MOST_IDS:], *self.open}
            self._ids = {n: each for n, each in self._ids.items() if each in kept}
            known: tuple[dict[str, Any], ...]
            known = (self._partitions, self._groups, self._epochs)
            for each in known:
                for gone in each.keys() - kept:
                    del each[gone]

    def _change(self, event: Event) -> None:
        transactional_id, cause = event["transactional_id"], str(event.get("cause"))
        client_id = event.get("client_id")
        self._ids[event["producer_id"]] = transactional_id
        if cause in _NEW_EPOCHS:
            self._epochs[transactional_id] = cause, client_id
        before = self.open.pop(transactional_id, None)
        if event["state"] in _OPEN:
            opened = self.open[transactional_id] = _opened(event, before)
            known = self._partitions.setdefault(transactional_id, set())
            known |= opened.partitions
            self._groups.setdefault(transactional_id, set()).update(opened.groups)
        elif before is not None:
            at_ns, bad = int(event["time_ns"]), before.ended_by in _BAD_ENDS
            if bad or at_ns - before.started_ns >= LONG_NS:
                state = event["state"]
                self.ended.append(replace(before, state=state, ended_ns=at_ns))

    def _mark(self, event: Event) -> None:
        found = self.open.get(self._ids.get(event["producer_id"], ""))
        if found is not None and found.ended_by is not None:
            found.marked[event["topic"], event["partition"]] = int(event["held_back"])

    def _refuse(self, event: Event) -> None:
        known = self._ids.get(event["producer_id"])
        transactional_id = event.get("transactional_id") or known
        if transactional_id is None:
            return
        by, successor = self._epochs.get(transactional_id, (None, None))
        self.fenced.append(
            Fenced(
                at_ns=int(event["time_ns"]),
                sequence=event["sequence"],
                transactional_id=transactional_id,
                producer_epoch=event["producer_epoch"],
                current_epoch=event["current_epoch"],
                client_id=event.get("client_id"),
                api=str(event.get("api")),
                error=str(event.get("error")),
                by=by,
                successor=successor,
            )
        )


def _opened(event: Event, before: ObservedTransaction | None) -> ObservedTransaction:
    """A transaction that is open, or being ended, after an event."""
    at_ns, client_id = int(event["time_ns"]), event.get("client_id")
    ended_by = str(event.get("cause")) if event["state"] in _PREPARED else None
    if before is not None:
        client_id = client_id or before.client_id
        if ended_by == "loaded":
            ended_by = before.ended_by or ended_by
    return ObservedTransaction(
        transactional_id=event["transactional_id"],
        producer_id=event["producer_id"],
        client_id=client_id,
        started_ns=int(event.get("started_ns") or at_ns),
        sequence=event["sequence"],
        state=event["state"],
        timeout_ms=int(event["timeout_ms"]),
        partitions=frozenset(partitions(event["partitions"])),
        groups=frozenset(event["group_ids"]),
        ended_by=ended_by,
        decided_ns=None if ended_by is None else at_ns,
    )
