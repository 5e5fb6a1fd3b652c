"""The group coordinator: takes events one by one, and returns their effects.

It decides as Apache Kafka 4.3 does for groups of the classic protocol. It reads no
clock and draws no random number: the time comes with each event, ids from
`new_member_id`.

One rebalance through the files: ana, the leader, and ben are in a Stable group, and
carl joins.

1. carl's JoinGroup has no member id. `join._hand_out_id` makes carl a pending member
   and answers MEMBER_ID_REQUIRED with the id (KIP-394).
2. carl's JoinGroup has that id. `join._add_member` adds carl to the group;
   `rebalance.prepare` takes the group to PreparingRebalance and arms the timer
   ("join", group) for the longest rebalance timeout. carl's join waits.
3. Heartbeats of ana and ben are answered REBALANCE_IN_PROGRESS from now on, so they
   join again. `join._rejoin` lets their joins wait, too.
4. The last join comes, or the timer fires: `rebalance.complete_join` ends the join
   phase. It removes members that are late (`removal.remove`), ensures that the leader
   has joined (`Group.elect_leader`), starts the generation, chooses its protocol
   (`Group.next_generation`: CompletingRebalance), and answers all joins. The leader's
   answer lists the members. The timer ("sync", group) is armed.
5. SyncGroups of ben and carl wait in `sync.sync`. ana's brings the assignments:
   `sync.store_assignments` appends the group's record. When the log has it
   (`appends`), `sync.assigned` makes the group Stable and answers all syncs. A
   SyncGroup that comes later is answered at once.
6. A member whose SyncGroup does not come before the timer fires is removed
   (`rebalance.sync_expired`), and the next rebalance starts.

A rebalance also starts when members leave or their sessions expire (`leave`), when a
static member is replaced (`static`), or when a loaded group has too many members
(`load`). In an Empty group it starts with initial windows in place of step 3
(`rebalance`, KIP-134).

Each event has one `Turn`, which collects its effects: appends and timers, then notices
for listeners (`notices`), then replies. The most frequent events do without:
heartbeats, commits, and joins and syncs that only wait. The driver tries `hear`,
`prepare_commit`, `wait_to_join` and `wait_to_sync` before `handle`.

`state` has the table of states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from kohort.broker.coordinator import admin, notices, offsets, transactional_offsets
from kohort.broker.coordinator.appends import (
    Appends,
    Assigned,
    Changed,
    Replaced,
    committed_group,
)
from kohort.broker.coordinator.classic import (
    join,
    leave,
    powers,
    rebalance,
    removal,
    static,
    sync,
)
from kohort.broker.coordinator.classic.group import HEARTBEAT_RESULTS, Group
from kohort.broker.coordinator.effects import (
    Arm,
    Effect,
    HeartbeatResult,
    JoinResult,
    Reply,
    Result,
    SyncResult,
    reverted,
)
from kohort.broker.coordinator.events import (
    Appended,
    AppendFailed,
    CommitInTransaction,
    CommitOffsets,
    Credited,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Event,
    Expire,
    Expired,
    FetchOffsets,
    Heartbeat,
    HoldGroup,
    Join,
    Kick,
    Leave,
    LimitGroup,
    ListGroups,
    Mute,
    ReleaseGroup,
    Sync,
    TopicsDeleted,
    TransactionEnded,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.load import Loading
from kohort.broker.coordinator.pending import OpenTransactions
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice
from kohort.protocol.errors import ErrorCode

_Handler = Callable[[Any, float], list[Effect]]

OFFSETS_KEY = ("offsets",)
"""The timer of the check for expired offsets."""
_RESPONSE_ERRORS: dict[int, int] = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes sent in place of the log's own, where a client would take the log's code
for an error in its request."""

_EXPIRE_NOTHING = frozenset(
    {Heartbeat, FetchOffsets, DescribeGroup, ListGroups, Credited, Appended, Expired}
)
"""Events after which no offset expires earlier; `Expired` may have effects that do."""

CHECK_PAUSE = 0.05
"""Seconds between two parts of a check: 50 coordinators may check at once."""


