"""The accumulator: when batches are sent, and their sequence numbers."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kohort.broker.log.producers import AppendedBatch, Producers
from kohort.client.config import ProducerConfig
from kohort.client.producing.accumulator import NEVER, Accumulator, Queue
from kohort.client.producing.batches import Batch, encode_tail, varint
from kohort.protocol.compression import CODECS
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch, read_header, read_records

IN_FLIGHT = 5
NODE = 1


def accumulator(**settings: Any) -> Accumulator:
    """An accumulator, by default without sequence numbers."""
    return Accumulator(ProducerConfig(**{"enable_idempotence": False, **settings}))


def put(
    into: Accumulator, now: float, value: bytes = b"v", partition: int = 0
) -> float:
    """Appends a record."""
    return into.append(now, "t", partition, encode_tail(None, value), 1_000, None)


def take(from_: Accumulator, now: float) -> Batch:
    """Takes the only ready batch."""
    (queue,) = from_.poll(now).ready
    return from_.next_batch(queue, NODE)


# -- batches


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_batch_is_the_bytes_that_the_protocol_has_for_it(codec: int) -> None:
    """Records appended one by one give the bytes of `build_batch`."""
    records = [
        Record(0, 5_000, b"k", b"v"),
        Record(0, 4_000, None, b""),
        Record(0, 10**12, b"", None, [("a", b"1"), ("ß", None), ("", b"")]),
        *(Record(0, 5_000 + n, b"k" * n, b"v" * 30 * n) for n in range(70)),
    ]
    batch = Batch("t", 0, 0, 0.0, 1.0)
    for r in records:
        batch.append(encode_tail(r.key, r.value, r.headers), r.timestamp_ms, None)
    batch.number(7, 3, 2**31 - 1)
    made = build_batch(
        records,
        codec=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=2**31 - 1,
    )
    assert b"".join(batch.seal(codec)) == made
    assert b"".join(batch.seal(codec)) == made, "sealed again"
    if not codec:
        assert batch.size == len(made)


@pytest.mark.parametrize("value", [0, -1, 63, 64, -64, -65, 2**31, 2**62, -(2**62)])
def test_numbers_of_any_size_are_zigzag_varints(value: int) -> None:
    """Decoded bit by bit."""
    found = sum((b & 0x7F) << 7 * n for n, b in enumerate(varint(value)))
    assert (found >> 1) ^ -(found & 1) == value


# -- when batches are sent


def test_a_batch_lingers_until_its_time_or_until_it_is_full() -> None:
    """5 ms; a full one does not wait, but the one after it does."""
    queues = accumulator(linger_ms=5, batch_size=200)
    assert put(queues, 10.0) == pytest.approx(10.005)
    assert put(queues, 10.001) == NEVER
    due = queues.poll(10.004)
    assert not due.ready
    assert due.next_at == pytest.approx(10.005)
    assert take(queues, 10.006).count == 2
    while put(queues, 11.0) != 11.0:
        pass
    full = take(queues, 11.0)
    assert 200 - 30 < full.size <= 200
    assert not queues.poll(11.0).ready
    assert take(queues, 11.005).count == 1


def test_a_flush_ends_the_lingering_of_what_is_there_only() -> None:
    """A later record goes into another batch."""
    queues = accumulator(linger_ms=5)
    put(queues, 1.0)
    order = queues.close_batches()
    put(queues, 1.0)
    batch = take(queues, 1.0)
    assert batch.count == 1
    assert queues.oldest < order
    queues.delivered(batch)
    assert queues.oldest == order
    assert not queues.poll(1.0).ready


def test_memory_is_what_the_records_take_until_they_are_done() -> None:
    """Freed after delivery, and after expiry."""
    queues = accumulator(linger_ms=0, buffer_memory=1_000)
    put(queues, 0.0, b"v" * 900)
    assert not queues.has_room(100)
    batch = take(queues, 0.0)
    assert not queues.has_room(100)
    assert queues.delivered(batch)
    assert queues.has_room(1_000)
    put(queues, 0.0, b"v" * 900)
    assert len(queues.poll(121.0).expired) == 1
    assert queues.has_room(1_000)


def test_nothing_lingers_while_somebody_waits_for_memory() -> None:
    """As in the Java client."""
    queues = accumulator(linger_ms=60_000, request_timeout_ms=1)
    put(queues, 0.0)
    assert not queues.poll(0.0).ready
    queues.is_starved = True
    assert take(queues, 0.0).count == 1


def test_what_was_sent_to_comes_last_the_next_time() -> None:
    """A full request does not leave out the same partitions forever."""
    queues = accumulator(linger_ms=0)
    for partition in (0, 1, 2):
        put(queues, 0.0, partition=partition)
    first = queues.poll(0.0).ready[0]
    queues.next_batch(first, NODE)
    put(queues, 0.0, partition=first.partition)
    assert [q.partition for q in queues.poll(0.0).ready] == [1, 2, 0]


# -- retries


def sent(queues: Accumulator, count: int) -> list[Batch]:
    """This many batches in flight."""
    for _ in range(count):
        put(queues, 0.0)
        queues.close_batches()
    return [take(queues, 0.0) for _ in range(count)]


def idempotent(**settings: Any) -> Accumulator:
    """An accumulator with numbers, under producer id 7, one record in each log."""
    queues = Accumulator(ProducerConfig(linger_ms=0, **settings))
    queues.ids.assign(7, 0)
    for partition in (0, 1):
        put(queues, 0.0, partition=partition)
        queues.delivered(take(queues, 0.0))
    return queues


def test_what_is_sent_again_goes_alone_and_in_its_place() -> None:
    """Two of three fail: they are retried one by one, with their numbers."""
    queues = idempotent()
    first, second, third = sent(queues, 3)
    queues.put_back(second, 1.0)
    queues.put_back(first, 1.0)
    assert not queues.poll(1.0).ready, "the third is not answered"
    queues.delivered(third)
    assert queues.poll(0.5).next_at == 1.0
    put(queues, 1.0)
    for batch in (first, second):
        assert take(queues, 1.0) is batch
        assert not queues.poll(1.0).ready
        queues.delivered(batch)
    fourth = take(queues, 1.0)
    numbers = [b.base_sequence for b in (first, second, third, fourth)]
    assert numbers == [1, 2, 3, 4]


@pytest.mark.parametrize("is_back_first", [True, False])
def test_what_is_behind_a_refused_number_loses_its_own(is_back_first: bool) -> None:
    """It was lost with its connection: the broker cannot have written it."""
    queues = idempotent()
    first, second = sent(queues, 2)
    if is_back_first:
        queues.put_back(second, 0.0)
    queues.refused(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    queues.put_back(first, 0.0)
    if not is_back_first:
        queues.put_back(second, 0.0)
    assert not first.is_numbered
    assert not second.is_numbered


def test_a_numbered_batch_that_expires_leaves_a_gap() -> None:
    """Its outcome is unknown; later batches start under a new id."""
    queues = idempotent()
    (first,) = sent(queues, 1)
    queues.put_back(first, 0.0)
    assert queues.poll(121.0).expired == [first]
    put(queues, 121.0)
    (queue,) = queues.poll(121.0).ready
    assert queue.lacks_an_id


def test_a_number_that_was_refused_because_of_one_before_it_stays() -> None:
    """The first one's outcome is unknown; the second is out of order for now."""
    queues = idempotent()
    first, second = sent(queues, 2)
    queues.put_back(first, 0.0)
    assert queues.refused(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    queues.put_back(second, 0.0)
    assert [b.base_sequence for b in (first, second)] == [1, 2]


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_a_number_that_nothing_explains_begins_anew_under_another_id(
    code: ErrorCode,
) -> None:
    """All batches in flight get numbers from 0, once the new id is there."""
    queues = idempotent()
    first, second = sent(queues, 2)
    for batch in (first, second):
        assert queues.refused(batch, code)
        queues.put_back(batch, 0.0)
    (queue,) = queues.poll(0.0).ready
    assert queue.lacks_an_id
    queues.ids.assign(8, 0)
    for batch, sequence in ((first, 0), (second, 1)):
        assert take(queues, 0.0) is batch
        assert (batch.producer_id, batch.base_sequence) == (8, sequence)
        queues.delivered(batch)


def test_under_a_new_id_the_first_batch_goes_alone() -> None:
    """A broker accepts any first number of an unknown id."""
    queues = Accumulator(ProducerConfig(linger_ms=0))
    queues.ids.assign(7, 0)
    (first,) = sent(queues, 1)
    for _ in range(2):
        put(queues, 0.0)
        queues.close_batches()
    assert not queues.poll(0.0).ready
    queues.put_back(first, 0.0)
    assert take(queues, 0.0) is first
    queues.delivered(first)
    assert [take(queues, 0.0).base_sequence for _ in range(2)] == [1, 2]


def test_other_partitions_keep_their_id_when_one_begins_anew() -> None:
    """Their numbers have no gap."""
    queues = idempotent()
    (lost,) = sent(queues, 1)
    queues.refused(lost, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    queues.put_back(lost, 0.0)
    queues.ids.assign(8, 0)
    assert take(queues, 0.0).producer_id == 8
    put(queues, 0.0, partition=1)
    other = take(queues, 0.0)
    assert (other.producer_id, other.base_sequence) == (7, 1)


def test_sequences_begin_at_0_after_the_largest_number() -> None:
    """2^31 - 1 is followed by 0, without a gap."""
    queues = idempotent()
    put(queues, 0.0)
    (queue,) = queues.poll(0.0).ready
    assert queue.sequences is not None
    queue.sequences.next = 2**31 - 1
    assert queues.next_batch(queue, NODE).base_sequence == 2**31 - 1
    put(queues, 0.0)
    assert take(queues, 0.0).base_sequence == 0


@pytest.mark.parametrize("is_written", [True, False])
def test_what_expires_in_flight_is_given_up_and_its_answer_still_counts(
    is_written: bool,
) -> None:
    """A success leaves no gap; a failure does."""
    queues = idempotent()
    (batch,) = sent(queues, 1)
    assert queues.poll(121.0).expired == [batch]
    assert queues.poll(121.0).expired == []
    assert not (queues.delivered if is_written else queues.give_up)(batch)
    put(queues, 121.0)
    (queue,) = queues.poll(121.0).ready
    assert queue.lacks_an_id is not is_written


# -- random sequences of events


class Deliveries(RuleBasedStateMachine):
    """A partition, its producer, and the broker's own check of numbers.

    The broker answers in order, refuses, or is gone with or without having written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.queues = Accumulator(
            ProducerConfig(linger_ms=0, batch_size=150, delivery_timeout_ms=60_000)
        )
        self.last_id = 0
        self.sent = 0
        self.requests: deque[Batch] = deque()
        self.log: list[int] = []
        self.producers = Producers()
        self.told: dict[int, int] = {}
        self.failed: set[int] = set()
        self.unwritten: set[int] = set()

    @rule(count=st.integers(1, 9))
    def send_records(self, count: int) -> None:
        """Appends some records."""
        for _ in range(count):
            value = b"%06d" % self.sent
            tail = encode_tail(None, value)
            self.queues.append(self.now, "t", 0, tail, 1_000, self.sent)
            self.sent += 1

    @rule()
    def pump(self) -> None:
        """Sends all ready batches, as the sender does."""
        due = self.queues.poll(self.now)
        self.expired(due.expired)
        for queue in due.ready:
            if queue.lacks_an_id:
                self.last_id += 1
                self.queues.ids.assign(self.last_id, 0)
            while len(self.requests) < IN_FLIGHT and self.is_ready(queue):
                self.requests.append(self.queues.next_batch(queue, NODE))

    def is_ready(self, queue: Queue) -> bool:
        """Returns whether it may send."""
        return self.queues.is_ready(queue, self.now)

    def expired(self, batches: list[Batch]) -> None:
        """Records expired batches."""
        for batch in batches:
            self.failed |= set(batch.deliveries)

    def write(self, batch: Batch) -> int | AppendedBatch:
        """The broker's answer to a batch: an error, or its offset."""
        data = b"".join(batch.seal(0))
        header = read_header(data)
        verdict = self.producers.check(header)
        if isinstance(verdict, AppendedBatch) or verdict:
            return verdict
        base = len(self.log)
        self.log += [int(r.value or b"") for r in read_records(data)]
        self.producers.appended(header, base, 0, 0)
        state = self.producers.get(header.producer_id)
        assert state is not None
        return state.batches[-1]

    @precondition(lambda self: self.requests)
    @rule()
    def answer(self) -> None:
        """The broker accepts the oldest request, or refuses its number."""
        batch = self.requests.popleft()
        found = self.write(batch)
        if isinstance(found, AppendedBatch):
            if self.queues.delivered(batch):
                for number, delivery in enumerate(batch.deliveries):
                    self.told[delivery] = found.first_offset + number
            return
        self.failed_with(batch, found)

    @precondition(lambda self: self.requests)
    @rule()
    def refuse(self) -> None:
        """The broker does not lead the partition."""
        batch = self.requests.popleft()
        self.failed_with(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @precondition(lambda self: self.requests)
    @rule()
    def refuse_for_good(self) -> None:
        """The broker never accepts this batch, and has not written it."""
        batch = self.requests.popleft()
        if batch.attempts == 1 and not batch.is_done:
            self.unwritten |= set(batch.deliveries)
        if self.queues.give_up(batch):
            self.failed |= set(batch.deliveries)

    @precondition(lambda self: self.requests and self.is_divisible(self.requests[0]))
    @rule()
    def refuse_as_too_large(self) -> None:
        """The batch is split; the broker has not written it, and would not have."""
        batch = self.requests.popleft()
        batch.seal(0)
        self.queues.split(batch, 0)

    def is_divisible(self, batch: Batch) -> bool:
        """Returns whether the sender would split it after the broker's error."""
        is_written = bool(set(batch.deliveries) & set(self.log))
        return batch.count > 1 and not batch.is_done and not is_written

    @precondition(lambda self: self.requests)
    @rule(written=st.integers(0, IN_FLIGHT))
    def lose_connection(self, written: int) -> None:
        """The connection is lost after some of the requests were handled."""
        for number, batch in enumerate(self.requests):
            if number < written:
                self.write(batch)
        while self.requests:
            self.failed_with(self.requests.popleft(), None)

    @rule(seconds=st.sampled_from([1, 10, 50]))
    def wait(self, seconds: int) -> None:
        """Advances the time."""
        self.now += seconds
        self.expired(self.queues.poll(self.now).expired)

    def failed_with(self, batch: Batch, code: int | None) -> None:
        """Puts a batch back for a retry, as the sender does."""
        self.queues.refused(batch, code)
        if batch.is_done:
            self.queues.give_up(batch)
        else:
            self.queues.put_back(batch, self.now)

    @invariant()
    def nothing_is_written_twice_or_out_of_order(self) -> None:
        """The log has the sent records in order, without the failed ones."""
        assert self.log == sorted(set(self.log))
        assert not self.unwritten & set(self.log)
        for delivery, offset in self.told.items():
            assert self.log[offset] == delivery
        assert not self.failed & set(self.told)

    def teardown(self) -> None:
        """At the end the broker answers everything: nothing is left."""
        for _ in range(10 * self.sent):
            if self.queues.oldest == NEVER and not self.requests:
                break
            self.pump()
            if self.requests:
                self.answer()
        assert self.queues.oldest == NEVER
        assert set(self.told) | self.failed == set(range(self.sent))
        self.nothing_is_written_twice_or_out_of_order()
        assert set(self.log) >= set(range(self.sent)) - self.failed
        assert self.queues.has_room(32 * 1024 * 1024)


def test_records_are_written_once_and_in_order_whatever_happens() -> None:
    """Responses, refusals, lost connections and expiry in any order."""
    run_state_machine_as_test(Deliveries, settings=settings(max_examples=100))
