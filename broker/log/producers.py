"""Idempotent producers (KIP-98): a partition's state of each producer id.

A producer numbers its records per partition. The partition keeps the last five
batches of each producer, as many as a client may have in flight, so a batch
that is sent again is recognised and answered as it was the first time.
"""

from __future__ import annotations

from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import (
    NO_PRODUCER_EPOCH,
    BatchHeader,
    advance_sequence,
)
from kohort.protocol.slotted import slotted

KEPT_BATCHES = 5
"""Batches of a producer that are recognised: Kafka's limit on batches in flight."""


@slotted
class AppendedBatch:
    """One batch as it got into the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int
    """The largest of its records."""


class ProducerState:
    """One producer id in one partition.

    Attributes:
        epoch: the newest epoch seen.
        batches: the last batches of that epoch, oldest first; never empty.
    """

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int, batch: AppendedBatch) -> None:
        self.epoch = epoch
        self.batches = [batch]


Verdict = AppendedBatch | int
"""The batch that this one repeats, or an error code; NONE to append it."""


class Producers:
    """The producers of one partition.

    Attributes:
        states: by producer id; a store saves them for a restart.
    """

    __slots__ = ("states",)

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        """How many producer ids are known."""
        return len(self.states)

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of a producer id; None if it is unknown."""
        return self.states.get(producer_id)

    def check(self, header: BatchHeader) -> Verdict:
        """Whether a batch with a producer id is the next one of its producer.

        An id that is not known may start with any sequence: its state may have
        expired here, and the producer cannot know (KIP-360). Kafka answers
        OUT_OF_ORDER_SEQUENCE_NUMBER, never DUPLICATE_SEQUENCE_NUMBER, to a
        repeated batch that it no longer remembers.
        """
        state = self.states.get(header.producer_id)
        if state is None:
            return ErrorCode.NONE
        first = header.base_sequence
        if header.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > state.epoch:
            is_next = first == 0 or state.epoch == NO_PRODUCER_EPOCH
        else:
            last = advance_sequence(first, header.last_offset_delta)
            for batch in state.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            newest = state.batches[-1].last_sequence
            is_next = (
                first == advance_sequence(newest, 1) or state.epoch == NO_PRODUCER_EPOCH
            )
        return ErrorCode.NONE if is_next else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def appended(
        self, header: BatchHeader, base_offset: int, timestamp_ms: int
    ) -> None:
        """Remembers a batch that `check` let pass, now that it is in the log."""
        delta = header.last_offset_delta
        batch = AppendedBatch(
            header.base_sequence,
            advance_sequence(header.base_sequence, delta),
            base_offset,
            base_offset + delta,
            timestamp_ms,
        )
        state = self.states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            self.states[header.producer_id] = ProducerState(
                header.producer_epoch, batch
            )
            return
        state.batches.append(batch)
        if len(state.batches) > KEPT_BATCHES:
            del state.batches[0]

    def expire(self, before_ms: int) -> int:
        """Forgets producers whose newest batch is not younger; says how many.

        Args:
            before_ms: ``producer.id.expiration.ms`` ago, in ms since the epoch.
        """
        gone = [
            producer_id
            for producer_id, state in self.states.items()
            if state.batches[-1].timestamp_ms <= before_ms
        ]
        for producer_id in gone:
            del self.states[producer_id]
        return len(gone)
