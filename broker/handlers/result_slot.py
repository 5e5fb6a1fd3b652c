"""Tokens of group events for handlers that process results before they answer."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request

_RESULT = attrgetter("result")


class ResultSlot:
    """Token of an event that is answered at once: an event that only reads.

    Attributes:
        result: the result, once `submit_group_event` has returned.
    """

    __slots__ = ("result",)

    result: Any

    def answer(self, result: Any) -> None:
        """Stores the result."""
        self.result = result


class Results:
    """The results of events that change groups, which wait for the log.

        results = Results(request)
        for event in ...:
            submit(Event(results.token(), ...))
        results.then(lambda found: work that answers the request)

    Args:
        request: the request that the results belong to.
    """

    __slots__ = ("_go_on", "_missing", "_request", "_slots")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._slots: list[_Slot] = []
        self._missing = 0
        self._go_on: Callable[[list[Any]], Work] | None = None

    def token(self) -> _Slot:
        """Returns a token for one more event."""
        self._missing += 1
        slot = _Slot(self)
        self._slots.append(slot)
        return slot

    def then(self, go_on: Callable[[list[Any]], Work]) -> None:
        """Continues once all tokens so far are answered, at once if they are.

        Args:
            go_on: takes the results, in the order of the tokens.
        """
        self._go_on = go_on
        self._try()

    def answered(self) -> None:
        """Counts one more answered token."""
        self._missing -= 1
        self._try()

    def _try(self) -> None:
        if self._go_on is not None and not self._missing:
            self._request.go_on(self._finished(self._go_on))

    def _finished(self, go_on: Callable[[list[Any]], Work]) -> Work:
        results = yield from map_in_pieces(_RESULT, self._slots, Pace())
        yield from go_on(results)


class _Slot:
    """Token of one of several events."""

    __slots__ = ("_results", "result")

    result: Any

    def __init__(self, results: Results) -> None:
        self._results = results

    def answer(self, result: Any) -> None:
        self.result = result
        self._results.answered()
