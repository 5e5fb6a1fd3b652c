"""The state machine of a coordinator: takes events one by one, returns their effects.

It reads no clock and draws no random number: the time comes with each event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kohort.broker.runtime.appends import Appends
from kohort.broker.runtime.effects import Append, Arm, Effect, Reply, failed
from kohort.broker.runtime.events import Appended, AppendFailed, Expired, TimerKey
from kohort.broker.runtime.turn import MachineTurn
from kohort.protocol.errors import ErrorCode

S = TypeVar("S")
T = TypeVar("T", bound=MachineTurn)
L = TypeVar("L", bound="Loading")

Handler = Callable[[Any, float], list[Effect]]
"""Handles an event at a time, in seconds since the epoch."""
OnTimer = Callable[[Any, Any, TimerKey], None]
"""Handles a timer of a state, in a turn; `TimerKey` is its key."""


class Completion(NamedTuple):
    """The two ends of a step that waits for an append, in a turn."""

    written: Callable[[Any, dict[str, Any], Any], None]
    """Goes on with the step: its records are in the log."""
    refused: Callable[[Any, dict[str, Any], Any, int], None]
    """Undoes the step, with an error code for clients: the log refused its records."""


CHECK_KEY: Final = ("expiry",)
"""The timer of the check for what has expired; it always runs."""
CHECK_PAUSE: Final = 0.05
"""Seconds between two parts of a check: 50 coordinators may check at once."""

_RESPONSE_ERRORS: dict[int, int] = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes sent in place of the log's own, where a client would take the log's code
for an error in its request."""


class Loading(Protocol):
    """A log that is being read, in slices: it may have millions of records."""

    def feed(self, records: Iterable[Any]) -> None:
        """Reads some records, which follow those before."""


class Machine(ABC, Generic[S, T, L]):
    """Coordinates the states of some ids.

    Args:
        states: by id; empty.
        appends: empty, too.

    Attributes:
        appends: appends that are not in the log yet.
        listening: whether notices are made.
    """

    def __init__(self, states: dict[str, S], appends: Appends) -> None:
        self.appends = appends
        self.listening = True
        self._states = states
        # Ids not visited yet by the current check.
        self._unchecked: list[str] = []
        self._handlers: dict[type, Handler] = {
            Expired: self._expired,
            Appended: self._appended,
            AppendFailed: self._append_failed,
        }
        # By kind, the first part of their keys.
        self._timers: dict[str, OnTimer] = {}
        # By type, steps that wait for an append.
        self._completions: dict[type, Completion] = {}

    def start(self, loading: L, now: float) -> list[Effect]:
        """Takes over the ids of a log, before any request for them is handled.

        Args:
            loading: has read all records of these ids.
            now: seconds since the epoch.

        Returns:
            Timers, notices, and what is left to do for the loaded ids.
        """
        turn = self._turn(now)
        self._take_over(turn, loading)
        turn.effects.append(self._arm_check(now))
        return turn.end()

    def unload(self) -> list[Reply]:
        """Ends the coordinator: another one takes over its ids.

        Returns:
            NOT_COORDINATOR to each request that waits.
        """
        return [
            failed(effect, ErrorCode.NOT_COORDINATOR)
            for waiting in self.appends.waiting
            for effect in waiting.effects
            if type(effect) is Reply
        ]

    def handle(self, event: Any, now: float) -> list[Effect]:
        """Handles an event.

        Args:
            event: a request, a timer that fired, or news of the log.
            now: seconds since the epoch, never less than before.

        Returns:
            Effects, to be performed in order: records and timers, then notices, then
            replies.
        """
        return self._handlers[type(event)](event, now)

    @abstractmethod
    def _take_over(self, turn: T, loading: L) -> None:
        """Adds the ids that a log has."""

    @abstractmethod
    def _turn(self, now: float) -> T:
        """Returns the turn of an event."""

    def _in_turn(self, act: Callable[[T, dict[str, S], Any], None]) -> Handler:
        """Returns a handler of events that may change states."""

        def handle(event: object, now: float) -> list[Effect]:
            turn = self._turn(now)
            act(turn, self._states, event)
            return turn.end()

        return handle

    # -- the log

    def _note_refused(self, turn: T, append: Append, event: AppendFailed) -> None:
        """Called when the log has refused an append, before it is undone."""

    def _appended(self, event: Appended, now: float) -> list[Effect]:
        """Finishes appends that are in the log."""
        turn = self._turn(now)
        for waiting in self.appends.take(event.append_id):
            turn.release(waiting)
            completion = waiting.completion
            if completion is not None:
                step = self._completions[type(completion)]
                step.written(turn, self._states, completion)
        return turn.end()

    def _append_failed(self, event: AppendFailed, now: float) -> list[Effect]:
        """Undoes an append that the log refused, and everything that waited for it."""
        turn = self._turn(now)
        error = _RESPONSE_ERRORS.get(event.error_code, event.error_code)
        waiting = self.appends.remove(event.append_id)
        self._note_refused(turn, waiting.append, event)
        completion = waiting.completion
        if completion is not None:
            step = self._completions[type(completion)]
            step.refused(turn, self._states, completion, error)
        for effect in waiting.effects:
            if type(effect) is Reply:
                turn.reply(*failed(effect, error))
        return turn.end()

    # -- timers

    @abstractmethod
    def _check(self, turn: T, unchecked: list[str]) -> list[str]:
        """Removes what has expired.

        Args:
            turn: collects the effects.
            unchecked: ids that the check has not visited yet; empty: a check begins.

        Returns:
            The ids that are left for the next part of the check.
        """

    @property
    @abstractmethod
    def _check_interval_ms(self) -> int:
        """Milliseconds between two checks."""

    def _expired(self, event: Expired, now: float) -> list[Effect]:
        """Handles a timer; a timer that is no longer needed has no effect."""
        turn, key = self._turn(now), event.key
        if key == CHECK_KEY:
            self._unchecked = self._check(turn, self._unchecked)
            turn.effects.append(self._arm_check(now))
            return turn.end()
        state = self._states.get(key[1])
        if state is None:
            return []
        self._timers[key[0]](turn, state, key)
        return turn.end()

    def _arm_check(self, now: float) -> Arm:
        if self._unchecked:
            return Arm(CHECK_KEY, now + CHECK_PAUSE)
        return Arm(CHECK_KEY, now + self._check_interval_ms / 1000)
