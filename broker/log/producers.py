"""Producers with an id: a partition's state of each (KIP-98).

A producer numbers its records per partition. The partition remembers the last five
batches of each producer, the most that a client may have in flight. So a batch that is
sent again is recognised, and answered as it was the first time.

The first batch of a transaction opens it here, a marker ends it. A client may open one
only with a `Verification` that the coordinator has confirmed (KIP-890): else a batch
that arrives late, behind the marker, would open a transaction that never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.broker.log.ended_transactions import AbortedTransaction, EndMarker
from kohort.protocol.errors import ErrorCode
from kohort.protocol.markers import read_marker
from kohort.protocol.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    advance_sequence,
)
from kohort.protocol.slotted import slotted

KEPT_BATCHES = 5
"""Batches of a producer that are recognised: Kafka's limit on batches in flight."""
NO_TRANSACTION: Final = -1
"""`ProducerState.first_offset` without an open transaction."""

_V2: Final = 2
"""The transaction version whose markers have a higher epoch than the records."""
_LAST_EPOCH: Final = 2**15 - 1


@slotted
class AppendedBatch:
    """One batch as it was appended."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int
    """The largest timestamp of its records."""


class ProducerState:
    """One producer id in one partition.

    Attributes:
        epoch: the newest epoch seen.
        batches: the last batches of that epoch, oldest first; none after a marker with
            a new epoch.
        timestamp_ms: the largest timestamp of the last batch or marker.
        first_offset: where its open transaction begins, or `NO_TRANSACTION`.
        began_ms: the time of that append, or of the records there after a restart.
        coordinator_epoch: the epoch of the coordinator that wrote the last marker; -1
            without one.
    """

    __slots__ = (
        "batches",
        "began_ms",
        "coordinator_epoch",
        "epoch",
        "first_offset",
        "timestamp_ms",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[AppendedBatch] = []
        self.timestamp_ms = NO_TIMESTAMP
        self.first_offset = NO_TRANSACTION
        self.began_ms = NO_TIMESTAMP
        self.coordinator_epoch = -1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; `NO_SEQUENCE` if it is not known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        """Starts to number anew, if the epoch is another."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class Verification:
    """A question to the coordinator: may this producer open a transaction here?

    It is worth nothing after the next batch or marker of the producer, also if the
    answer comes later.

    Attributes:
        began_ms: ms since the epoch.
        epoch: the newest epoch asked for.
        lowest_sequence: the lowest first sequence of that epoch. If a batch fails, the
            next ones must not be appended before it is sent again.
        adds: the coordinator is asked to add the partition (Produce v12), so the
            producer uses transaction version 2.
    """

    __slots__ = ("adds", "began_ms", "epoch", "lowest_sequence")

    def __init__(self, began_ms: int, epoch: int, sequence: int, *, adds: bool) -> None:
        self.began_ms = began_ms
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.adds = adds

    def ask(self, epoch: int, sequence: int) -> None:
        """Notes one more batch."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


_UNKNOWN: Final = ProducerState(NO_PRODUCER_EPOCH)
"""State of a producer id that the partition does not know; never changed."""

Verdict = AppendedBatch | int
"""The earlier batch that this one repeats, or an error code; NONE means append it."""


class Producers:
    """The producers of one partition.

    Attributes:
        states: by producer id; a store saves them for a restart.
        open: producer ids with an open transaction, by its first offset, ascending.
        verifications: those in progress or just confirmed, by producer id.
    """

    __slots__ = ("open", "states", "verifications")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self.open: dict[int, int] = {}
        self.verifications: dict[int, Verification] = {}

    def __len__(self) -> int:
        """The number of known producer ids."""
        return len(self.states)

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of a producer id; None if it is unknown."""
        return self.states.get(producer_id)

    # -- before a batch or marker

    def verify(
        self, header: BatchHeader, now_ms: int, *, adds: bool
    ) -> Verification | int:
        """Begins to verify that a batch may open a transaction.

        Returns:
            The verification, for `check`; or NONE if the transaction is open, or the
            error INVALID_PRODUCER_EPOCH.
        """
        return self._verify(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            now_ms,
            adds=adds,
        )

    def verify_own(
        self, producer_id: int, epoch: int, now_ms: int, *, adds: bool
    ) -> Verification | int:
        """Begins to verify a coordinator's batch, which has no sequence; see `verify`.

        The verification is for `check_own_verified`.
        """
        return self._verify(producer_id, epoch, NO_SEQUENCE, now_ms, adds=adds)

    def _verify(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, adds: bool
    ) -> Verification | int:
        known = self._known(producer_id, epoch)
        if known is not None:
            return known
        found = self.verifications.get(producer_id)
        if found is None:
            found = Verification(now_ms, epoch, sequence, adds=adds)
            self.verifications[producer_id] = found
        else:
            found.ask(epoch, sequence)
        return found

    def _known(self, producer_id: int, epoch: int) -> ErrorCode | None:
        """INVALID_PRODUCER_EPOCH; NONE in an open transaction; None: to be verified."""
        state = self.states.get(producer_id)
        if state is not None:
            if epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if epoch == state.epoch and state.first_offset >= 0:
                return ErrorCode.NONE
        return None

    def check(
        self, header: BatchHeader, verification: Verification | None = None
    ) -> Verdict:
        """Checks that a batch with a producer id is the next one of its producer.

        An unknown id may start with any sequence: its state may have expired here, and
        the producer cannot know (KIP-360). Not so with transaction version 2, which
        begins with a new epoch. Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER, never
        DUPLICATE_SEQUENCE_NUMBER, to a repeated batch that it no longer remembers.
        Epochs below -1 are refused, also those of an unknown id.

        Args:
            header: the batch's.
            verification: confirms a batch that opens a transaction.
        """
        state = self.states.get(header.producer_id, _UNKNOWN)
        if header.producer_epoch == state.epoch:
            repeated = _repeated(header, state)
            if repeated is not None:
                return repeated
        elif header.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.verifications or header.is_transactional:
            error = self._check_verified(header, state, verification)
            if error:
                return error
        return _check_sequence(header, state)

    def _check_verified(
        self,
        header: BatchHeader,
        state: ProducerState,
        verification: Verification | None,
    ) -> ErrorCode:
        asked = self.verifications.get(header.producer_id)
        is_open = state.first_offset >= 0 and header.producer_epoch == state.epoch
        if asked is None or asked is not verification:
            if header.is_transactional and not is_open:
                # Not verified, or another batch or a marker came first.
                return ErrorCode.INVALID_TXN_STATE
            if asked is None:
                return ErrorCode.NONE
        first, is_new = header.base_sequence, not state.batches
        if first > asked.lowest_sequence or (asked.adds and first != 0 and is_new):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def check_own(self, header: BatchHeader) -> ErrorCode:
        """Checks a coordinator's batch of a transaction, which has no sequence."""
        state = self.states.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    def check_own_verified(
        self, producer_id: int, epoch: int, verification: Verification | None
    ) -> ErrorCode:
        """Checks that a coordinator's batch may be appended now.

        Returns:
            INVALID_PRODUCER_EPOCH; INVALID_TXN_STATE if another batch or a marker came
            after the verification, and no transaction is open.
        """
        known = self._known(producer_id, epoch)
        if known is not None:
            return known
        asked = self.verifications.get(producer_id)
        if asked is None or asked is not verification:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def check_marker(self, end: EndMarker) -> ErrorCode:
        """Checks that a marker is none of an earlier producer or coordinator.

        With transaction version 2 its epoch is higher than that of the records, so
        that a marker which comes late cannot end the next transaction. The same epoch
        without an open transaction is the same marker again.
        """
        state = self.states.get(end.producer_id, _UNKNOWN)
        is_late = end.producer_epoch < state.epoch or (
            end.transaction_version >= _V2
            and end.producer_epoch == state.epoch
            and state.first_offset >= 0
            and end.producer_epoch != _LAST_EPOCH
        )
        if is_late:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if end.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    # -- after it is in the log

    def appended(
        self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int
    ) -> None:
        """Remembers a batch that was accepted, now that it is in the log.

        Args:
            header: its header as it was sent.
            base_offset: its offset.
            timestamp_ms: its largest timestamp.
            now_ms: the time of the append, in ms since the epoch.
        """
        delta, first = header.last_offset_delta, header.base_sequence
        batch = AppendedBatch(
            first,
            first if first == NO_SEQUENCE else advance_sequence(first, delta),
            base_offset,
            base_offset + delta,
            timestamp_ms,
        )
        state = self.states.get(header.producer_id)
        if state is None:
            state = self.states[header.producer_id] = ProducerState(
                header.producer_epoch
            )
        else:
            state.begin_epoch(header.producer_epoch)
        state.batches.append(batch)
        if len(state.batches) > KEPT_BATCHES:
            del state.batches[0]
        state.timestamp_ms = timestamp_ms
        if header.is_transactional:
            self.verifications.pop(header.producer_id, None)
            if state.first_offset < 0:
                state.first_offset, state.began_ms = base_offset, now_ms
                self.open[base_offset] = header.producer_id

    def ended(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timestamp_ms: int,
    ) -> int:
        """Remembers a marker that is in the log.

        Returns:
            The first offset of the transaction that it ended, or `NO_TRANSACTION`.
        """
        state = self.states.get(producer_id)
        if state is None:
            state = self.states[producer_id] = ProducerState(producer_epoch)
        state.begin_epoch(producer_epoch)
        first_offset, state.first_offset = state.first_offset, NO_TRANSACTION
        state.timestamp_ms = timestamp_ms
        state.coordinator_epoch = coordinator_epoch
        self.open.pop(first_offset, None)
        asked = self.verifications.get(producer_id)
        # With transaction version 2 the next transaction has the marker's epoch, and
        # may be asked for before the marker is here.
        if asked is not None and not (asked.adds and asked.epoch == producer_epoch):
            del self.verifications[producer_id]
        return first_offset

    def replayed(
        self, header: BatchHeader, read: Callable[[], bytes]
    ) -> AbortedTransaction | None:
        """Remembers a batch that a file has, in the order of the log.

        Args:
            header: its header.
            read: reads the batch.

        Returns:
            The transaction that it aborts; its first offset is `NO_TRANSACTION` if
            compaction has removed the records, or an older part of the log had them.

        Raises:
            WireError: it is a malformed marker.
        """
        if header.producer_id <= NO_PRODUCER_ID:
            return None
        if not header.is_control:
            time = header.max_timestamp
            self.appended(header, header.base_offset, time, time)
            return None
        # An empty one ended a transaction that compaction has removed.
        marker = read_marker(read()) if header.record_count else None
        if marker is None:
            return None
        producer_id, offset = header.producer_id, header.last_offset
        first_offset = self.ended(
            producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            header.max_timestamp,
        )
        if marker.is_commit:
            return None
        stable = self.first_open(offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    # -- the rest

    def find_open(self) -> None:
        """Finds the open transactions after `states` were restored."""
        found = [
            (state.first_offset, producer_id)
            for producer_id, state in self.states.items()
            if state.first_offset >= 0
        ]
        self.open = dict(sorted(found))

    def first_open(self, end: int) -> int:
        """The first offset of the oldest open transaction; `end` if there is none."""
        return next(iter(self.open), end)

    def expire(self, before_ms: int) -> int:
        """Forgets producers whose newest batch is not younger; returns their number.

        A producer with an open transaction stays.

        Args:
            before_ms: ``producer.id.expiration.ms`` ago, in ms since the epoch.
        """
        gone = [
            producer_id
            for producer_id, state in self.states.items()
            if state.timestamp_ms <= before_ms and state.first_offset < 0
        ]
        for producer_id in gone:
            del self.states[producer_id]
        for producer_id, asked in list(self.verifications.items()):
            if asked.began_ms <= before_ms:
                del self.verifications[producer_id]
        return len(gone)


def _repeated(header: BatchHeader, state: ProducerState) -> AppendedBatch | None:
    first = header.base_sequence
    last = advance_sequence(first, header.last_offset_delta)
    for batch in state.batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            return batch
    return None


def _check_sequence(header: BatchHeader, state: ProducerState) -> ErrorCode:
    expected = 0
    if header.producer_epoch == state.epoch:
        expected = advance_sequence(state.last_sequence, 1)
    if header.base_sequence != expected and state.epoch != NO_PRODUCER_EPOCH:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if state.first_offset >= 0 and not header.is_transactional:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE
