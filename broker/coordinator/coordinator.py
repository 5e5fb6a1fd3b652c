"""The group coordinator: takes events one by one, and says what is to be done.

It decides as Apache Kafka 4.3 does for groups of the classic protocol. It reads
no clock and draws no random number: the time comes with each event, ids from
the function that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kohort.broker.coordinator import (
    admin,
    join,
    leave,
    offsets,
    rebalance,
    replay,
    sync,
)
from kohort.broker.coordinator.effects import (
    Arm,
    Effect,
    HeartbeatResult,
    JoinResult,
    Notice,
    Record,
    Reply,
    SyncResult,
    Who,
)
from kohort.broker.coordinator.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Event,
    Expired,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Sync,
    TopicsDeleted,
)
from kohort.broker.coordinator.group import HEARTBEAT_RESULTS, Group
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode

OFFSETS_KEY = ("offsets",)
"""The timer of the check for offsets that are to expire."""
CHECK_PAUSE = 0.05
"""Seconds from one part of a check to the next: 50 coordinators may check at once."""


class Coordinator:
    """Coordinates groups.

    Attributes:
        settings: what it goes by; may be replaced at any time, and counts from
            the next event on.
        groups: by group id.
        listening: whether notices are made.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        *,
        heartbeats: bool = False,
    ) -> None:
        """Makes a coordinator without groups.

        Args:
            settings: what it goes by.
            new_member_id: makes an id that is not taken, of a client id or, for
                static members, an instance id.
            heartbeats: whether to make notices of heartbeats, too.
        """
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.listening = True
        # Groups that a check for expired offsets has not come to yet.
        self._unchecked: list[str] = []
        self._new_member_id = new_member_id
        self._handlers: dict[type, Callable[[Any, float], list[Effect]]] = {
            Heartbeat: self._heartbeat,
            CommitOffsets: self._commit,
            Join: self._join,
            Sync: self._sync,
            Leave: self._leave,
            Expired: self._expired,
            FetchOffsets: self._fetch,
            DescribeGroup: self._describe,
            ListGroups: self._list,
            DeleteGroup: self._delete_group,
            DeleteOffsets: self._delete_offsets,
            TopicsDeleted: self._topics_deleted,
        }
        if heartbeats:
            self._handlers[Heartbeat] = self._noticed_heartbeat

    def start(self, now: float) -> list[Effect]:
        """Arms what always runs: the check for offsets that are to expire."""
        return [self._arm_check(now)]

    def load(self, records: Iterable[Record], now: float) -> list[Effect]:
        """Takes over the groups of a log, before any event of them is handled.

        Args:
            records: what was appended about these groups, in order.
            now: seconds since the epoch.

        Returns:
            Timers and notices.
        """
        turn = self._turn(now)
        replay.load(turn, self.groups, records)
        return turn.end()

    def unload(self) -> list[Effect]:
        """Another coordinator takes the groups over.

        Returns:
            NOT_COORDINATOR to each join and sync that waits.
        """
        error = ErrorCode.NOT_COORDINATOR
        effects: list[Effect] = []
        for group in self.groups.values():
            for member in group.members.values():
                if member.join_token is not None:
                    result = JoinResult(error, member.member_id)
                    effects.append(Reply(member.join_token, result))
                if member.sync_token is not None:
                    effects.append(Reply(member.sync_token, SyncResult(error)))
        return effects

    def take_over(self, loading: replay.Loading, now: float) -> list[Effect]:
        """Takes over the groups of a log that was read in slices; as `load`."""
        turn = self._turn(now)
        loading.finish(turn, self.groups)
        return turn.end()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Takes an event.

        Args:
            event: what happened.
            now: seconds since the epoch, never less than before.

        Returns:
            What is to be done, in this order: records, timers and notices,
            then replies.
        """
        return self._handlers[type(event)](event, now)

    def _turn(self, now: float) -> Turn:
        return Turn(self.settings, now, listening=self.listening)

    # -- the hot path

    def _heartbeat(self, event: Heartbeat, now: float) -> list[Effect]:
        group = self.groups.get(event.group_id)
        if group is not None and event.generation_id == group.generation_id:
            member = group.members.get(event.member_id)
            if member is not None and (
                event.group_instance_id is None
                or event.group_instance_id == member.group_instance_id
            ):
                deadline = member.deadline = now + member.session_timeout
                reply = Reply(event.token, group.heartbeat_result)
                if deadline < member.armed:
                    member.armed = deadline
                    return [Arm(member.session_key, deadline), reply]
                return [reply]
        error = self._heartbeat_error(group, event)
        return [Reply(event.token, HEARTBEAT_RESULTS[error])]

    def _noticed_heartbeat(self, event: Heartbeat, now: float) -> list[Effect]:
        """The same, where listeners asked for heartbeats."""
        effects = self._heartbeat(event, now)
        if self.listening:
            (reply,) = (each for each in effects if isinstance(each, Reply))
            assert isinstance(reply.result, HeartbeatResult)  # noqa: S101 - ours
            who: Who = (event.member_id or None, event.group_instance_id, None, None)
            generation = None
            group = self.groups.get(event.group_id)
            if group is not None:
                generation = group.generation_id
                member = group.members.get(event.member_id)
                if member is not None:
                    who = member.identity
            fields = {"error": ErrorCode(reply.result.error_code).name}
            notice = Notice("heartbeat", event.group_id, generation, who, fields)
            effects.insert(-1, notice)
        return effects

    def _heartbeat_error(self, group: Group | None, event: Heartbeat) -> int:
        if not event.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.validate_member(event.member_id, event.group_instance_id)
        return error or ErrorCode.ILLEGAL_GENERATION

    def _commit(self, event: CommitOffsets, now: float) -> list[Effect]:
        return offsets.commit(
            self.settings, self.groups, event, now, listening=self.listening
        )

    def _fetch(self, event: FetchOffsets, _: float) -> list[Effect]:
        return [Reply(event.token, offsets.fetch(self.groups, event))]

    # -- members

    def _join(self, event: Join, now: float) -> list[Effect]:
        turn = self._turn(now)
        join.join(turn, self.groups, event, self._new_member_id)
        return turn.end()

    def _sync(self, event: Sync, now: float) -> list[Effect]:
        turn = self._turn(now)
        sync.sync(turn, self.groups, event)
        return turn.end()

    def _leave(self, event: Leave, now: float) -> list[Effect]:
        turn = self._turn(now)
        leave.leave(turn, self.groups, event)
        return turn.end()

    # -- timers

    def _expired(self, event: Expired, now: float) -> list[Effect]:
        """A timer; one that is not needed any more finds nothing to do."""
        turn = self._turn(now)
        kind = event.key[0]
        if kind == "offsets":
            self._unchecked = offsets.expire(
                turn, self.groups, self._unchecked or list(self.groups)
            )
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
            raise AssertionError(f"a timer of nobody's: {event.key}")
        return turn.end()

    def _arm_check(self, now: float) -> Arm:
        if self._unchecked:
            return Arm(OFFSETS_KEY, now + CHECK_PAUSE)
        interval_ms = self.settings.offsets_retention_check_interval_ms
        return Arm(OFFSETS_KEY, now + interval_ms / 1000)

    # -- admins

    def _describe(self, event: DescribeGroup, _: float) -> list[Effect]:
        return [Reply(event.token, admin.describe(self.groups, event))]

    def _list(self, event: ListGroups, _: float) -> list[Effect]:
        return [Reply(event.token, admin.list_groups(self.groups, event))]

    def _delete_group(self, event: DeleteGroup, now: float) -> list[Effect]:
        turn = self._turn(now)
        admin.delete(turn, self.groups, event)
        return turn.end()

    def _delete_offsets(self, event: DeleteOffsets, now: float) -> list[Effect]:
        turn = self._turn(now)
        offsets.delete(turn, self.groups, event)
        return turn.end()

    def _topics_deleted(self, event: TopicsDeleted, now: float) -> list[Effect]:
        turn = self._turn(now)
        offsets.topics_deleted(turn, self.groups, event)
        return turn.end()
