"""Partitions that moved from one member to another, and what became of their records.

Moves are those of the rebalances' accounts (`kohort.broker.events.account`). Offsets
come from the commits among the remembered events, and, if the broker watches fetches
(`Broker(watch_fetches=True)`), from the records that clients were sent.

The broker sees the records that a member was sent, not those that it has processed:
clients fetch ahead. All times are compared by the machine's clock, as the broker's may
stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from kohort.broker.clock import ns
from kohort.control import group_views

if TYPE_CHECKING:
    from kohort.broker.events.account.values import Account, Gone, Parts
    from kohort.broker.events.findings.names import Names
    from kohort.broker.fetch_watch import FetchWatch, Run
    from kohort.broker.server import Broker

Event = Mapping[str, Any]
Partition = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition that went from one member to another.

    Attributes:
        topic: the topic.
        partition: of it.
        source: the member id of the previous owner.
        target: the member id of the new owner.
        source_name: the previous owner, as `kohort why` calls it.
        target_name: the new owner, likewise.
        generation: the first one of the new owner.
        time_ns: when the new owner was assigned it, by the broker's clock.
        how: "revoked", or how the previous owner went: "left", "expired", "kicked"
            and so on, see `Gone`.
        committed: the group's committed offset then; None: none, or unknown.
        sent: the offset after the last record that the previous owner was sent; None:
            it was sent none, or fetches are not watched.
        uncommitted: the records between the two; None: one of them is unknown.
        committed_before_release: whether the previous owner committed before the
            partition went: all that it was sent was committed, or it committed in the
            rebalance that took the partition, or, if it left, after it was last sent
            records. None: unknown, as fetches are not watched.
        redelivered: records that the new owner was sent again, as its first Fetch began
            below `sent`; None: fetches are not watched.
    """

    topic: str
    partition: int
    source: str
    target: str
    source_name: str
    target_name: str
    generation: int
    time_ns: int
    how: str
    committed: int | None
    sent: int | None
    uncommitted: int | None
    committed_before_release: bool | None
    redelivered: int | None

    def as_json(self) -> dict[str, Any]:
        """The same as JSON's types."""
        return asdict(self)


def moves(broker: Broker, group_id: str) -> list[Move]:
    """The moves of a group's partitions among the remembered events, oldest first."""
    # Slow to load, and rarely used.
    from kohort.control.why.history import history

    events = broker.events.recent(group_id)
    if not events:
        return []
    told = history(events, group_id, ns(broker.cluster.clock.now()))
    now = group_views.committed(broker, group_id)
    past = _Past(events, told.names, now, broker.cluster.fetch_watch)
    found = []
    for account in told.rebalances:
        past.take(account)
        for row in account.moves or ():
            for partition in _each(row.parts):
                if row.source is not None:
                    found.append(past.move(account, row.source, row.target, partition))
                past.assign(account, partition)
    return found


def redelivered(broker: Broker, group_id: str) -> int:
    """The records that new owners were sent again, over all `moves`.

    Raises:
        RuntimeError: the broker does not watch fetches.
    """
    if broker.cluster.fetch_watch is None:
        raise RuntimeError(
            "the broker does not note the records that clients are sent; make it with"
            " Broker(watch_fetches=True)"
        )
    return sum(move.redelivered or 0 for move in moves(broker, group_id))


