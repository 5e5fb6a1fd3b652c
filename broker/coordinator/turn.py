"""The effects of one event, collected while the event is handled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.broker.coordinator.appends import Appends, Changed, Completion, Waiting
from kohort.broker.coordinator.classic.group import Group
from kohort.broker.coordinator.classic.member import NEVER, Member
from kohort.broker.coordinator.effects import (
    Arm,
    Disarm,
    Effect,
    Forget,
    JoinResult,
    Replies,
    Reply,
    Result,
    SyncResult,
    Written,
)
from kohort.broker.coordinator.events import TimerKey
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import Who, make
from kohort.protocol.slotted import slotted


@slotted
class Cause:
    """The cause of a rebalance."""

    kind: str
    """A word such as ``member_joined``."""
    who: Who | None = None
    """The member that caused it; the first if there are several."""
    reason: str | None = None
    """The client's own words (KIP-800)."""
    culprits: Sequence[str | None] = ()
    """The ids of all members that caused it, if there are several."""


class Turn:
    """The coordinator's turn on one event.

    Replies come last. A client that is answered may send its next request at once, and
    that finds every timer in place.
    """

    __slots__ = (
        "_replies",
        "appends",
        "effects",
        "lasting",
        "listening",
        "notices",
        "now",
        "settings",
    )

    def __init__(
        self,
        settings: GroupSettings,
        appends: Appends,
        lasting: Lasting,
        now: float,
        *,
        listening: bool,
    ) -> None:
        """Begins at `now`, seconds since the epoch; has notices only for listeners."""
        self.settings = settings
        self.appends = appends
        self.lasting = lasting
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
        self._replies.append(make(Reply, (token, result)))

    def reply_alike(
        self,
        result: JoinResult | SyncResult,
        tokens: Sequence[object],
        values: Sequence[str | bytes],
    ) -> None:
        """Answers several requests, in this order: see `Replies`."""
        if tokens:
            self._replies.append(make(Replies, (result, tokens, values)))

    def reply_after_appends(self, token: object, result: Result) -> None:
        """Answers a request once all records up to now are in the log."""
        self.appends.after(Reply(token, result), self._replies)

    def append(self, record: Written, completion: Completion = None) -> None:
        """Writes a record.

        Args:
            record: the record.
            completion: the step that follows when it is written.
        """
        self.effects.append(self.appends.add((record,), completion, []))

    def append_changes(
        self, records: Sequence[Written], changed: Changed, *, is_atomic: bool
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
        """Adds the effects that waited for an append."""
        for effect in waiting.effects:
            if type(effect) is Reply:
                self._replies.append(effect)
            else:
                self.notices.append(effect)

    # -- powers

    def max_size(self, group: Group) -> int:
        """The most members that a group may have (KIP-389)."""
        limits = self.lasting.max_sizes
        return limits.get(group.group_id, self.settings.max_size)

    def is_held(self, group: Group) -> bool:
        """Returns whether a group is held in its present state: timers stand still."""
        return self.lasting.holds.get(group.group_id) is group.state

    # -- timers

    def arm(self, key: TimerKey, deadline: float) -> None:
        """Sets a timer; `deadline` is in seconds since the epoch."""
        self.effects.append(Arm(key, deadline))

    def disarm(self, key: TimerKey) -> None:
        """Removes a timer that is no longer needed."""
        self.effects.append(Disarm(key))

    def keep_alive(self, member: Member, timeout: float) -> None:
        """Restarts a member's session, for `timeout` seconds.

        The armed timer may fire early; it is replaced only if it would fire late. That
        makes a sign of life one assignment. The session of a muted member is not
        restarted.
        """
        if member.is_muted:
            return
        deadline = member.deadline = self.now + timeout
        if deadline < member.armed:
            member.armed = deadline
            self.arm(member.session_key, deadline)

    def keep_all_alive(self, members: Iterable[Member]) -> None:
        """Restarts the sessions of members with their own timeouts; see `keep_alive`.

        One loop: it runs twice for each member of a rebalance.
        """
        now = self.now
        for member in members:
            if not member.is_muted:
                deadline = member.deadline = now + member.session_timeout
                if deadline < member.armed:
                    member.armed = deadline
                    self.arm(member.session_key, deadline)

    def last_heard(self, member: Member) -> float:
        """The time of a member's last sign of life, in seconds since the epoch.

        A member whose request waits counts as alive, unless it is new: only its
        JoinGroup has been heard. For a member that is credited with signs of life the
        time is in the future (`leave.credited`).
        """
        if member.is_new:
            timeout_ms = self.settings.new_member_join_timeout_ms
            return member.deadline - timeout_ms / 1000
        if member.satisfies_heartbeat:
            return self.now
        return member.deadline - member.session_timeout

    def end_session(self, member: Member) -> None:
        """Ends the session of this member id: its timer, and a mute."""
        if member.is_muted:
            self.lasting.unmute(member.session_key[1], member.member_id)
        if member.armed != NEVER:
            member.armed = NEVER
            self.disarm(member.session_key)

    # -- requests that wait

    def answer_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Answers the waiting join, if any."""
        if member.join_token is not None:
            self.reply(member.join_token, result)
            group.drop_join(member)

    def give_up_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Ends the wait of a join that another one replaces."""
        token = member.join_token
        if token is None or self.settings.is_helpful:
            self.answer_join(group, member, result)
            return
        self.effects.append(Forget(token, "the member has sent another JoinGroup"))
        group.drop_join(member)

    def give_up_sync(self, member: Member, result: SyncResult, why: str) -> None:
        """Ends the wait of a sync that Kafka never answers; Kafka has no mutes."""
        token = member.sync_token
        if token is None or self.settings.is_helpful or member.is_muted:
            self.answer_sync(member, result)
            return
        self.effects.append(Forget(token, why))
        member.sync_token = None

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answers the waiting sync; False if there is none."""
        if member.sync_token is None:
            return False
        self.reply(member.sync_token, result)
        member.sync_token = None
        return True
