"""A transaction coordinator on virtual time, with a producer's verbs.

The coordinator runs as in a broker: its shard has a log in memory, and its driver the
clock. Each request is followed by a turn of the event loop, except those that come
`together`. `sleep` moves the clock and fires due timers. Every notice is rendered, so
that it has the fields of its kind; and what the log has is the state, after each event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.manual_clock import ManualClock

from kohort.broker.events.bus import Events
from kohort.broker.events.seen import Seen
from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.broker.notice import Client
from kohort.broker.runtime.loader import Loader
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.shards.transaction_records import encode, read_in_pieces
from kohort.broker.shards.transaction_shard import TransactionShard
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.effects import StateRecord
from kohort.broker.transactions.events import (
    AddPartitions,
    AddPartitionsResult,
    Command,
    DescribeTransaction,
    DescribeTransactionResult,
    EndTransaction,
    EndTransactionResult,
    InitProducer,
    InitProducerResult,
    TopicPartition,
)
from kohort.broker.transactions.load import Loading
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import TransactionState
from kohort.broker.transactions.transaction_metadata import (
    NO_EPOCH,
    NO_GROUPS,
    Metadata,
    TransactionMetadata,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import replace

ID = "app"
NODE = 1
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLIENT = Client("producer", "/127.0.0.1")
TOO_SMALL = LogConfig(max_message_bytes=8)


class Answer:
    """A request: the token of its reply."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    def answer(self, result: object) -> None:
        """Takes the reply; there is at most one."""
        assert not self.results
        self.results.append(result)

    @property
    def result(self) -> Any:
        """The reply, which must have come."""
        (found,) = self.results
        return found


