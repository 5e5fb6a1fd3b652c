"""The effects of one event, collected while the event is handled."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.appends import Appends, Changed, Completion, Waiting
from kohort.broker.coordinator.effects import (
    Arm,
    Disarm,
    Effect,
    JoinResult,
    Replies,
    Reply,
    Result,
    SyncResult,
    Written,
)
from kohort.broker.coordinator.events import TimerKey
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import make


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

    def append(
        self,
        record: Written,
        completion: Completion = None,
        *,
        opens_window: bool = False,
    ) -> None:
        """Writes a record.

        Args:
            record: the record.
            completion: the step that follows when it is written.
            opens_window: see `Append`.
        """
        append = self.appends.add((record,), completion, [], opens_window=opens_window)
        self.effects.append(append)

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