class _Past:
    """The events of a group as a move needs them; all times are `wall_ns`."""

    def __init__(
        self,
        events: Iterable[Event],
        names: Names,
        committed_now: Mapping[Partition, int],
        watch: FetchWatch | None,
    ) -> None:
        self._names = names
        self._committed_now = committed_now
        self._watch = watch
        # Of rebalances by (run, node, sequence); of assignments by generation.
        self._started: dict[tuple[str, int, int], int] = {}
        self._assigned: dict[int, int] = {}
        # (time, member id, offset) of each commit.
        self._commits: dict[Partition, list[tuple[int, str, int]]] = {}
        # Client id and host of members, and how they went.
        self._clients: dict[str, tuple[str | None, str | None]] = {}
        self._gone: dict[str, Gone] = {}
        # Since when a partition has its owner, and since when that is to give it up.
        self._owned_since: dict[Partition, int] = {}
        self._taken_since: dict[Partition, int] = {}
        for event in events:
            self._note(event)

    def _note(self, event: Event) -> None:
        kind, time = event["kind"], event["wall_ns"]
        member_id = event.get("member_id") or ""
        if member_id:
            self._clients[member_id] = event.get("client_id"), event.get("host")
        if kind == "rebalance_started":
            self._started[event["run"], event["node"], event["sequence"]] = time
        elif kind == "assignment_made":
            self._assigned[event["generation"]] = time
        elif kind == "offsets_committed":
            for row in event["offsets"]:
                partition = row["topic"], row["partition"]
                commit = time, member_id, row["offset"]
                self._commits.setdefault(partition, []).append(commit)

    def take(self, account: Account) -> None:
        """Takes in the members and partitions that a rebalance took away."""
        for departure in account.departures:
            self._gone[departure.member_id] = departure.how
        key = account.run, account.node, account.started_sequence
        started = self._started.get(key, 0)
        parts = [row.parts for row in account.given_up or ()]
        parts += [row.parts for row in account.moves or ()]
        for partition in chain.from_iterable(map(_each, parts)):
            self._taken_since.setdefault(partition, started)

    def assign(self, account: Account, partition: Partition) -> None:
        """A partition has a new owner from now on."""
        self._owned_since[partition] = self._assigned.get(account.generation or 0, 0)
        self._taken_since.pop(partition, None)

    def move(
        self, account: Account, source: str, target: str, partition: Partition
    ) -> Move:
        """One partition's move in a rebalance."""
        # Loaded by the first use: brokers start sooner.
        from kohort.broker.events.account.values import Gone

        time = self._assigned.get(account.generation or 0, 0)
        commits = [row for row in self._commits.get(partition, ()) if row[0] <= time]
        committed = commits[-1][2] if commits else None
        if partition not in self._commits:
            # Of older commits the events may be forgotten; the offset is as it was.
            committed = self._committed_now.get(partition)
        sent, sent_at = self._sent(partition, source, time)
        last = max((row[0] for row in commits if row[1] == source), default=0)
        uncommitted = None
        if sent is not None and committed is not None:
            uncommitted = max(0, sent - committed)
        how = self._gone.get(source)
        if self._watch is not None and (sent is None or uncommitted == 0):
            was_committed: bool | None = True
        elif how is None and last >= self._taken_since[partition] > 0:
            was_committed = True
        elif self._watch is None:
            was_committed = None
        else:
            was_committed = how is Gone.LEFT and last >= sent_at
        return Move(
            topic=partition[0],
            partition=partition[1],
            source=source,
            target=target,
            source_name=self._names.of(source),
            target_name=self._names.of(target),
            generation=account.generation or 0,
            time_ns=account.ended_ns,
            how="revoked" if how is None else how.value,
            committed=committed,
            sent=sent,
            uncommitted=uncommitted,
            committed_before_release=was_committed,
            redelivered=self._sent_again(partition, source, target, time, sent),
        )

    def _sent(
        self, partition: Partition, member_id: str, time: int
    ) -> tuple[int | None, int]:
        """The offset after the last record that an owner was sent, and when."""
        since = self._owned_since.get(partition, 0)
        runs = [
            run
            for run in self._runs(partition, member_id)
            if since <= run.since_ns <= time and run.end_at(time) > run.first
        ]
        if not runs:
            return None, 0
        last = max(runs, key=lambda run: run.end_at(time))
        return last.end_at(time), min(last.until_ns, time)

    def _sent_again(
        self,
        partition: Partition,
        source: str,
        target: str,
        time: int,
        sent: int | None,
    ) -> int | None:
        if self._watch is None:
            return None
        before = self._runs(partition, source)
        connections = {run.client.connection for run in before if run.since_ns <= time}
        for run in self._runs(partition, target):
            if run.since_ns >= time and run.client.connection not in connections:
                return 0 if sent is None else max(0, sent - run.first)
        # It has not fetched yet.
        return 0

    def _runs(self, partition: Partition, member_id: str) -> list[Run]:
        """The runs of the client of a member."""
        if self._watch is None:
            return []
        client = self._clients.get(member_id)
        runs = self._watch.runs.get("{}-{}".format(*partition), ())
        return [run for run in runs if run.client[:2] == client]


def _each(parts: Parts) -> Iterator[Partition]:
    for topic, numbers in parts.items():
        for number in numbers:
            yield topic, number
