"""What one event brings about: collected while the event is worked on."""

from __future__ import annotations

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
)
from kohort.broker.coordinator.events import TimerKey
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import NEVER, Member
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.state import GroupState
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted


@slotted
class Cause:
    """Why a group rebalances."""

    kind: str
    """As in ``member_joined``."""
    member_id: str
    reason: str | None = None
    """What the client said (KIP-800)."""


class Turn:
    """The coordinator's turn on one event.

    Replies come out last. Whoever is answered may send its next request at
    once, and that finds every record written and every timer in place.
    """

    __slots__ = ("_replies", "effects", "listening", "now", "settings")

    def __init__(self, settings: GroupSettings, now: float, *, listening: bool) -> None:
        """Begins at `now`, seconds since the epoch; notices only if listened to."""
        self.settings = settings
        self.now = now
        self.listening = listening
        self.effects: list[Effect] = []
        self._replies: list[Effect] = []

    def end(self) -> list[Effect]:
        """Everything that is to happen, in order."""
        self.effects += self._replies
        return self.effects

    def reply(self, token: object, result: Result) -> None:
        """Answers a request."""
        self._replies.append(Reply(token, result))

    def append(self, *records: Record) -> None:
        """Writes records; all replies of this turn wait for them."""
        self.effects.append(Append(records))

    def notice(self, kind: str, group_id: str, **fields: object) -> None:
        """Tells listeners; to be called only if there are any."""
        self.effects.append(Notice(kind, group_id, None, None, fields))

    def transition(self, group: Group, state: GroupState) -> None:
        """Takes a group to another state."""
        group.transition(state, self.now)
        if self.listening:
            self.notice_state(group)

    def notice_state(self, group: Group) -> None:
        """Tells listeners the state that the group has come to."""
        self.notice(
            "group_state",
            group.group_id,
            previous_state=group.previous_state,
            state=group.state,
            generation_id=group.generation_id,
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

    def remove(self, group: Group, member: Member) -> None:
        """Takes a member out of its group, and out of whatever it waits for.

        UNKNOWN_MEMBER_ID makes a client that is still there join as a new
        member. Kafka leaves a waiting sync without an answer here.
        """
        code = ErrorCode.UNKNOWN_MEMBER_ID
        self.answer_join(group, member, JoinResult(code, ""))
        self.answer_sync(member, SyncResult(code))
        self.end_session(member)
        group.remove(member.member_id)
