"""Invariants of the coordinator, which hold after every event.

They check a coordinator from outside, with its driver's timers, waiting requests and
records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    GroupRecord,
    OffsetRecord,
    PendingOffset,
    Record,
    TransactionEnd,
)
from kohort.broker.coordinator.group import Group, Pending
from kohort.broker.coordinator.load import Found, Loading
from kohort.broker.runtime.events import TimerKey
from kohort.simulation.checking.consumer_groups import (
    check_consumer_groups,
    check_records,
)
from kohort.simulation.checking.groups import classic
from kohort.simulation.checking.violation import holds

_REPLAYED: Final = "the log has each group as of its last record"

_Key = tuple[str, str, int]
"""Group, topic, partition."""


def _facts(record: GroupRecord) -> tuple[object, ...]:
    """A record's fields without its time; a load may change the order of members."""
    return (
        record.group_id,
        record.protocol_type,
        record.generation_id,
        record.protocol_name,
        record.leader,
        sorted(record.members),
    )


class KafkaOffsets:
    """The offsets in a log, computed in Kafka's way: by the numbers of their records.

    Attributes:
        offsets: by group, topic and partition, each with the number of its record.
        pending: the same of open transactions, by producer id.
    """

    def __init__(self) -> None:
        self.offsets: dict[_Key, tuple[int, object]] = {}
        self.pending: dict[int, dict[_Key, tuple[int, object]]] = {}
        self._number = 0

    def feed(self, records: Iterable[Record]) -> None:
        """Reads some records."""
        for record in records:
            self._number += 1
            if isinstance(record, PendingOffset):
                pending = self.pending.setdefault(record.producer_id, {})
                pending[_key(record.offset)] = self._number, record.offset.entry
            elif isinstance(record, TransactionEnd):
                self._end(self.pending.pop(record.producer_id, {}), record)
            elif isinstance(record, OffsetRecord):
                self._put(_key(record), record.entry)

    def _put(self, key: _Key, entry: object) -> None:
        if entry is not None:
            self.offsets[key] = self._number, entry
            return
        self.offsets.pop(key, None)
        for pending in self.pending.values():
            pending.pop(key, None)

    def _end(self, ended: dict[_Key, tuple[int, object]], end: TransactionEnd) -> None:
        for key, found in ended.items():
            if end.is_commit and found[0] > self.offsets.get(key, (0,))[0]:
                self.offsets[key] = found

    def check(self, groups: Mapping[str, Group]) -> None:
        """Compares the offsets that count, and those that are unstable."""
        known = {
            (g.group_id, *key): e
            for g in groups.values()
            for key, e in g.offsets.items()
        }
        counted = {key: entry for key, (_, entry) in self.offsets.items()}
        holds(known == counted, "the last commit of a partition in the log counts")
        unstable = {(g.group_id, *key) for g in groups.values() for key in g.pending}
        pending = {key for found in self.pending.values() for key in found}
        holds(unstable == pending, "offsets of open transactions are unstable")


def _key(record: OffsetRecord) -> _Key:
    return record.group_id, record.topic, record.partition


