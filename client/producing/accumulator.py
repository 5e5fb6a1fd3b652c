"""Batches that are not delivered yet, by partition, in order.

Pure: time is an argument, in seconds, and nothing is sent here. The batches of a
partition wait, are taken to be sent, and are then delivered, put back for a retry, or
given up. A batch is retried alone, after the responses of all others in flight, so
that no later batch can overtake it on another node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kohort.client.config import ProducerConfig
from kohort.client.network.metadata import NO_NODE
from kohort.client.producing.batches import HEAD_SIZE, Batch
from kohort.client.producing.sequences import REFUSED, ProducerIds, Sequences
from kohort.protocol.slotted import slotted

NEVER = float("inf")


@dataclass(slots=True, eq=False, repr=False)
class Queue:
    """The batches of one partition."""

    topic: str
    partition: int
    sequences: Sequences | None
    """Sequence numbers; None without idempotence."""
    waiting: deque[Batch] = field(default_factory=deque)
    """Waiting to be sent, oldest first; the last one takes more records."""
    in_flight: list[Batch] = field(default_factory=list)
    """Sent and unanswered, oldest first."""
    node_id: int = NO_NODE
    """The node that has the batches in flight."""
    retry_at: float = 0.0
    """The end of the back-off."""

    @property
    def lacks_an_id(self) -> bool:
        """True if its next batch needs a producer id that is missing."""
        numbers = self.sequences
        return (
            numbers is not None
            and numbers.lacks_an_id
            and bool(self.waiting)
            and not self.waiting[0].is_numbered
        )

    def may_send(self) -> bool:
        """Returns whether the first waiting batch may join those in flight."""
        in_flight, numbers = self.in_flight, self.sequences
        if not in_flight:
            return True
        head = self.waiting[0]
        if head.attempts or head.is_part:
            return False
        if in_flight[0].attempts > 1 or in_flight[0].is_part:
            return False
        return numbers is None or (numbers.is_known and not numbers.must_begin)

    def insert(self, batch: Batch) -> None:
        """Puts a batch back in its place."""
        waiting = self.waiting
        position = 0
        while position < len(waiting) and waiting[position].place < batch.place:
            position += 1
        waiting.insert(position, batch)

    def is_first(self, batch: Batch) -> bool:
        """Returns whether no earlier batch may still be written under its number."""
        earlier = [*self.in_flight, *self.waiting]
        return not any(b.is_numbered and b.place < batch.place for b in earlier)


@slotted
class Due:
    """The work of one moment.

    Attributes:
        ready: queues with a batch to send, longest-waiting first.
        expired: batches that were not delivered in time and are given up.
        next_at: the latest time of the next poll; `NEVER` if there is no need.
    """

    ready: list[Queue]
    expired: list[Batch]
    next_at: float


class Accumulator:
    """All queues, and the memory for their batches.

    Args:
        config: ``batch.size``, ``linger.ms``, ``buffer.memory``,
            ``delivery.timeout.ms``, and whether batches are numbered.

    Attributes:
        ids: the producer id for partitions without one.
        is_starved: whether a `send` waits for memory: then no batch lingers.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self.ids = ProducerIds(config.transactional_id is not None)
        self.is_starved = False
        self._batch_size = config.batch_size
        self._linger = config.linger_ms / 1000
        self._patience = config.delivery_timeout_ms / 1000
        self._size = self._left = config.buffer_memory
        self._is_idempotent = config.is_idempotent
        self._queues: dict[tuple[str, int], Queue] = {}
        # Non-empty queues; a served one goes to the end.
        self._active: dict[tuple[str, int], Queue] = {}
        # By their order; for a split batch, the number of its remaining parts.
        self._incomplete: dict[int, list[Batch]] = {}
        self._order = 0

    # -- records

    @property
    def used(self) -> int:
        """Bytes of undelivered records."""
        return self._size - self._left

    def has_room(self, size: int) -> bool:
        """Returns whether `size` bytes are left."""
        return size <= self._left

    def reserve(self, size: int) -> None:
        """Reserves bytes for a `send` that has waited for them."""
        self._left -= size

    def release(self, size: int) -> None:
        """Gives reserved bytes back."""
        self._left += size

    def fits(self, topic: str, partition: int, size: int) -> bool:
        """Returns whether a record's tail of `size` bytes fits into the open batch."""
        queue = self._queues.get((topic, partition))
        if queue is None or not queue.waiting:
            return False
        last = queue.waiting[-1]
        is_open = not last.is_closed and not last.attempts
        return is_open and last.size + HEAD_SIZE + size <= self._batch_size

    def append(
        self,
        now: float,
        topic: str,
        partition: int,
        tail: bytes,
        timestamp_ms: int,
        delivery: Any,
    ) -> float:
        """Adds a record; there must be room for it and for a new batch.

        Returns:
            When the record may make a batch ready to send; `NEVER` if that time was
            known before.
        """
        key = (topic, partition)
        if self.fits(topic, partition, len(tail)):
            batch = self._queues[key].waiting[-1]
            before = batch.size
            batch.append(tail, timestamp_ms, delivery)
            self._left -= batch.size - before
            return NEVER
        queue = self._queues.get(key)
        if queue is None:
            numbers = Sequences(self.ids) if self._is_idempotent else None
            queue = self._queues[key] = Queue(topic, partition, numbers)
        is_behind = bool(queue.waiting)
        batch = Batch(topic, partition, self._order, now, now + self._patience)
        self._order += 1
        batch.append(tail, timestamp_ms, delivery)
        self._left -= batch.size
        queue.waiting.append(batch)
        self._active[key] = queue
        self._incomplete[batch.order] = [batch]
        return now if is_behind else self._ready_at(queue)

    # -- due work

    def poll(self, now: float) -> Due:
        """Finds the batches to send, and expired ones."""
        due = Due([], [], NEVER)
        next_at = NEVER
        for key, queue in list(self._active.items()):
            next_at = min(next_at, self._expire(queue, now, due.expired))
            if not queue.waiting:
                if not queue.in_flight:
                    del self._active[key]
                continue
            ready_at = self._ready_at(queue)
            if ready_at > now:
                next_at = min(next_at, ready_at)
            elif queue.may_send():
                due.ready.append(queue)
        return Due(due.ready, due.expired, next_at)

    def _expire(self, queue: Queue, now: float, expired: list[Batch]) -> float:
        """Gives up batches past their deadline; returns the next deadline."""
        waiting = queue.waiting
        while waiting and waiting[0].deadline <= now:
            batch = waiting.popleft()
            if not self._finish(batch):
                continue
            expired.append(batch)
            if batch.is_numbered and queue.sequences is not None:
                queue.sequences.has_gap = True
        deadline = waiting[0].deadline if waiting else NEVER
        for batch in queue.in_flight:
            # Its response still matters for the sequence numbers.
            if batch.deadline > now:
                return min(deadline, batch.deadline)
            if self._finish(batch):
                expired.append(batch)
        return deadline

    def _ready_at(self, queue: Queue) -> float:
        head = queue.waiting[0]
        is_ready = (
            len(queue.waiting) > 1
            or head.is_closed
            or head.attempts
            or head.size >= self._batch_size
            or self.is_starved
        )
        lingers_until = 0.0 if is_ready else head.created_at + self._linger
        return max(lingers_until, queue.retry_at)

    def is_ready(self, queue: Queue, now: float) -> bool:
        """Returns whether another batch may be sent now."""
        return (
            bool(queue.waiting)
            and self._ready_at(queue) <= now
            and queue.may_send()
            and not queue.lacks_an_id
        )

    def next_batch(self, queue: Queue, node_id: int) -> Batch:
        """Moves the first waiting batch in flight, and returns it.

        `is_ready` must hold, and batches in flight must be at the same node.
        """
        batch = queue.waiting.popleft()
        batch.attempts += 1
        if queue.sequences is not None and not batch.is_numbered:
            queue.sequences.number(batch)
        queue.in_flight.append(batch)
        queue.node_id = node_id
        # Other queues come first the next time.
        key = (queue.topic, queue.partition)
        self._active[key] = self._active.pop(key)
        return batch

    # -- responses

    def delivered(self, batch: Batch) -> bool:
        """Removes a written batch. False if it has already failed."""
        queue = self._queue_of(batch)
        queue.in_flight.remove(batch)
        if queue.sequences is not None:
            queue.sequences.is_known = True
        return self._finish(batch)

    def refused(self, batch: Batch, code: int | None) -> bool:
        """Takes note of an error before `put_back` or `give_up`.

        Args:
            batch: a batch in flight.
            code: the broker's error code; None without a response.

        Returns:
            Whether to retry even if the error is not retriable: its sequence number
            was refused, and it gets another one, or earlier batches are retried, too
            (KIP-360).
        """
        queue = self._queue_of(batch)
        numbers = queue.sequences
        if numbers is None or code not in REFUSED:
            return False
        if queue.is_first(batch):
            if self.ids.is_transactional:
                return False  # the transaction is aborted
            # No earlier batch explains it: later ones were not written either.
            numbers.has_gap = numbers.is_refused = True
            for each in (batch, *queue.waiting):
                numbers.void(each)
        return True

    def put_back(self, batch: Batch, retry_at: float) -> None:
        """Puts a batch in flight back for a retry."""
        queue = self._queue_of(batch)
        queue.in_flight.remove(batch)
        if queue.sequences is not None and queue.sequences.is_refused:
            queue.sequences.void(batch)
        queue.insert(batch)
        queue.retry_at = max(queue.retry_at, retry_at)

    def split(self, batch: Batch, codec: int) -> None:
        """Splits a batch in flight, which was not written, for a retry in two parts.

        They take its place and its sequence numbers. The broker has seen none of
        these, so it refuses later batches until they are written.

        Args:
            batch: an undelivered batch of two records or more.
            codec: the codec that it was sealed with.
        """
        queue = self._queue_of(batch)
        queue.in_flight.remove(batch)
        halves = batch.halves(codec)
        parts = self._incomplete[batch.order]
        position = parts.index(batch)
        parts[position : position + 1] = halves
        self._left += batch.size - sum(half.size for half in halves)
        for half in halves:
            if queue.sequences is not None and queue.sequences.is_refused:
                queue.sequences.void(half)
            queue.insert(half)

    def give_up(self, batch: Batch) -> bool:
        """Removes a batch in flight. False if its records have already failed."""
        queue = self._queue_of(batch)
        queue.in_flight.remove(batch)
        if queue.sequences is not None:
            queue.sequences.has_gap = True
        return self._finish(batch)

    def node_of(self, batch: Batch) -> int:
        """The node that got the partition's last batches."""
        return self._queue_of(batch).node_id

    def _queue_of(self, batch: Batch) -> Queue:
        return self._queues[batch.topic, batch.partition]

    def _finish(self, batch: Batch) -> bool:
        if batch.is_done:
            return False
        batch.is_done = True
        self._left += batch.size
        parts = self._incomplete[batch.order]
        parts.remove(batch)
        if not parts:
            del self._incomplete[batch.order]
        return True

    # -- all of it

    @property
    def oldest(self) -> float:
        """The order of the oldest undelivered batch; `NEVER` for none."""
        return next(iter(self._incomplete), NEVER)

    def close_batches(self) -> int:
        """Closes all batches, to be sent now; returns the order of the next one."""
        for queue in self._active.values():
            for batch in queue.waiting:
                batch.is_closed = True
        return self._order

    def waiting(self) -> Iterator[Queue]:
        """The queues with waiting batches."""
        return (queue for queue in self._active.values() if queue.waiting)

    def drop(self, queue: Queue) -> list[Batch]:
        """Gives up the waiting batches of a partition."""
        dropped = list(queue.waiting)
        queue.waiting.clear()
        if queue.sequences is not None and any(b.is_numbered for b in dropped):
            queue.sequences.has_gap = True
        return [batch for batch in dropped if self._finish(batch)]

    def drop_unsent(self) -> list[Batch]:
        """Gives up all batches that were never sent."""
        dropped = []
        for queue in self._active.values():
            dropped += [batch for batch in queue.waiting if not batch.is_numbered]
            numbered = [batch for batch in queue.waiting if batch.is_numbered]
            queue.waiting = deque(numbered)
        return [batch for batch in dropped if self._finish(batch)]

    def abandon(self) -> list[Batch]:
        """Gives up all batches, including those in flight."""
        for queue in self._active.values():
            queue.waiting.clear()
        left = [batch for parts in self._incomplete.values() for batch in parts]
        return [batch for batch in left if self._finish(batch)]
