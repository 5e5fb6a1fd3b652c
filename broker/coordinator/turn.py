"""What one event brings about: collected while the event is worked on."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.effects import (
    Append,
    Arm,
    Disarm,
    Effect,
    JoinResult,
    Notice,
    Record,
    Reply,
    Result,
    SyncResult,
    Who,
    make,
)
from kohort.broker.coordinator.events import TimerKey
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import NEVER, Member
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.state import GroupState
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted

_BYTES_PER_ROW = 100
"""Bytes that weigh as much as a row: a topic's name, and some partitions."""


@slotted
class Cause:
    """Why a group rebalances."""

    kind: str
    """As in ``member_joined``."""
    who: Who | None = None
    """Whose doing it is; of several the first."""
    reason: str | None = None
    """What the client said (KIP-800)."""
    culprits: Sequence[str | None] = ()
    """The member ids of all whose doing it is, where there are several."""


class Turn:
    """The coordinator's turn on one event.

    Replies come out last. Whoever is answered may send its next request at
    once, and that finds every record written and every timer in place. Notices
    come before them: of what cannot be written nobody is told.
    """

    __slots__ = ("_replies", "effects", "listening", "notices", "now", "settings")

    def __init__(self, settings: GroupSettings, now: float, *, listening: bool) -> None:
        """Begins at `now`, seconds since the epoch; notices only if listened to."""
        self.settings = settings
        self.now = now
        self.listening = listening
        self.effects: list[Effect] = []
        self.notices: list[Effect] = []
        self._replies: list[Effect] = []

    def end(self) -> list[Effect]:
        """Everything that is to happen, in order."""
        self.effects += self.notices
        self.effects += self._replies
        return self.effects

    def reply(self, token: object, result: Result) -> None:
        """Answers a request."""
        self._replies.append(Reply(token, result))

    def append(self, *records: Record) -> None:
        """Writes records; all replies of this turn wait for them."""
        self.effects.append(Append(records))

    # -- listeners: to be told only if there are any

    def notice(
        self,
        kind: str,
        group: Group,
        who: Who | None = None,
        weight: int = 1,
        /,
        **fields: object,
    ) -> None:
        """Tells listeners; see `Notice`."""
        self.notices.append(
            Notice(kind, group.group_id, group.generation_id, who, fields, weight)
        )

    def notice_refused(
        self,
        kind: str,
        group_id: str,
        group: Group | None,
        who: Who,
        /,
        **fields: object,
    ) -> None:
        """Tells listeners about somebody in a group that need not exist."""
        generation = None if group is None else group.generation_id
        self.notices.append(Notice(kind, group_id, generation, who, fields))

    def transition(self, group: Group, state: GroupState) -> None:
        """Takes a group to another state."""
        group.transition(state, self.now)
        if self.listening:
            self.notice_state(group)

    def notice_state(self, group: Group) -> None:
        """Tells listeners the state that the group has come to."""
        self.notice(
            "group_state",
            group,
            state=group.state.value,
            previous_state=group.previous_state.value,
        )

    def notice_leader(self, group: Group, cause: str, previous: str | None) -> None:
        """Tells listeners who leads, if there is anybody and it is another one."""
        leader = group.leader
        if leader is not None and leader != previous:
            who = group.members[leader].identity
            self.notice(
                "leader_chosen", group, who, cause=cause, previous_leader=previous
            )

    def notice_owned(
        self, group: Group, member: Member, before: bytes, after: bytes, cause: str
    ) -> None:
        """Tells listeners that a member's assignment has become another one."""
        self.notices.append(
            make(
                Notice,
                (
                    "partitions_changed",
                    group.group_id,
                    group.generation_id,
                    member.identity,
                    {"cause": cause, "before": before, "after": after},
                    1 + (len(before) + len(after)) // _BYTES_PER_ROW,
                ),
            )
        )

    # -- timers

    def arm(self, key: TimerKey, deadline: float) -> None:
        """Sets a timer, seconds since the epoch."""
        self.effects.append(Arm(key, deadline))

    def disarm(self, key: TimerKey) -> None:
        """A timer is not needed any more."""
        self.effects.append(Disarm(key))

    def keep_alive(self, member: Member, timeout: float) -> None:
        """Starts a member's session again, for `timeout` seconds.

        The timer that is armed may fire early: it is only replaced where it
        would fire late. That makes a sign of life one assignment.
        """
        deadline = member.deadline = self.now + timeout
        if deadline < member.armed:
            member.armed = deadline
            self.arm(member.session_key, deadline)

    def end_session(self, member: Member) -> None:
        """Nobody waits for signs of life of this member id any more."""
        if member.armed != NEVER:
            member.armed = NEVER
            self.disarm(member.session_key)

    # -- requests that wait

    def answer_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Answers the join that waits, if any."""
        if member.join_token is not None:
            self.reply(member.join_token, result)
            member.join_token = None
            group.awaiting_join -= 1

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answers the sync that waits; False where none does."""
        if member.sync_token is None:
            return False
        self.reply(member.sync_token, result)
        member.sync_token = None
        return True

    def remove(self, group: Group, member: Member, kind: str, **fields: object) -> None:
        """Takes a member out of its group, and out of whatever it waits for.

        UNKNOWN_MEMBER_ID makes a client that is still there join as a new
        member. Kafka leaves a waiting sync without an answer here.

        Args:
            group: its group.
            member: the member.
            kind: what listeners are to be told.
            fields: of that.
        """
        code = ErrorCode.UNKNOWN_MEMBER_ID
        self.answer_join(group, member, JoinResult(code, ""))
        self.answer_sync(member, SyncResult(code))
        self.end_session(member)
        leader = group.leader
        group.remove(member.member_id)
        if self.listening:
            group.wait_is_over(member.member_id, self.now, came=False)
            self.notice(kind, group, member.identity, **fields)
            if member.owned:
                self.notice_owned(group, member, member.owned, b"", "gone")
            self.notice_leader(group, "gone", leader)

    def remove_pending(
        self, group: Group, member_id: str, kind: str, **fields: object
    ) -> Who:
        """Forgets an id that was given out; says whom it was given to."""
        who = group.pending_clients.get(member_id, (member_id, None, None, None))
        group.remove(member_id)
        if self.listening:
            group.wait_is_over(member_id, self.now, came=False)
            self.notice(kind, group, who, **fields)
        return who
