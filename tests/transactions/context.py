"""A transaction coordinator on virtual time, with a producer's verbs.

Performs effects as a driver does: appends go to `log`, markers to `markers`. Each
request is followed by a turn of the event loop, except those that come `together`.
`sleep` moves the clock and fires due timers. Every notice is rendered, so that it has
the fields of its kind; and what the log has is the state, after each event.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kohort.broker.coordinator.effects import Arm
from kohort.broker.coordinator.events import Appended, AppendFailed, Expired, TimerKey
from kohort.broker.events.render import render
from kohort.broker.notice import Client, Notice
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.effects import (
    Append,
    Effect,
    Reply,
    StateRecord,
    WriteMarkers,
)
from kohort.broker.transactions.events import (
    AddPartitions,
    AddPartitionsResult,
    Command,
    DescribeTransaction,
    DescribeTransactionResult,
    EndTransaction,
    EndTransactionResult,
    Event,
    InitProducer,
    InitProducerResult,
    MarkerWritten,
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

START = 1_700_000_000.0
"""Start of every scene, seconds since the epoch."""
ID = "app"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLIENT = Client("producer", "/127.0.0.1")


class Answer:
    """A request: the token of its reply."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    @property
    def result(self) -> Any:
        """The reply; there is exactly one."""
        (found,) = self.results
        return found


class Context:
    """A coordinator, its log and its clock.

    Args:
        settings: the coordinator's.
        version: the level of ``transaction.version``.

    Attributes:
        now: seconds since the epoch.
        log: all records.
        markers: the markers that were written, by partition, with their epochs.
        answers: the error codes of markers, by partition; NONE by default.
        holds_appends: appends wait in `waiting` for `write`.
        refuses: the error of the log for appends; None: it takes them.
        next_producer_id: the id that is handed out next; None: there is none.
    """

    def __init__(
        self, settings: TransactionSettings | None = None, version: int = 2
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.version = version
        self.now = START
        self.log: list[StateRecord] = []
        self.markers: list[tuple[TopicPartition, bool, int]] = []
        self.answers: dict[TopicPartition, int] = {}
        self.events: list[dict[str, Any]] = []
        self.holds: dict[str, TransactionState] = {}
        self.holds_appends = False
        self._is_together = False
        self.refuses: ErrorCode | None = None
        self.next_producer_id: int | None = 4000
        self.start(Loading())

    def start(self, loading: Loading) -> None:
        """Starts a new coordinator with the state of a log."""
        self._armed: dict[TimerKey, float] = {}
        self.waiting: list[Append] = []
        self.coordinator = TransactionCoordinator(
            self.settings, self._new_producer_id, lambda: self.version, self.holds
        )
        self._perform(self.coordinator.start(loading, self.now))

    def reload(self) -> None:
        """Another node becomes coordinator: it has only the log."""
        loading = Loading()
        loading.feed(self.log)
        self.start(loading)

    def _new_producer_id(self) -> int | None:
        given = self.next_producer_id
        if given is not None:
            self.next_producer_id = given + 1
        return given

    # -- events and time

    def submit(self, event: Event) -> None:
        """Hands an event to the coordinator and performs its effects."""
        self._perform(self.coordinator.handle(event, self.now))
        self._check_log()

    def _perform(self, effects: Iterable[Effect]) -> None:
        appends: list[Append] = []
        for effect in effects:
            if isinstance(effect, Reply):
                effect.token.results.append(effect.result)  # type: ignore[attr-defined]  # an `Answer`
            elif isinstance(effect, Notice):
                self.events.append(render(effect, self.now))
            elif isinstance(effect, Arm):
                self._armed[effect.key] = effect.deadline
            elif isinstance(effect, WriteMarkers):
                self.mark(effect)
            else:
                appends.append(effect)
        for append in appends:
            if append.opens_window or self.holds_appends:
                self.waiting.append(append)
            else:
                self._write(append)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Requests that come in one turn of the event loop, which ends with this."""
        self._is_together = True
        yield
        self._is_together = False
        self.turn()

    def turn(self) -> None:
        """The next turn of the event loop: windows close, timers are due."""
        if not self.holds_appends:
            self.write()
        self.sleep(0)

    def write(self) -> None:
        """Writes the appends that wait."""
        waiting, self.waiting = self.waiting, []
        for append in waiting:
            self._write(append)

    def _write(self, append: Append) -> None:
        if self.refuses is not None:
            self.submit(AppendFailed(append.append_id, self.refuses, 9, 8))
        else:
            self.log += append.records
            self.submit(Appended(append.append_id))

    def mark(self, effect: WriteMarkers) -> None:
        """Writes the markers of some partitions, or refuses them."""
        for partition in effect.partitions:
            error = self.answers.get(partition, ErrorCode.NONE)
            if not error:
                mark = partition, effect.is_commit, effect.producer_epoch
                self.markers.append(mark)
            self.submit(
                MarkerWritten(
                    effect.transactional_id,
                    effect.producer_id,
                    effect.producer_epoch,
                    partition,
                    error,
                )
            )

    def sleep(self, seconds: float) -> None:
        """Lets time pass, and fires all timers that become due, in order."""
        until = self.now + seconds
        for _ in itertools.count():
            due = min((when, key) for key, when in self._armed.items())
            if due[0] > until:
                break
            self.now = max(self.now, due[0])
            del self._armed[due[1]]
            self.submit(Expired(due[1]))
        self.now = until

    def _check_log(self) -> None:
        """Replays the log: it has the state, but for what no record has."""
        loading = Loading()
        loading.feed(self.log)
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
            for each in self.log
        ]


def _durable(metadata: Metadata) -> Metadata:
    return replace(metadata, last_producer_epoch=NO_EPOCH, groups=NO_GROUPS)
