"""Invariants of the coordinator: they hold after every event, in whatever order.

They look at a coordinator from outside, with the timers, the waiting requests and the
records of whatever drives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import GroupRecord, Record
from kohort.broker.coordinator.events import TimerKey
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.load import Found, Loading
from kohort.broker.coordinator.settings import GroupSettings


def _facts(record: GroupRecord) -> tuple[object, ...]:
    """All fields of a record but its time; a load may change the order of members."""
    return (
        record.group_id,
        record.protocol_type,
        record.generation_id,
        record.protocol_name,
        record.leader,
        sorted(record.members),
    )


class Invariants:
    """Checks a coordinator, and remembers what it has to be compared with.

    Attributes:
        generations: the latest generation of each group.
    """

    def __init__(self) -> None:
        self.generations: dict[str, int] = {}
        # The members that led a generation of a group.
        self._leaders: dict[tuple[str, int], set[str]] = {}
        # The groups as the records describe them, the number of records read, and
        # each group as its latest record should describe it.
        self._log = Loading()
        self._read = 0
        self._durable: dict[str, GroupRecord] = {}

    def check(
        self,
        coordinator: Coordinator,
        timers: Mapping[TimerKey, tuple[float, int]],
        waiting: AbstractSet[object],
        records: Sequence[Record],
    ) -> None:
        """Checks all of them.

        Args:
            coordinator: the coordinator, after an event.
            timers: the timers that are armed: their deadlines come first.
            waiting: the tokens of requests without an answer.
            records: all that were written so far.
        """
        groups = coordinator.groups
        for group_id in self.generations.keys() - groups.keys():
            self._forget_generations(group_id)  # deleted: it starts over
        parked: set[object] = set()
        for group in groups.values():
            self._check_generation(group, coordinator.settings)
            parked |= _parked(group, timers)
            assert not group.members or group.leader in group.members
            for member in group.members.values():
                if not member.satisfies_heartbeat:
                    assert timers[member.session_key][0] <= member.deadline
        parked.discard(None)
        assert parked == waiting, "a request without an answer waits for something"
        self._check_log(groups, records[self._read :])
        self._read = len(records)

    def written_late(self, group_ids: Iterable[str]) -> None:
        """Records were written that their groups may have gone on from since."""
        for group_id in group_ids:
            self._durable.pop(group_id, None)

    def check_leader(self, group_id: str, generation_id: int, member: str) -> None:
        """A member was told that it leads: a generation has one leader."""
        leaders = self._leaders.setdefault((group_id, generation_id), set())
        leaders.add(member)
        assert len(leaders) == 1, "one leader per generation"

    def check_loaded(self, coordinator: Coordinator) -> None:
        """A new coordinator has loaded the groups as their latest records say."""
        for group_id, group in coordinator.groups.items():
            assert _facts(group.record()) == _facts(self._durable[group_id])
            # A generation that was not stored is forgotten, and so is its leader.
            if self.generations[group_id] != group.generation_id:
                self._forget_generations(group_id, group.generation_id)
                self.generations[group_id] = group.generation_id
            # Only rebalances see to it that the limit is kept.
            if len(group.members) > coordinator.settings.max_size:
                assert group.state == "PreparingRebalance"

    def _check_generation(self, group: Group, settings: GroupSettings) -> None:
        known = self.generations.get(group.group_id, 0)
        assert group.generation_id >= known, "generations never go down"
        if group.generation_id > known and settings.is_helpful:
            assert len(group.members) <= settings.max_size
        self.generations[group.group_id] = group.generation_id

    def _forget_generations(self, group_id: str, after: int = 0) -> None:
        del self.generations[group_id]
        for key in [*self._leaders]:
            if key[0] == group_id and key[1] > after:
                del self._leaders[key]

    def _check_log(
        self, groups: Mapping[str, Group], records: Iterable[Record]
    ) -> None:
        """Offsets, and groups as of their latest records, can be read in the log.

        While a group rebalances its record is that of before.
        """
        self._log.feed(records)
        assert self._log.found.keys() <= groups.keys(), "the log knows of no others"
        for group_id in self._durable.keys() - groups.keys():
            del self._durable[group_id]
        for group_id, group in groups.items():
            # A commit of which nothing could be stored makes a group without a record.
            found = self._log.found.get(group_id, Found())
            assert found.offsets == group.offsets, "the log knows all offsets"
            assert found.expire_ms == group.expire_ms
            fresh = GroupRecord(group_id, "", 0, None, None, -1, [])
            if group.state in {"Stable", "Empty"}:
                self._durable[group_id] = group.record()
            durable = self._durable.setdefault(group_id, found.record or fresh)
            if found.record is None:  # so far it only had offsets
                assert _facts(durable) == _facts(fresh)
            else:
                assert _facts(found.record) == _facts(durable), "as they were"
                if group.state == "Empty":
                    # Offsets expire by it. A Stable group's is that of its sync phase.
                    assert found.record.state_timestamp_ms == group.state_timestamp_ms


def _parked(group: Group, timers: Mapping[TimerKey, object]) -> set[object]:
    """Returns the tokens of requests that wait; a timer ends each wait."""
    members = group.members.values()
    joins = sum(m.join_token is not None for m in members)
    assert group.awaiting_join == joins, "counters count right"
    if joins:
        assert group.state == "PreparingRebalance"
        assert ("join", group.group_id) in timers
    if any(m.sync_token is not None for m in members):
        assert group.state == "CompletingRebalance"
        assert ("sync", group.group_id) in timers
    return {m.join_token for m in members} | {m.sync_token for m in members}
