"""The group coordinator: takes events one by one, and returns their effects.

It decides as Apache Kafka 4.3 does. Ids of members come from `new_member_id`.
`kohort.broker.runtime` has what all coordinators share.

Groups of every protocol have offsets, and are listed, deleted and loaded:
`offsets`, `transactional_offsets`, `admin` and `load` see them as a `Group`. The rest
is the room of a protocol, a folder: `classic` and `consumer`, each of which follows a
rebalance through its files. `migration` has groups with members of both.

1. A room declares its events, timers, steps that wait for the log, and records
   (`Room`). `Coordinator` adds them to its own tables; no other module of this folder
   imports a room.
2. `Coordinator.handle` finds the function of an event in `_handlers`; if several rooms
   have one, the type of the group decides. An `Expired` goes on to that of its timer,
   if the group still exists. An `Appended` finishes the step that waited for it, an
   `AppendFailed` undoes it.
3. Each event has one `Turn`, which collects its effects: appends and timers, then
   notices for listeners (`notices`), then replies.
4. The most frequent events do without a turn: heartbeats, commits, and joins and syncs
   that only wait. The driver tries `prepare_commit` and the `short_ways` of the rooms
   before `handle`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MethodType
from typing import Any, Final, Literal

from kohort.broker.coordinator import (
    admin,
    notices,
    offsets,
    transactional_offsets,
    undo,
)
from kohort.broker.coordinator.appends import Changed, GroupAppends, committed_group
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.room import classic_room
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.room import consumer_room
from kohort.broker.coordinator.consumer.surroundings import Surroundings
from kohort.broker.coordinator.effects import Effect, Result
from kohort.broker.coordinator.events import (
    CommitInTransaction,
    CommitOffsets,
    Credited,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Event,
    FetchOffsets,
    Heartbeat,
    ListGroups,
    TopicsDeleted,
    TransactionEnded,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.load import Loading, Restore
from kohort.broker.coordinator.migration.downgrade import downgrade
from kohort.broker.coordinator.migration.room import migration_room
from kohort.broker.coordinator.migration.upgrade import upgrade
from kohort.broker.coordinator.pending import OpenTransactions
from kohort.broker.coordinator.room import Groups, Room
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.topics import NoTopics, TopicsImage
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Append, Arm, Reply
from kohort.broker.runtime.events import Appended, AppendFailed, Expired, TimerKey
from kohort.broker.runtime.machine import (
    CHECK_KEY,
    Completion,
    Handler,
    Machine,
    OnTimer,
)

ShortWay = Callable[[Any, float], Result | Notice | Literal[True] | None]
"""Handles an event that does little; see `kohort.broker.coordinator.room.ShortWay`."""

Act = Callable[[Turn, Groups, Any], None]
"""Handles an event that may change groups."""

GROUP_TYPES: Final = (ClassicGroup.type, ConsumerGroup.type)
"""The types of groups: those of all rooms."""

_EXPIRE_NOTHING = frozenset(
    {Heartbeat, FetchOffsets, DescribeGroup, ListGroups, Credited, Appended, Expired}
)
"""Events after which no offset expires earlier; `Expired` may have effects that do."""

_MAKE_GROUP: Final = ClassicGroup
"""Makes a group for the offsets of a simple consumer: a classic one, as in Kafka."""


class Coordinator(Machine[Group, Turn, Loading]):
    """Coordinates groups.

    Attributes:
        settings: group coordinator settings; may be replaced at any time, with
            effect from the next event on.
        groups: by group id.
        transactions: the open transactions with offsets of its groups.
        short_ways: by type, the short ways of events; see `room.ShortWay`.
    """

    appends: GroupAppends

    def __init__(
        self,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        *,
        heartbeats: bool = False,
        lasting: Lasting | None = None,
        topics: TopicsImage | None = None,
    ) -> None:
        """Creates a coordinator without groups.

        Args:
            settings: group coordinator settings.
            new_member_id: makes a unique id from a client id or, for static members,
                an instance id.
            heartbeats: whether heartbeats make notices, too.
            lasting: powers in force, shared by all coordinators of a broker.
            topics: the topics of the cluster; none by default.
        """
        self.groups: Groups = {}
        super().__init__(self.groups, GroupAppends())
        self.settings = settings
        # By the last check with these settings nothing expires before this time, unless
        # a group changes. So days of an advanced clock cost one check, not hundreds.
        self._next_expiry_ms: float = 0
        self._checked_with = settings
        self.transactions = OpenTransactions()
        self.lasting = Lasting() if lasting is None else lasting
        around = Surroundings(
            new_member_id,
            topics or NoTopics(),
            upgrade,
            partial(downgrade, groups=self.groups),
        )
        rooms: tuple[Room, ...] = (
            classic_room(new_member_id, heartbeats=heartbeats),
            consumer_room(around, heartbeats=heartbeats),
        )
        self._rooms: Mapping[str, Room] = {room.group_type: room for room in rooms}
        rooms = (*rooms, migration_room(new_member_id, heartbeats=heartbeats))
        self._handlers |= {
            CommitOffsets: self._commit,
            FetchOffsets: self._answered_by(offsets.fetch),
            ListGroups: self._answered_by(admin.list_groups),
            DeleteGroup: self._in_turn(admin.delete),
            DeleteOffsets: self._in_turn(offsets.delete),
            TopicsDeleted: self._in_turn(offsets.topics_deleted),
            CommitInTransaction: self._commit_in_transaction,
            TransactionEnded: self._transaction_ended,
        }
        self.short_ways: dict[type, ShortWay] = {}
        self._completions[Changed] = Completion(offsets.buried, self._take_back)
        self._restore: dict[type, Restore] = {}
        changes: dict[type, dict[str, Act]] = {}
        timers: dict[str, dict[str, OnTimer]] = {}
        for room in rooms:
            self._open(room)
            for kind, act in room.changes.items():
                changes.setdefault(kind, {})[room.group_type] = act
            for name, on_timer in room.timers.items():
                timers.setdefault(name, {})[room.group_type] = on_timer
        for kind, acts in changes.items():
            self._handlers[kind] = self._in_turn(_by_type(acts))
        for name, found in timers.items():
            self._timers[name] = _timer_by_type(found)

    def _open(self, room: Room) -> None:
        """Adds the declarations of a room that no other room has."""
        for kind, ask in room.questions.items():
            self._handlers[kind] = self._answered_by(ask)
        for kind, way in room.short_ways.items():
            # A partial function would cost a heartbeat 1 %.
            self.short_ways[kind] = MethodType(way, self)
        self._completions |= room.completions
        self._restore |= room.records

    def unload(self) -> list[Reply]:
        """Ends the coordinator; requests that wait in a group are refused, too."""
        replies = super().unload()
        for group in self.groups.values():
            replies += self._rooms[group.type].waiting(group)
        self._forget_unwritten()
        return replies

    def _forget_unwritten(self) -> None:
        """Drops the mutes of groups that have no record in the log."""
        for group_id in self.groups.keys() & self.lasting.muted.keys():
            if committed_group(self.appends, self.groups, group_id) is None:
                del self.lasting.muted[group_id]

    def _take_over(self, turn: Turn, loading: Loading) -> None:
        self.transactions = loading.transactions
        loading.finish(turn, self.groups, self._restore)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handles an event; see `Machine.handle`."""
        kind = type(event)
        if kind not in _EXPIRE_NOTHING:
            self._next_expiry_ms = 0
        return self._handlers[kind](event, now)

    def _turn(self, now: float) -> Turn:
        return Turn(
            self.settings, self.appends, self.lasting, now, listening=self.listening
        )

    def _answered_by(
        self, ask: Callable[[GroupAppends, dict[str, Group], Any], Result]
    ) -> Handler:
        """Returns a handler of events that only read."""

        def handle(event: Any, _: float) -> list[Effect]:
            return [Reply(event.token, ask(self.appends, self.groups, event))]

        return handle

    # -- commits: the short way
    #
    # `short_ways` has those of the rooms.

    def prepare_commit(self, event: CommitOffsets, now: float) -> Group | None:
        """Checks a commit that only stores offsets, as nearly all: see `offsets`.

        Returns:
            The group: the caller writes the records, and calls `finish_commit`.
        """
        group = self.groups.get(event.group_id)
        if self.appends.waiting or not offsets.only_stores(group, event):
            return None
        return group if group.hear_commit(event.member_id, now) else None

    def finish_commit(
        self, group: Group, event: CommitOffsets, commit_ms: int
    ) -> Notice | None:
        """Stores the offsets of `prepare_commit`: the log has their records.

        Returns:
            The notice for listeners.
        """
        self.appends.unwritten.clear()
        wanted = event.offsets
        group.committed.put(
            offsets.keys_of(wanted),
            wanted.offsets,
            wanted.leader_epochs,
            commit_ms,
        )
        if not self.listening:
            return None
        who = notices.sender(group, event)
        return notices.offsets_committed(group, who, wanted)

    # -- commits

    def _commit(self, event: CommitOffsets, now: float) -> list[Effect]:
        return offsets.commit(
            self.settings,
            self.appends,
            self.groups,
            event,
            now,
            _MAKE_GROUP,
            listening=self.listening,
        )

    # -- transactions

    def _commit_in_transaction(
        self, event: CommitInTransaction, now: float
    ) -> list[Effect]:
        turn = self._turn(now)
        transactional_offsets.commit(
            turn, self.groups, self.transactions, event, _MAKE_GROUP
        )
        return turn.end()

    def _transaction_ended(self, event: TransactionEnded, now: float) -> list[Effect]:
        assert not self.appends.waiting, "the log has all appends before a marker"
        turn = self._turn(now)
        transactional_offsets.ended(turn, self.groups, self.transactions, event)
        return turn.end()

    # -- the log

    def _note_refused(self, turn: Turn, append: Append, event: AppendFailed) -> None:
        notices.append_failed(turn, append, event)

    def _take_back(
        self, turn: Turn, groups: Groups, changed: Changed, error: int
    ) -> None:
        for change in reversed(changed.changes):
            undo.take_back(groups, change)
            if change.work:
                change.group.note_refused(change.work, turn.now)
            if change.is_rebalance:
                turn.lasting.count_rebalance(change.group.group_id, -1)
            room = self._rooms[change.group.type]
            room.undone(turn, change.group, change, error)
        for change in changed.changes:
            if change.group.group_id not in groups:
                turn.lasting.rebalances.pop(change.group.group_id, None)

    # -- timers

    def _expired(self, event: Expired, now: float) -> list[Effect]:
        effects = super()._expired(event, now)
        is_check = event.key == CHECK_KEY
        if not is_check and any(type(effect) is not Arm for effect in effects):
            self._next_expiry_ms = 0
        return effects

    @property
    def _check_interval_ms(self) -> int:
        return self.settings.offsets_retention_check_interval_ms

    def _check(self, turn: Turn, unchecked: list[str]) -> list[str]:
        """Checks some groups for expired offsets, if there may be any."""
        now_ms, settings = int(turn.now * 1000), turn.settings
        if not unchecked:
            if now_ms < self._next_expiry_ms and settings is self._checked_with:
                return []
            unchecked, self._checked_with = list(self.groups), settings
            # Those that are committed from now on.
            self._next_expiry_ms = now_ms + settings.offsets_retention_ms
        unchecked, next_ms = offsets.expire(turn, self.groups, unchecked)
        self._next_expiry_ms = min(self._next_expiry_ms, next_ms)
        return unchecked


def _by_type(acts: Mapping[str, Act]) -> Act:
    """Chooses the room of an event by the type of its group; by default the first."""
    default, *others = acts.values()
    if not others:
        return default

    def act(turn: Turn, groups: Groups, event: Any) -> None:
        group = groups.get(event.group_id)
        chosen = default if group is None else acts.get(group.type, default)
        chosen(turn, groups, event)

    return act


def _timer_by_type(acts: Mapping[str, OnTimer]) -> OnTimer:
    """Chooses the room of a timer; a group may have changed its type since."""

    def act(turn: Turn, group: Group, key: TimerKey) -> None:
        on_timer = acts.get(group.type)
        if on_timer is not None:
            on_timer(turn, group, key)

    return act