class Coordinator:
    """Coordinates groups.

    Attributes:
        settings: group coordinator settings; may be replaced at any time, with
            effect from the next event on.
        groups: by group id.
        appends: appends that are not in the log yet.
        transactions: the open transactions with offsets of its groups.
        listening: whether notices are made.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        *,
        heartbeats: bool = False,
        lasting: Lasting | None = None,
    ) -> None:
        """Creates a coordinator without groups.

        Args:
            settings: group coordinator settings.
            new_member_id: makes a unique id from a client id or, for static members,
                an instance id.
            heartbeats: whether heartbeats make notices, too.
            lasting: powers in force, shared by all coordinators of a broker.
        """
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.listening = True
        # Groups not visited yet by the current check for expired offsets.
        self._unchecked: list[str] = []
        # By the last check with these settings nothing expires before this time, unless
        # a group changes. So days of an advanced clock cost one check, not hundreds.
        self._next_expiry_ms: float = 0
        self._checked_with = settings
        self._new_member_id = new_member_id
        self.appends = Appends()
        self.transactions = OpenTransactions()
        self.lasting = Lasting() if lasting is None else lasting
        self._handlers: dict[type, _Handler] = {
            Heartbeat: self._heartbeat,
            CommitOffsets: self._commit,
            Join: self._join,
            Sync: self._sync,
            Leave: self._in_turn(leave.leave),
            Credited: self._credited,
            Expired: self._expired,
            FetchOffsets: self._answered_by(offsets.fetch),
            DescribeGroup: self._answered_by(admin.describe),
            ListGroups: self._answered_by(admin.list_groups),
            DeleteGroup: self._in_turn(admin.delete),
            DeleteOffsets: self._in_turn(offsets.delete),
            TopicsDeleted: self._in_turn(offsets.topics_deleted),
            CommitInTransaction: self._commit_in_transaction,
            TransactionEnded: self._transaction_ended,
            Kick: self._in_turn(powers.kick),
            Expire: self._in_turn(powers.expire),
            Mute: self._in_turn(powers.mute),
            Unmute: self._in_turn(powers.unmute),
            TriggerRebalance: self._in_turn(powers.trigger),
            HoldGroup: self._in_turn(powers.hold),
            ReleaseGroup: self._in_turn(powers.release),
            LimitGroup: self._in_turn(powers.limit),
            Appended: self._appended,
            AppendFailed: self._append_failed,
        }
        self._makes_heartbeat_notices = heartbeats
        if heartbeats:
            self._handlers[Heartbeat] = self._noticed_heartbeat

    def start(self, now: float) -> list[Effect]:
        """Arms the timer that always runs: the check for expired offsets."""
        return [self._arm_check(now)]

    def unload(self) -> list[Effect]:
        """Ends the coordinator: another one takes over its groups.

        Returns:
            NOT_COORDINATOR to each request that waits.
        """
        error = ErrorCode.NOT_COORDINATOR
        effects: list[Effect] = []
        for waiting in self.appends.waiting:
            for reply in waiting.effects:
                if isinstance(reply, Reply):
                    effects += [Reply(reply.token, reverted(reply.result))]
        for group in self.groups.values():
            for member in group.ordered():
                if member.join_token is not None:
                    result = JoinResult(error, member.member_id)
                    effects.append(Reply(member.join_token, result))
                if member.sync_token is not None:
                    effects.append(Reply(member.sync_token, SyncResult(error)))
        self._forget_unwritten()
        return effects

    def _forget_unwritten(self) -> None:
        """Drops the mutes of groups that have no record in the log."""
        for group_id in self.groups.keys() & self.lasting.muted.keys():
            if committed_group(self.appends, self.groups, group_id) is None:
                del self.lasting.muted[group_id]

    def take_over(self, loading: Loading, now: float) -> list[Effect]:
        """Takes over the groups of a log, before any request for them is handled.

        Args:
            loading: has read all records of these groups.
            now: seconds since the epoch.

        Returns:
            Timers and notices.
        """
        turn = self._turn(now)
        self.transactions = loading.transactions
        loading.finish(turn, self.groups)
        return turn.end()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handles an event.

        Args:
            event: a request, or a timer that fired.
            now: seconds since the epoch, never less than before.

        Returns:
            Effects, to be performed in order: records, timers and notices, then
            replies.
        """
        kind = type(event)
        if kind not in _EXPIRE_NOTHING:
            self._next_expiry_ms = 0
        return self._handlers[kind](event, now)

    def _turn(self, now: float) -> Turn:
        return Turn(
            self.settings, self.appends, self.lasting, now, listening=self.listening
        )

    def _in_turn(self, act: Callable[[Turn, dict[str, Group], Any], None]) -> _Handler:
        """Returns a handler of events that may change groups."""

        def handle(event: Event, now: float) -> list[Effect]:
            turn = self._turn(now)
            act(turn, self.groups, event)
            return turn.end()

        return handle

    def _answered_by(
        self, ask: Callable[[Appends, dict[str, Group], Any], Result]
    ) -> _Handler:
        """Returns a handler of events that only read."""

        def handle(event: Any, _: float) -> list[Effect]:
            return [Reply(event.token, ask(self.appends, self.groups, event))]

        return handle

    # -- the hot path
    #
    # These do the same as `handle`, at half the cost, if an event has no effect but
    # its reply and a notice. They return None if nothing was done.

    def hear(self, event: Heartbeat, now: float) -> HeartbeatResult | None:
        """Handles a heartbeat that only keeps its member alive, as nearly all."""
        group = self.groups.get(event.group_id)
        if (
            group is None
            or self.appends.waiting
            or self._makes_heartbeat_notices
            or self._heartbeat_error(group, event)
            or not group.members[event.member_id].stay_alive(now)
        ):
            return None
        if group.waits:
            notices.note_told(group, event.member_id, now)
        return group.heartbeat_result

    def wait_to_join(self, event: Join, now: float) -> Notice | Literal[True] | None:
        """Handles a join that only waits: see `join.only_wait`."""
        group = self.groups.get(event.group_id)
        return join.only_wait(
            self.settings, self.lasting, group, event, now, listening=self.listening
        )

    def wait_to_sync(self, event: Sync, _: float) -> Literal[True] | None:
        """Handles a sync that only waits: see `sync.only_wait`."""
        return sync.only_wait(self.groups.get(event.group_id), event)

    def prepare_commit(self, event: CommitOffsets, now: float) -> Group | None:
        """Checks a commit that only stores offsets, as nearly all: see `offsets`.

        Returns:
            The group: the caller writes the records, and calls `finish_commit`.
        """
        group = self.groups.get(event.group_id)
        if self.appends.waiting or not offsets.only_stores(group, event, self.settings):
            return None
        member = group.members.get(event.member_id)
        if member is not None and not member.is_muted and not member.stay_alive(now):
            return None
        return group

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
            wanted.metadata,
            commit_ms,
        )
        if not self.listening:
            return None
        who = notices.sender(group, event)
        return notices.offsets_committed(group, who, wanted)

    # -- heartbeats and commits

    def _heartbeat(self, event: Heartbeat, now: float) -> list[Effect]:
        group = self.groups.get(event.group_id)
        error = self._heartbeat_error(group, event)
        if error or group is None:
            reply = Reply(event.token, HEARTBEAT_RESULTS[error])
            if error == ErrorCode.FENCED_INSTANCE_ID and self.listening:
                assert group is not None
                return [notices.member_fenced(group, event), reply]
            return [reply]
        effects: list[Effect] = []
        group.members[event.member_id].keep_alive(now, effects)
        if group.waits:
            notices.note_told(group, event.member_id, now)
        self.appends.after(Reply(event.token, group.heartbeat_result), effects)
        return effects

    def _noticed_heartbeat(self, event: Heartbeat, now: float) -> list[Effect]:
        """Handles a heartbeat and makes a notice, for listeners that asked for them."""
        effects = self._heartbeat(event, now)
        if self.listening:
            group = self.groups.get(event.group_id)
            code = self._heartbeat_error(group, event)
            if not code and group is not None:
                code = group.heartbeat_result.error_code
            effects.insert(0, notices.heartbeat(group, event, code))
        return effects

    def _heartbeat_error(self, group: Group | None, event: Heartbeat) -> int:
        if not event.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.validate_member(event.member_id, event.group_instance_id)
        if not error and event.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _commit(self, event: CommitOffsets, now: float) -> list[Effect]:
        return offsets.commit(
            self.settings,
            self.appends,
            self.groups,
            event,
            now,
            listening=self.listening,
        )

    # -- transactions

    def _commit_in_transaction(
        self, event: CommitInTransaction, now: float
    ) -> list[Effect]:
        turn = self._turn(now)
        transactional_offsets.commit(turn, self.groups, self.transactions, event)
        return turn.end()

    def _transaction_ended(self, event: TransactionEnded, now: float) -> list[Effect]:
        assert not self.appends.waiting, "the log has all appends before a marker"
        turn = self._turn(now)
        transactional_offsets.ended(turn, self.groups, self.transactions, event)
        return turn.end()

    # -- the log

    def _appended(self, event: Appended, now: float) -> list[Effect]:
        """Finishes appends that are in the log."""
        turn = self._turn(now)
        for append in self.appends.take(event.append_id):
            turn.release(append)
            completion = append.completion
            if type(completion) is Assigned:
                sync.assigned(turn, self.groups, completion)
            elif type(completion) is Replaced:
                static.replaced(turn, self.groups, completion)
            elif type(completion) is Changed:
                offsets.buried(turn, completion)
        return turn.end()

    def _append_failed(self, event: AppendFailed, now: float) -> list[Effect]:
        """Undoes an append that the log refused, and everything that waited for it."""
        turn = self._turn(now)
        error = _RESPONSE_ERRORS.get(event.error_code, event.error_code)
        waiting = self.appends.remove(event.append_id)
        notices.append_failed(turn, waiting.append, event)
        completion = waiting.completion
        if type(completion) is Assigned:
            sync.not_assigned(turn, self.groups, completion, error)
        elif type(completion) is Replaced:
            static.not_replaced(turn, self.groups, completion, error)
        elif type(completion) is Changed:
            for change in reversed(completion.changes):
                removal.take_back(turn, self.groups, change, error)
        for effect in waiting.effects:
            if type(effect) is Reply:
                turn.reply(effect.token, reverted(effect.result, error))
        return turn.end()

    # -- members

    def _join(self, event: Join, now: float) -> list[Effect]:
        turn = self._turn(now)
        join.join(turn, self.groups, event, self._new_member_id)
        return turn.end()

    def _sync(self, event: Sync, now: float) -> list[Effect]:
        turn = self._turn(now)
        sync.sync(turn, self.groups, event)
        return turn.end()

    def _credited(self, event: Credited, _: float) -> list[Effect]:
        leave.credited(self.groups, event)
        return []

    # -- timers

    def _expired(self, event: Expired, now: float) -> list[Effect]:
        """Handles a timer; a timer that is no longer needed has no effect."""
        turn = self._turn(now)
        kind = event.key[0]
        if kind == "offsets":
            self._check_offsets(turn)
            turn.effects.append(self._arm_check(now))
            return turn.end()
        group = self.groups.get(event.key[1])
        if group is None:
            return []
        if kind == "session":
            leave.session_expired(turn, group, event.key[2])
        elif kind == "join":
            rebalance.join_expired(turn, group)
        elif kind == "sync":
            rebalance.sync_expired(turn, group)
        else:
            raise AssertionError(f"a timer of an unknown kind: {event.key}")
        effects = turn.end()
        if any(type(effect) is not Arm for effect in effects):
            self._next_expiry_ms = 0
        return effects

    def _check_offsets(self, turn: Turn) -> None:
        """Checks some groups for expired offsets, if there may be any."""
        now_ms, settings = int(turn.now * 1000), turn.settings
        unchecked = self._unchecked
        if not unchecked:
            if now_ms < self._next_expiry_ms and settings is self._checked_with:
                return
            unchecked, self._checked_with = list(self.groups), settings
            # Those that are committed from now on.
            self._next_expiry_ms = now_ms + settings.offsets_retention_ms
        self._unchecked, next_ms = offsets.expire(turn, self.groups, unchecked)
        self._next_expiry_ms = min(self._next_expiry_ms, next_ms)

    def _arm_check(self, now: float) -> Arm:
        if self._unchecked:
            return Arm(OFFSETS_KEY, now + CHECK_PAUSE)
        interval_ms = self.settings.offsets_retention_check_interval_ms
        return Arm(OFFSETS_KEY, now + interval_ms / 1000)