class Context:
    """A coordinator, its log and its clock.

    Args:
        settings: the coordinator's.
        version: the level of ``transaction.version``.

    Attributes:
        clock: its clock.
        partition: its log.
        markers: the markers that were written, by partition, with their epochs.
        answers: the error codes of markers, by partition; NONE by default.
        events: all events.
        next_producer_id: the id that is handed out next; None: there is none.
    """

    def __init__(
        self, settings: TransactionSettings | None = None, version: int = 2
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.version = version
        self.clock = ManualClock()
        self.partition = Partition("__transaction_state-0")
        self.markers: list[tuple[TopicPartition, bool, int]] = []
        self.answers: dict[TopicPartition, int] = {}
        self.events: list[dict[str, Any]] = []
        self.holds: dict[str, TransactionState] = {}
        self._is_together = False
        self.next_producer_id: int | None = 4000
        events = Events()
        events.listen(self._published)
        runtime = Runtime(self.clock, Loader(self.clock), 0, events)
        self.shard = TransactionShard(
            0, self.partition, runtime, self._make, lambda: self.version, self._mark
        )
        self.shard.lead(NODE)

    def _make(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.settings, self._new_producer_id, lambda: self.version, self.holds
        )

    def _published(self, seen: Seen) -> None:
        self.events.append({**seen.event})

    def reload(self) -> None:
        """Another node becomes coordinator: it has only the log."""
        self.shard.lead(NODE)
        self.turn()

    def _new_producer_id(self) -> int | None:
        given = self.next_producer_id
        if given is not None:
            self.next_producer_id = given + 1
        return given

    # -- events and time

    @property
    def coordinator(self) -> TransactionCoordinator:
        """The coordinator, which is loaded."""
        assert self.shard.driver is not None
        return self.shard.driver.coordinator

    def submit(self, event: Any) -> None:
        """Hands an event to the coordinator, and performs its effects."""
        assert self.shard.driver is not None
        self.shard.driver.submit(event)
        self._check_log()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Requests that come in one turn of the event loop, which ends with this."""
        self._is_together = True
        yield
        self._is_together = False
        self.turn()

    def turn(self) -> None:
        """The next turn of the event loop: windows close, timers are due."""
        self.sleep(0)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """The log refuses all records: they are too large."""
        accepted, self.partition.config = self.partition.config, TOO_SMALL
        yield
        self.partition.config = accepted

    def _mark(
        self, end: EndMarker, topic: str, index: int, answer: Callable[[int], object]
    ) -> None:
        """Writes the marker of a partition, or refuses it."""
        partition = TopicPartition(topic, index)
        error = self.answers.get(partition, ErrorCode.NONE)
        if not error:
            self.marked(partition, end)
            self.markers.append((partition, end.is_commit, end.producer_epoch))
        answer(error)

    def marked(self, partition: TopicPartition, end: EndMarker) -> None:
        """Called before a marker is written."""

    def sleep(self, seconds: float) -> None:
        """Lets time pass, and fires all timers that become due, in order."""
        until = self.clock.now() + seconds
        while self.clock.fire(until):
            self._check_log()

    def log(self) -> list[StateRecord]:
        """All records."""
        batches = self.partition.batches(0)
        return [each for b in batches for some in read_in_pieces(b) for each in some]

    def forge(self, metadata: Metadata) -> None:
        """Puts a transactional id into a state, and into the log."""
        self.transaction.metadata = metadata
        now_ms = int(self.clock.now() * 1000)
        batch = encode([StateRecord(ID, metadata)], 1, now_ms)
        self.partition.append_own(batch, now_ms=now_ms)

    def _check_log(self) -> None:
        """Replays the log: it has the state, but for what no record has.

        Records of version 0 have less.
        """
        if not self.version:
            return
        loading = Loading()
        loading.feed(self.log())
        known = {
            key: _durable(each.metadata)
            for key, each in self.coordinator.transactions.items()
            if each.metadata.producer_epoch != NO_EPOCH
        }
        assert known == {key: _durable(each) for key, each in loading.found.items()}

    # -- the producer

    def init(
        self,
        producer_id: int = -1,
        producer_epoch: int = -1,
        *,
        timeout_ms: int = 60_000,
        transactional_id: str = ID,
    ) -> InitProducerResult:
        """InitProducerId."""
        event = InitProducer(
            Answer(), transactional_id, timeout_ms, producer_id, producer_epoch, CLIENT
        )
        result: InitProducerResult = self._ask(event)
        return result

    def add(
        self,
        *partitions: TopicPartition,
        producer_id: int | None = None,
        epoch: int | None = None,
        verify_only: bool = False,
        version: int = 0,
        group: str | None = None,
        transactional_id: str = ID,
    ) -> AddPartitionsResult:
        """AddPartitionsToTxn, by default with the current id and epoch."""
        producer_id, epoch = self._current(producer_id, epoch)
        event = AddPartitions(
            Answer(),
            transactional_id,
            producer_id,
            epoch,
            partitions,
            verify_only,
            version,
            group,
            CLIENT,
        )
        result: AddPartitionsResult = self._ask(event)
        return result

    def end(
        self,
        *,
        is_commit: bool = True,
        bumps: bool = False,
        producer_id: int | None = None,
        epoch: int | None = None,
        transactional_id: str = ID,
    ) -> EndTransactionResult:
        """EndTxn, by default of v4, with the current id and epoch."""
        producer_id, epoch = self._current(producer_id, epoch)
        event = EndTransaction(
            Answer(), transactional_id, producer_id, epoch, is_commit, bumps, CLIENT
        )
        result: EndTransactionResult = self._ask(event)
        return result

    def end_event(self) -> EndTransaction:
        """The event of a commit by EndTxn v4."""
        producer = self._current(None, None)
        return EndTransaction(
            Answer(), ID, *producer, is_commit=True, bumps_epoch=False
        )

    def describe(self, transactional_id: str = ID) -> DescribeTransactionResult:
        """DescribeTransactions."""
        result: DescribeTransactionResult
        result = self._ask(DescribeTransaction(Answer(), transactional_id))
        return result

    def command(self, kind: type[Command], *fields: Any) -> str | None:
        """Submits a command; returns why it was refused."""
        event = kind(Answer(), ID, *fields)
        self.submit(event)
        refusal: str | None = event.token.result.refusal  # type: ignore[attr-defined]  # an `Answer`
        return refusal

    def _ask(self, event: Any) -> Any:
        self.submit(event)
        if not self._is_together:
            self.turn()
        # A request whose append waits has no answer yet.
        return event.token.results[0] if event.token.results else event.token

    def _current(self, producer_id: int | None, epoch: int | None) -> tuple[int, int]:
        known = self.coordinator.transactions.get(ID)
        metadata = None if known is None else known.metadata
        return (
            producer_id
            if producer_id is not None
            else (metadata.producer_id if metadata else 0),
            epoch
            if epoch is not None
            else (metadata.producer_epoch if metadata else 0),
        )

    # -- facts

    @property
    def transaction(self) -> TransactionMetadata:
        """The transactional id of the scene."""
        return self.coordinator.transactions[ID]

    @property
    def state(self) -> str:
        """Its state."""
        return self.transaction.state.value

    def states(self) -> list[tuple[str, str]]:
        """State and cause of each change so far."""
        return [
            (event["state"], event["cause"])
            for event in self.events
            if event["kind"] == "transaction_state"
        ]

    def recorded(self) -> Sequence[str]:
        """The states of the log."""
        return [
            "Dead" if each.metadata is None else each.metadata.state.value
            for each in self.log()
        ]


def _durable(metadata: Metadata) -> Metadata:
    return replace(metadata, last_producer_epoch=NO_EPOCH, groups=NO_GROUPS)
