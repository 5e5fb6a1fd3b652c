"""The loader: reads the logs of shards in slices, between other work.

`Shard._load` adds a shard with its slices (`Loader.add`). A short log of the only shard
is read at once; otherwise each turn of the event loop reads a slice of the first shard
in the queue. After the last slice the shard's `finish_load` makes the coordinator
active; an error ends in `fail_load`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from kohort.broker.clock import Clock, Timer
from kohort.broker.log.store import StorageError
from kohort.protocol.messages import WireError


class Loadable(Protocol):
    """A shard, as far as its loader knows it."""

    def finish_load(self) -> None:
        """Called when all records are read."""

    def fail_load(self, error: Exception) -> None:
        """Called if the log cannot be read."""


class Loader:
    """Reads the logs of shards, one after the other, in slices.

    Args:
        clock: the source of timers.

    Attributes:
        idle: called, once, when nothing is left to read.
    """

    def __init__(self, clock: Clock) -> None:
        self.idle: list[Callable[[], object]] = []
        self._clock = clock
        self._queue: dict[Loadable, Iterator[None]] = {}
        self._timer: Timer | None = None

    @property
    def is_busy(self) -> bool:
        """True if anything is left to read."""
        return bool(self._queue)

    def add(self, shard: Loadable, slices: Iterator[None]) -> None:
        """Loads a shard; at once, if it is short and no other is loading."""
        self._queue[shard] = slices
        if self._timer is None:
            self._work()

    def remove(self, shard: Loadable) -> None:
        """Stops loading a shard, if it is loading."""
        self._queue.pop(shard, None)

    def _work(self) -> None:
        self._timer = None
        for shard, slices in self._queue.items():
            try:
                next(slices)
            except StopIteration:
                del self._queue[shard]
                shard.finish_load()
            except (WireError, StorageError) as error:
                del self._queue[shard]
                shard.fail_load(error)
            break
        if self._queue:
            self._timer = self._clock.call_at(self._clock.now(), self._work)
        else:
            idle, self.idle = self.idle, []
            for callback in idle:
                callback()
