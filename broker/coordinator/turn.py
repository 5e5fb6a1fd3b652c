"""The effects of one event, collected while the event is handled."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.appends import Appends, Changed, Completion, Waiting
from kohort.broker.coordinator.effects import (
    Arm,
    Disarm,
    Effect,
    Forget,
    JoinResult,
    Record,
    Reply,
    Result,
    SyncResult,
    Who,
)
from kohort.broker.coordinator.events import TimerKey
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import NEVER, Member
from kohort.broker.coordinator.settings import GroupSettings
from kohort.protocol.slotted import slotted


@slotted
class Cause:
    """Why a group rebalances."""

    kind: str
    """As in ``member_joined``."""
    who: Who | None = None
    """The member that caused it; of several the first."""
    reason: str | None = None
    """The client's own words (KIP-800)."""
    culprits: Sequence[str | None] = ()
    """The ids of all members that caused it, where there are several."""


class Turn:
    """The coordinator's turn on one event.

    Replies come last. A client that is answered may send its next request at
    once, and that finds every timer in place.
    """

    __slots__ = (
        "_replies",
        "appends",
        "effects",
        "listening",
        "notices",
        "now",
        "settings",
    )

    def __init__(
        self, settings: GroupSettings, appends: Appends, now: float, *, listening: bool
    ) -> None:
        """Begins at `now`, seconds since the epoch; notices only if listened to."""
        self.settings = settings
        self.appends = appends
        self.now = now
        self.listening = listening
        self.effects: list[Effect] = []
        self.notices: list[Effect] = []
        self._replies: list[Effect] = []

    def end(self) -> list[Effect]:
        """All effects, in order."""
        self.effects += self.notices
        self.effects += self._replies
        return self.effects

    def reply(self, token: object, result: Result) -> None:
        """Answers a request."""
        self._replies.append(Reply(token, result))

    def reply_after_appends(self, token: object, result: Result) -> None:
        """Answers a request once all records of now and before are in the log."""
        self.appends.after(Reply(token, result), self._replies)

    def append(self, record: Record, completion: Completion = None) -> None:
        """Writes a record.

        Args:
            record: the record.
            completion: what follows when it is written.
        """
        self.effects.append(self.appends.add((record,), completion, []))

    def append_changes(
        self, records: Sequence[Record], changed: Changed, *, is_atomic: bool
    ) -> None:
        """Writes records of changes; all notices of this turn wait for them.

        Args:
            records: the records.
            changed: the groups as they were.
            is_atomic: whether the records have to fit into one batch.
        """
        waiting, self.notices = self.notices, []
        append = self.appends.add(records, changed, waiting, is_atomic=is_atomic)
        self.effects.append(append)

    def release(self, waiting: Waiting) -> None:
        """Lets out what waited for an append."""
        for effect in waiting.effects:
            if type(effect) is Reply:
                self._replies.append(effect)
            else:
                self.notices.append(effect)

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

    def last_heard(self, member: Member) -> float:
        """When a member gave its last sign of life, in seconds since the epoch.

        A member whose request waits counts as alive, unless it is new: nothing but
        its JoinGroup was heard of that one.
        """
        if member.is_new:
            timeout_ms = self.settings.new_member_join_timeout_ms
            return member.deadline - timeout_ms / 1000
        if member.satisfies_heartbeat:
            return self.now
        return member.deadline - member.session_timeout

    def end_session(self, member: Member) -> None:
        """Ends the session timer of this member id."""
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

    def give_up_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Ends the wait of a join that another one replaces."""
        token = member.join_token
        if token is None or self.settings.is_helpful:
            self.answer_join(group, member, result)
            return
        self.effects.append(Forget(token, "the member has sent another JoinGroup"))
        member.join_token = None
        group.awaiting_join -= 1

    def give_up_sync(self, member: Member, result: SyncResult, why: str) -> None:
        """Ends the wait of a sync that Kafka never answers."""
        token = member.sync_token
        if token is None or self.settings.is_helpful:
            self.answer_sync(member, result)
            return
        self.effects.append(Forget(token, why))
        member.sync_token = None

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answers the sync that waits; False where none does."""
        if member.sync_token is None:
            return False
        self.reply(member.sync_token, result)
        member.sync_token = None
        return True
