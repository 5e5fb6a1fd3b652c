"""Partitions that moved from one member to another, and what became of their records.

Moves are those of the rebalances' accounts (`kohort.broker.events.account`), their
offsets those of the account of delivery (`kohort.broker.events.delivery`). All times
are compared by the machine's clock, as the broker's may stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.clock import ns

if TYPE_CHECKING:
    from kohort.broker.events.account.values import Account, Gone, Parts
    from kohort.broker.events.delivery import GroupDelivery
    from kohort.broker.events.delivery.partition import PartitionDelivery
    from kohort.broker.events.findings.names import Names
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
        sent: the offset after the last record that the previous owner received; None:
            it received none, or the broker keeps no account of delivery.
        uncommitted: the records between the two; None: one of them is unknown.
        committed_before_release: whether the previous owner committed before the
            partition went: all that it received was committed, or it gave the rest
            back. It did if it committed in the rebalance that took the partition, or
            left after a commit. None: unknown, without an account of delivery.
        redelivered: records that the new owner was sent again, or will be; None:
            unknown, likewise.
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
    accounting = broker.events.accounting
    delivery = None
    if accounting is not None:
        accounting.settle()
        delivery = accounting.deliveries.of(group_id)
    past = _Past(events, told.names, delivery)
    found = []
    for account in told.rebalances:
        past.take(account)
        for row in account.moves or ():
            if row.source is not None:
                found += [
                    past.move(account, row.source, row.target, partition)
                    for partition in _each(row.parts)
                ]
    return found


class _Past:
    """The events of a group as a move needs them; all times are `wall_ns`."""

    def __init__(
        self, events: Iterable[Event], names: Names, delivery: GroupDelivery | None
    ) -> None:
        self._names = names
        self._delivery = delivery
        # By generation.
        self._assigned: dict[int, int] = {
            event["generation"]: event["wall_ns"]
            for event in events
            if event["kind"] == "assignment_made"
        }
        self._gone: dict[str, Gone] = {}

    def take(self, account: Account) -> None:
        """Takes in the members that went in a rebalance."""
        for departure in account.departures:
            self._gone[departure.member_id] = departure.how

    def move(
        self, account: Account, source: str, target: str, partition: Partition
    ) -> Move:
        """One partition's move in a rebalance."""
        time = self._assigned.get(account.generation or 0, 0)
        how = self._gone.get(source)
        told = _Told()
        if self._delivery is not None:
            told = _told(self._delivery.partitions.get(partition), source, time)
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
            committed=told.committed,
            sent=told.received,
            uncommitted=told.uncommitted,
            committed_before_release=told.was_committed,
            redelivered=told.redelivered,
        )


class _Told(NamedTuple):
    """What the account of delivery tells of a move; all None without one."""

    committed: int | None = None
    received: int | None = None
    was_committed: bool | None = None
    redelivered: int | None = None

    @property
    def uncommitted(self) -> int | None:
        """The records that were received and not committed."""
        if self.committed is None or self.received is None:
            return None
        return max(0, self.received - self.committed)


def _told(state: PartitionDelivery | None, source: str, time: int) -> _Told:
    """What is known of the latest release of a partition before a time."""
    if state is None:
        return _Told(was_committed=True, redelivered=0)
    released = [
        each
        for each in state.releases
        if each.member_id == source and each.wall_ns <= time
    ]
    if not released or released[-1].received == released[-1].start:
        committed = released[-1].committed if released else state.committed
        return _Told(committed, None, was_committed=True, redelivered=0)
    last = released[-1]
    again = last.repeated
    if state.passage is not None and state.releases[-1] is last:
        again += sum(end - first for first, end, _ in state.due())
    was_committed = last.gave_back or last.received <= (last.committed or 0)
    return _Told(last.committed, last.received, was_committed, again)


def _each(parts: Parts) -> Iterator[Partition]:
    for topic, numbers in parts.items():
        for number in numbers:
            yield topic, number