class Invariants:
    """Checks a coordinator, and remembers facts for later comparisons.

    Attributes:
        generations: the latest generation of each group.
    """

    def __init__(self) -> None:
        self.generations: dict[str, int] = {}
        # The members that led a generation of a group.
        self._leaders: dict[tuple[str, int], set[str]] = {}
        # The groups as the records describe them, the number of records read, and each
        # group as its latest record should describe it.
        self._log = Loading()
        self._offsets = KafkaOffsets()
        self._read = 0
        self._durable: dict[str, GroupRecord] = {}

    def check(
        self,
        coordinator: Coordinator,
        timers: Mapping[TimerKey, float],
        waiting: AbstractSet[object],
        records: Sequence[Record],
    ) -> None:
        """Checks all invariants.

        Args:
            coordinator: the coordinator, after an event.
            timers: the deadlines of the timers.
            waiting: the tokens of requests without an answer.
            records: all records so far.
        """
        groups = classic(coordinator.groups.values())
        self.check_generations(coordinator)
        parked: set[object] = set()
        for group in groups.values():
            is_held = coordinator.lasting.holds.get(group.group_id) is group.state
            parked |= _parked(group, timers, is_held=is_held)
            holds(
                not group.members or group.leader in group.members,
                "the leader is a member",
            )
            muted = coordinator.lasting.muted.get(group.group_id, ())
            for member in group.members.values():
                waits = member.satisfies_heartbeat or (is_held and member.has_joined)
                if not waits or member.is_muted:
                    holds(
                        timers.get(member.session_key, math.inf) <= member.deadline,
                        "a member that is not waited for has a timer for its session",
                    )
                holds(member.is_muted == (member.member_id in muted), "mutes last")
        _check_transactions(coordinator)
        parked.discard(None)
        holds(parked == waiting, "a request without an answer waits in a group")
        new = records[self._read :]
        self._check_log(coordinator.groups, new)
        check_consumer_groups(coordinator, timers)
        self._offsets.feed(new)
        self._offsets.check(coordinator.groups)
        self._read = len(records)

    def written_late(self, group_ids: Iterable[str]) -> None:
        """Notes late records: their groups may have changed since."""
        for group_id in group_ids:
            self._durable.pop(group_id, None)

    def check_leader(self, group_id: str, generation_id: int, member: str) -> None:
        """Checks that a generation has one leader: a member learned that it leads."""
        leaders = self._leaders.setdefault((group_id, generation_id), set())
        leaders.add(member)
        holds(len(leaders) == 1, "a generation has one leader")

    def check_loaded(self, coordinator: Coordinator) -> None:
        """Checks that a new coordinator has loaded the groups of the latest records."""
        for group_id, group in classic(coordinator.groups.values()).items():
            durable = self._durable[group_id]
            holds(_facts(group.record()) == _facts(durable), _REPLAYED)
            # A generation without a record is forgotten, and so is its leader.
            if self.generations[group_id] != group.generation_id:
                self._forget_generations(group_id, group.generation_id)
                self.generations[group_id] = group.generation_id
            # Only rebalances enforce the limit.
            holds(
                len(group.members) <= _max_size(coordinator, group_id)
                or group.state == "PreparingRebalance",
                "a loaded group that is too large begins a rebalance",
            )

    def check_generations(self, coordinator: Coordinator) -> None:
        """Checks new generations, also while appends are held: limits change later."""
        groups = classic(coordinator.groups.values())
        for group_id in self.generations.keys() - groups.keys():
            self._forget_generations(group_id)  # deleted: it starts over
        for group in groups.values():
            self._check_generation(group, coordinator)

    def _check_generation(self, group: Group, coordinator: Coordinator) -> None:
        known = self.generations.get(group.group_id, 0)
        holds(group.generation_id >= known, "generations never go down")
        is_limited = group.group_id in coordinator.lasting.max_sizes
        is_limited |= coordinator.settings.is_helpful
        if group.generation_id > known and is_limited:
            holds(
                len(group.members) <= _max_size(coordinator, group.group_id),
                "a new generation has at most group.max.size members",
            )
        self.generations[group.group_id] = group.generation_id

    def _forget_generations(self, group_id: str, after: int = 0) -> None:
        del self.generations[group_id]
        for key in [*self._leaders]:
            if key[0] == group_id and key[1] > after:
                del self._leaders[key]

    def _check_log(
        self, groups: Mapping[str, Group], records: Iterable[Record]
    ) -> None:
        """Checks that the log has the offsets, and groups as of their latest records.

        During a rebalance a group's record is the previous one.
        """
        self._log.feed(records)
        holds(self._log.found.keys() <= groups.keys(), "the log has no other groups")
        check_records(groups, self._log)
        for group_id in self._durable.keys() - classic(groups.values()).keys():
            del self._durable[group_id]
        for group_id, group in groups.items():
            # A commit whose offsets are all refused creates a group without a record.
            found = self._log.found.get(group_id, Found())
            holds(found.offsets == group.offsets, "the log has all offsets")
            holds(found.expire_ms == group.expire_ms, "the log has their expiry")
            holds(
                _in_order(found.pending) == _in_order(group.pending),
                "the log has the offsets of open transactions",
            )
            if not isinstance(group, ClassicGroup):
                continue
            fresh = GroupRecord(group_id, "", 0, None, None, -1, [])
            if group.state in {"Stable", "Empty"}:
                self._durable[group_id] = group.record()
            durable = self._durable.setdefault(group_id, found.record or fresh)
            if found.record is None:  # so far it only had offsets
                holds(_facts(durable) == _facts(fresh), _REPLAYED)
            else:
                holds(_facts(found.record) == _facts(durable), _REPLAYED)
                # Offsets expire by it. A Stable group has that of its sync phase.
                holds(
                    group.state != "Empty"
                    or found.record.state_timestamp_ms == group.state_timestamp_ms,
                    "the log has the time since when a group is empty",
                )


def _in_order(pending: Pending) -> dict[tuple[str, int], list[object]]:
    """Pending offsets, where equal means that they are also in the same order."""
    return {key: [*by_producer.items()] for key, by_producer in pending.items()}


def _check_transactions(coordinator: Coordinator) -> None:
    """Checks that the end of a transaction will find all its offsets."""
    known = coordinator.transactions.by_producer
    for group in coordinator.groups.values():
        for key, by_producer in group.pending.items():
            holds(by_producer, "something is pending")
            for producer_id in by_producer:
                holds(
                    key in known[producer_id][group.group_id].log_ends,
                    "the end of a transaction finds all its offsets",
                )


def _max_size(coordinator: Coordinator, group_id: str) -> int:
    limits = coordinator.lasting.max_sizes
    return limits.get(group_id, coordinator.settings.max_size)


def _parked(
    group: ClassicGroup, timers: Mapping[TimerKey, object], *, is_held: bool
) -> set[object]:
    """Returns the tokens of waiting requests; a timer, or a hold, ends each wait."""
    members = group.members.values()
    joins = sum(m.has_joined for m in members)
    holds(group.awaiting_join == joins, "the waiting joins are counted")
    join_timer, sync_timer = ("join", group.group_id), ("sync", group.group_id)
    if any(m.join_token is not None for m in members):
        holds(group.state == "PreparingRebalance", "a join waits for a rebalance")
        holds(is_held or join_timer in timers, "a timer ends the wait of joins")
    if any(m.sync_token is not None for m in members):
        holds(group.state == "CompletingRebalance", "a sync waits for the leader's")
        holds(is_held or sync_timer in timers, "a timer ends the wait of syncs")
    if is_held:
        holds(not timers.keys() & {join_timer, sync_timer}, "a held group stands still")
        holds(members or group.pending_members, "a member ends the wait of a hold")
    else:
        holds(group.rest is None, "a group that is not held has no time left over")
    return {m.join_token for m in members} | {m.sync_token for m in members}
