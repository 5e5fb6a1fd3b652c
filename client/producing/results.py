"""The results of batches, for the futures and the calls that wait for them.

The sender and the driver of transactions call this; a `Producer` shows none of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kohort.client.errors import KohortError
from kohort.client.hooks import tell
from kohort.client.offsets import RecordMetadata
from kohort.client.producing.accumulator import NEVER, Accumulator
from kohort.client.producing.batches import Batch
from kohort.protocol.records import NO_TIMESTAMP

if TYPE_CHECKING:
    from kohort.client.transactions.driver import TransactionDriver


Delivery = asyncio.Future[RecordMetadata]


class Results:
    """Completes the futures of records, and the calls that wait for memory or a flush.

    Args:
        accumulator: the producer's.
        on_sent: called with the metadata of each record, or with its error.

    Attributes:
        sent: number of records that are delivered.
        unsent: number of records that have failed.
        batches: number of batches that are delivered.
        retries: number of further attempts for them.
        waiters: (bytes, waiter) for each `send` that waits for memory, in order.
        flushes: (order, waiter) for each `flush`.
        transactions: the driver of transactions, if there is a ``transactional.id``.
        wake: wakes the sender; the producer sets it when it starts.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        on_sent: Callable[[RecordMetadata | None, KohortError | None], object] | None,
    ) -> None:
        self._accumulator = accumulator
        self._on_sent = on_sent
        self.sent = 0
        self.unsent = 0
        self.batches = 0
        self.retries = 0
        self.waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.flushes: list[tuple[int, asyncio.Future[None]]] = []
        self.transactions: TransactionDriver | None = None
        self.wake: Callable[[], object] = lambda: None

    def delivered(self, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        """Completes the futures of a written batch."""
        topic, partition = batch.topic, batch.partition
        self.sent += batch.count
        self.batches += 1
        self.retries += max(0, batch.attempts - 1)
        step = 1 if base_offset >= 0 else 0
        offset = base_offset
        for delivery, timestamp in zip(batch.deliveries, batch.timestamps, strict=True):
            if not delivery.done() or self._on_sent is not None:
                at = timestamp if append_time_ms == NO_TIMESTAMP else append_time_ms
                metadata = RecordMetadata(topic, partition, offset, at)
                if not delivery.done():
                    delivery.set_result(metadata)
                if self._on_sent is not None:
                    tell(self._on_sent, metadata, None)
            offset += step

    def failed(
        self, batch: Batch, error: KohortError, messages: Mapping[int, str]
    ) -> None:
        """Fails the futures of a batch."""
        if self.transactions is not None:
            error = self.transactions.failed(error)
        self._fail_deliveries(batch, error, messages)

    def _fail_deliveries(
        self, batch: Batch, error: KohortError, messages: Mapping[int, str]
    ) -> None:
        self.unsent += batch.count
        for number, delivery in enumerate(batch.deliveries):
            if delivery.done() and self._on_sent is None:
                continue
            each = error.copy()  # a traceback for each waiter
            if messages.get(number):
                each.message = messages[number]
            if self._on_sent is not None:
                tell(self._on_sent, None, each)
            if delivery.done():
                continue
            delivery.set_exception(each)
            if self.transactions is not None:
                delivery.exception()  # the transaction reports it, too

    def progressed(self) -> None:
        """Wakes calls that wait for memory, and completes flushes."""
        accumulator, waiters = self._accumulator, self.waiters
        while waiters and accumulator.has_room(waiters[0][0]):
            size, waiter = waiters.popleft()
            if not waiter.done():
                accumulator.reserve(size)
                waiter.set_result(None)
        accumulator.is_starved = bool(waiters)
        oldest = accumulator.oldest
        for order, done in self.flushes:
            if order <= oldest and not done.done():
                done.set_result(None)
        if self.transactions is not None:
            self.transactions.wake()

    # -- batches of a transaction, for its driver

    @property
    def has_batches(self) -> bool:
        """True if batches are undelivered."""
        return self._accumulator.oldest < NEVER

    def take_id(self, producer_id: int, epoch: int) -> None:
        """Numbers further batches with this id."""
        self._accumulator.ids.assign(producer_id, epoch)

    def drop_batches(self, error: KohortError, *, all_of_them: bool) -> None:
        """Fails all batches, or those that were never sent."""
        accumulator = self._accumulator
        drop = accumulator.abandon if all_of_them else accumulator.drop_unsent
        for batch in drop():
            where = {"topic": batch.topic, "partition": batch.partition}
            self._fail_deliveries(batch, error.copy(**where), {})

    def resume(self) -> None:
        """Sends batches that can be sent now."""
        self.progressed()
        self.wake()
