"""The controller: changes topics, one request after the other.

As in Kafka, a request in progress is finished even if its client no longer waits, and
no other request creates, grows or deletes a topic meanwhile. So the facts that a
request has read about a topic stay true from one piece of its work to the next.
(`__consumer_offsets` and the topic of events may appear in between: they are created in
one piece, when the broker itself needs them.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kohort.broker.long_work import LongWork, Work

Failed = Callable[[Exception], None]


class Controller:
    """The queue of changes to topics.

    Args:
        long_work: gives the queue its turns.
    """

    def __init__(self, long_work: LongWork) -> None:
        self._long_work = long_work
        self._queue: deque[tuple[Work, Failed]] = deque()
        self._is_busy = False

    def submit(self, work: Work, failed: Failed) -> None:
        """Starts some work, at once if no other work is in progress.

        Args:
            work: the work, which answers its request at the end.
            failed: called with the exception that the work raises.
        """
        self._queue.append((work, failed))
        if not self._is_busy:
            self._long_work.start(self._work_off(), _unexpected)

    def _work_off(self) -> Work:
        self._is_busy = True
        try:
            while self._queue:
                work, failed = self._queue.popleft()
                try:
                    yield from work
                except Exception as error:  # noqa: BLE001 - the submitter handles it
                    failed(error)
        finally:
            self._is_busy = False


def _unexpected(error: Exception) -> None:
    raise error
