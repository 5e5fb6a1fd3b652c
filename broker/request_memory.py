"""Memory for long requests, over all connections (``queued.max.request.bytes``).

1. A connection reports the memory of its long requests, while their bytes arrive and
   until they are handled. Short ones are not counted.
2. While the total is above the limit, connections with growing requests are held back:
   their bytes wait in the system's buffers, and then at the clients.
3. At least one is always let on, so that its request becomes complete, is handled, and
   releases its memory. One that delivers almost nothing meanwhile is closed.

Requests of up to `SMALL` bytes have a share of their own: 30 connections that send 100
MB each do not stop a producer of batches.
"""

from __future__ import annotations

from typing import Final, Protocol

from kohort.broker.clock import Clock, Timer

DEFAULT_LIMIT: Final = 256 * 1024 * 1024
"""Bytes if ``queued.max.request.bytes`` is -1, which in Kafka means no limit: two
requests of 100 MB (``socket.request.max.bytes``) and some shorter ones. Kafka allocates
100 MB as soon as that size is announced, and exhausts its heap of 1 GB when ten clients
do so."""
SMALL: Final = 2 * 1024 * 1024
"""Bytes up to which a request uses the small share: twice ``message.max.bytes``."""
SMALL_SHARE: Final = 64 * 1024 * 1024
"""Bytes reserved for requests of up to `SMALL`."""
PROGRESS_SECONDS: Final = 2.0
PROGRESS_BYTES: Final = 256 * 1024
"""Bytes that a request has to deliver in `PROGRESS_SECONDS` while others are held back:
a megabit a second."""
PATIENT_ROUNDS: Final = 5
"""Times `PROGRESS_SECONDS` after which one more is let on although no memory was
released: the longest requests are handled in that time."""
STEP: Final = 256 * 1024
"""Bytes that a connection may deliver before it can be held back: one read of uvloop.
"""


class Holder(Protocol):
    """A connection with long requests."""

    def hold_back(self) -> None:
        """Stops reading for now."""

    def release(self) -> None:
        """Reads again, in a later turn of the event loop."""

    def give_up(self, why: str) -> None:
        """Closes the connection: its request will never be complete."""


class RequestMemory:
    """The memory of long requests, and the connections that wait for some.

    Args:
        limit: bytes (``queued.max.request.bytes``); -1 for `DEFAULT_LIMIT`.
        largest: bytes of the largest request (``socket.request.max.bytes``).
        clock: the clock of the checks.

    Attributes:
        total: bytes in use.
    """

    def __init__(self, limit: int, largest: int, clock: Clock) -> None:
        self._limit = limit if limit > 0 else max(DEFAULT_LIMIT, largest)
        self._clock = clock
        self.total = 0
        self._held: dict[Holder, int] = {}
        # Connections with an incomplete request: those that are read, and those that
        # are held back, in this order, with the size of the request.
        self._reading: set[Holder] = set()
        self._waiting: dict[Holder, int] = {}
        self._checked: dict[Holder, int] = {}
        self._timer: Timer | None = None
        self._rounds = 0

    def __len__(self) -> int:
        """The number of connections that are held back."""
        return len(self._waiting)

    def update(self, holder: Holder, held: int, unfinished: int) -> None:
        """Notes the memory of a connection's long requests.

        Args:
            holder: the connection.
            held: bytes received; 0 if there is no long request any more.
            unfinished: the size of the incomplete request; 0 if there is none.
        """
        before = self._held.pop(holder, 0)
        self.total += held - before
        if held:
            self._held[holder] = held
        if holder in self._waiting and unfinished:
            return
        if unfinished:
            self._reading.add(holder)
            if held > before:
                self._limit_growth(holder, unfinished)
        else:
            self._reading.discard(holder)
            self._waiting.pop(holder, None)
        if held < before or not unfinished:
            self._rounds = 0
            self._release_waiting()

    def _room(self, size: int) -> int:
        """Bytes that a request of this size may still deliver."""
        share = SMALL_SHARE if size <= SMALL else 0
        return self._limit + share - self.total

    @property
    def _active(self) -> int:
        """The number of connections that are not held back."""
        return len(self._held) - len(self._waiting)

    def _limit_growth(self, holder: Holder, size: int) -> None:
        if self._room(size) >= 0 or self._active == 1:
            return
        self._reading.discard(holder)
        self._waiting[holder] = size
        holder.hold_back()
        if self._timer is None:
            self._check_later()

    def _release_waiting(self) -> None:
        """Lets connections on, in order, while there is room; at least one."""
        steps = 0
        for holder, size in list(self._waiting.items()):
            steps += STEP
            if self._active and self._room(size) < steps:
                continue
            del self._waiting[holder]
            self._reading.add(holder)
            holder.release()

    def _release_first(self) -> None:
        self._rounds = 0
        holder = next(iter(self._waiting))
        del self._waiting[holder]
        self._reading.add(holder)
        holder.release()

    def _check_later(self) -> None:
        self._checked = {each: self._held.get(each, 0) for each in self._reading}
        when = self._clock.now() + PROGRESS_SECONDS
        self._timer = self._clock.call_at(when, self._check)

    def _check(self) -> None:
        """Closes connections that make others wait and deliver nothing."""
        self._timer = None
        checked, self._checked = self._checked, {}
        if not self._waiting:
            return
        for holder, before in checked.items():
            grown = self._held.get(holder, 0) - before
            if holder in self._reading and 0 <= grown < PROGRESS_BYTES:
                holder.give_up(
                    f"{grown} bytes of an unfinished request in {PROGRESS_SECONDS} s,"
                    f" while {len(self._waiting)} others waited for memory"
                )
        self._rounds += 1
        if self._rounds >= PATIENT_ROUNDS and not self._reading:
            # All the memory is in requests behind others that wait for something.
            self._release_first()
        self._check_later()
