"""Appends that are not in the log yet: the requests and changes that depend on them.

As Kafka's coordinators, ours do not wait for the log. They hand records over, go on
with the next request, and come back when the records are written or refused:

1. `Appends.add` numbers an append and keeps the consequences (`Waiting`). The driver
   collects appends and writes them together: at once, in the next turn of the event
   loop, or after ``group.coordinator.append.linger.ms``.
2. The driver reports `Appended`, or `AppendFailed` if an append was too large for the
   log. The coordinator then finishes or undoes each append by its completion.

If the log cannot be written at all, the coordinator is unloaded instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from kohort.broker.runtime.effects import Append, Effect


class Waiting:
    """An append that is not in the log yet.

    Attributes:
        append: its records and its id.
        completion: the step that it completes; None if nothing depends on it.
        effects: notices and replies that wait for it.
    """

    __slots__ = ("append", "completion", "effects")

    def __init__(
        self, append: Append, completion: object, effects: list[Effect]
    ) -> None:
        self.append = append
        self.completion = completion
        self.effects = effects


class Appends:
    """A coordinator's appends that are not in the log yet.

    Attributes:
        waiting: oldest first.
    """

    __slots__ = ("_latest", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self._latest = 0

    def add(
        self,
        records: Sequence[Any],
        completion: object,
        effects: list[Effect],
        *,
        is_atomic: bool = True,
        opens_window: bool = False,
    ) -> Append:
        """Numbers an append.

        Args:
            records: records to be written together.
            completion: the step that the append completes.
            effects: notices and replies that wait for it.
            is_atomic: whether the records have to fit into one batch.
            opens_window: see `Append`.
        """
        self._latest += 1
        append = Append(records, self._latest, is_atomic, opens_window)
        self.waiting.append(Waiting(append, completion, effects))
        return append

    def after(self, effect: Effect, now: list[Effect]) -> None:
        """Keeps an effect until all appends are in the log, or adds it to `now`."""
        if self.waiting:
            self.waiting[-1].effects.append(effect)
        else:
            now.append(effect)

    def take(self, append_id: int) -> Iterator[Waiting]:
        """Removes the appends up to this one, and yields them."""
        waiting = self.waiting
        while waiting and waiting[0].append.append_id <= append_id:
            yield waiting.popleft()

    def remove(self, append_id: int) -> Waiting:
        """Removes an append of the latest turn."""
        (found,) = (each for each in self.waiting if each.append.append_id == append_id)
        self.waiting.remove(found)
        return found
