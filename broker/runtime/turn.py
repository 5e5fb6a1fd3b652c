"""The effects of one event, collected while the event is handled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.broker.notice import make
from kohort.broker.runtime.appends import Appends, Waiting
from kohort.broker.runtime.effects import Arm, Disarm, Effect, Reply
from kohort.broker.runtime.events import TimerKey


class MachineTurn:
    """A coordinator's turn on one event.

    Replies come last. A client that is answered may send its next request at once, and
    that finds every timer in place.

    Attributes:
        appends: the coordinator's appends that are not in the log yet.
        now: seconds since the epoch.
        listening: whether notices are made.
        effects: appends and timers.
        notices: come after them.
    """

    __slots__ = ("_replies", "appends", "effects", "listening", "notices", "now")

    def __init__(self, appends: Appends, now: float, *, listening: bool) -> None:
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

    def reply(self, token: object, result: object) -> None:
        """Answers a request."""
        self._replies.append(make(Reply, (token, result)))

    def reply_after_appends(self, token: object, result: object) -> None:
        """Answers a request once all records up to now are in the log."""
        self.appends.after(Reply(token, result), self._replies)

    def append_batch(
        self,
        records: Sequence[Any],
        completion: object,
        waiting: list[Effect],
        *,
        is_atomic: bool = True,
        opens_window: bool = False,
    ) -> None:
        """Writes records; see `Appends.add`."""
        append = self.appends.add(
            records,
            completion,
            waiting,
            is_atomic=is_atomic,
            opens_window=opens_window,
        )
        self.effects.append(append)

    def release(self, waiting: Waiting) -> None:
        """Adds the effects that waited for an append."""
        for effect in waiting.effects:
            if type(effect) is Reply:
                self._replies.append(effect)
            else:
                self.notices.append(effect)

    def arm(self, key: TimerKey, deadline: float) -> None:
        """Sets a timer; `deadline` is in seconds since the epoch."""
        self.effects.append(Arm(key, deadline))

    def disarm(self, key: TimerKey) -> None:
        """Removes a timer that is no longer needed."""
        self.effects.append(Disarm(key))
