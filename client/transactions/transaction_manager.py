"""A transactional producer's state: pure, without requests and waits.

One request is under way at a time. The driver asks `next_request` for it, sends it, and
reports the response, a `refused` request, or one to `retry`. Calls of the application
that need a response return an `Operation`, which is done when its end is known.

With transaction version 1 partitions and groups are added to the transaction before
anything is written to them. With version 2 (KIP-890) brokers add them, and each end
brings a new epoch, so that nothing late can be written into the next transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.client.errors import KohortError, TransactionStateError
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.client.transactions.requests import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducer,
    Offsets,
    Request,
)
from kohort.client.transactions.state import (
    ABORTABLE_ERROR,
    ABORTING_TRANSACTION,
    COMMITTING_TRANSACTION,
    FATAL_ERROR,
    IN_TRANSACTION,
    INITIALIZING,
    READY,
    UNINITIALIZED,
    TransactionState,
    check,
)
from kohort.client.transactions.verdicts import (
    Verdict,
    for_the_application,
    of_batch,
    of_request,
)
from kohort.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:  # a producer does not load the consumer
    from kohort.client.consuming.consumer_group import ConsumerGroupMetadata

ENDING = {COMMITTING_TRANSACTION: "commit", ABORTING_TRANSACTION: "abort"}


@dataclass(slots=True, eq=False)
class Operation:
    """A call of the application.

    Attributes:
        is_done: whether its end is known.
        error: why it has failed.
    """

    is_done: bool = False
    error: KohortError | None = None

    def end(self, error: KohortError | None = None) -> None:
        """Ends it, if it has not ended before."""
        if not self.is_done:
            self.is_done, self.error = True, error


@dataclass(slots=True, eq=False)
class _Commit(Operation):
    """Offsets to commit."""

    group: ConsumerGroupMetadata = field(kw_only=True)
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(kw_only=True)
    """Those without a response."""
    version: int = field(kw_only=True)
    must_add: bool = field(kw_only=True)
    """True until AddOffsetsToTxn has succeeded."""
    is_asked: bool = False
    """True if an AddOffsetsToTxn was sent."""


class TransactionManager:
    """The state of one transactional producer.

    Attributes:
        state: the current one.
        error: the error of an error state, for the application.
        producer_id: -1 before the first InitProducerId.
        epoch: likewise.
        version: the level of the feature ``transaction.version``; 1 if unknown.
        can_bump: whether the coordinator bumps epochs (KIP-360, Kafka 2.5).
        partitions: those that are in the transaction.
    """

    def __init__(self, transactional_id: str) -> None:
        self.state: TransactionState = UNINITIALIZED
        self.error: KohortError | None = None
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self.version = 1
        self.can_bump = True
        self.partitions: set[TopicPartition] = set()
        self._id = transactional_id
        self._features_epoch = -1
        self._next_version = 1
        # Partitions to add: new ones, and those whose request may have arrived.
        self._new: dict[TopicPartition, None] = {}
        self._asked: dict[TopicPartition, None] = {}
        self._commits: list[_Commit] = []
        self._ending: Operation | None = None
        self._end: EndTransaction | None = None
        self._is_started = False
        self._must_bump = False

    # -- calls of the application

    def initialize(self) -> Operation:
        """Gets the producer's id and epoch; fences earlier producers."""
        self._to(INITIALIZING)
        self._ending = Operation()
        return self._ending

    def begin(self) -> None:
        """Begins a transaction.

        Raises:
            KohortError: the state allows none.
        """
        self._check(READY, "begin_transaction")
        self._to(IN_TRANSACTION)

    def check_open(self, call: str) -> None:
        """Checks that a transaction takes records and offsets.

        Raises:
            TransactionStateError: there is none.
            KohortError: the error of the transaction.
        """
        self._check(IN_TRANSACTION, call)

    def add_partition(self, place: TopicPartition) -> None:
        """Adds a partition that gets records.

        Raises:
            KohortError: as `check_open`.
        """
        self.check_open("send")
        if place in self.partitions:
            return
        if self.version >= 2:
            self.partitions.add(place)
            self._is_started = True
        elif place not in self._asked:
            self._new[place] = None

    def add_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> Operation:
        """Commits offsets as part of the transaction.

        Raises:
            KohortError: as `check_open`.
        """
        self.check_open("send_offsets_to_transaction")
        must_add = self.version < 2
        commit = _Commit(
            group=group, offsets=dict(offsets), version=self.version, must_add=must_add
        )
        if offsets:
            self._is_started |= not must_add
            self._commits.append(commit)
        else:
            commit.end()
        return commit

    def end(self, *, is_commit: bool) -> Operation:
        """Begins to commit or to abort; once more, returns the same operation.

        Raises:
            TransactionStateError: there is no transaction, or it ends otherwise.
            KohortError: the error of the transaction, which can be aborted or not.
        """
        state = COMMITTING_TRANSACTION if is_commit else ABORTING_TRANSACTION
        call = f"{ENDING[state]}_transaction"
        pending = self._ending
        if pending is not None and self._end is not None:
            if self._end.is_commit != is_commit:
                raise self._misuse(call)
            return pending
        if self.state is not ABORTABLE_ERROR or is_commit:
            self._check(IN_TRANSACTION, call)
        self._to(state)
        self.error = None
        self._ending = Operation()
        self._end = EndTransaction(is_commit, self.version)
        if not is_commit:
            self._new.clear()
            self._drop_commits(self._aborted())
        return self._ending

    @property
    def may_abort(self) -> bool:
        """True if there is a transaction that the application has not ended."""
        return self.state in {IN_TRANSACTION, ABORTABLE_ERROR}

    @property
    def pending(self) -> Operation | None:
        """The commit or abort that has not ended, or the start."""
        return self._ending

    def may_send(self, place: TopicPartition) -> bool:
        """Returns whether batches for a partition may be sent."""
        return place in self.partitions and self.state is not FATAL_ERROR

    def _check(self, wanted: TransactionState, call: str) -> None:
        if self.state is wanted:
            return
        if self.error is not None:
            raise self.error.copy()
        raise self._misuse(call)

    def _misuse(self, call: str) -> TransactionStateError:
        state = self.state
        if state in ENDING:
            does = ENDING[state]
            what = f"the {does} has not ended; call {does}_transaction again"
        elif self._end is not None:
            what = "the end of the transaction needs a new epoch, and has none yet"
        elif state is IN_TRANSACTION:
            what = "a transaction has begun, and has not ended"
        else:
            what = "no transaction has begun"
        return TransactionStateError(f"{call}: {what}", transactional_id=self._id)

    # -- requests

    def next_request(self, *, has_batches: bool) -> Request | None:
        """The request to send now, if any.

        Args:
            has_batches: whether batches are undelivered. The transaction ends when
                none are.
        """
        if self.state is INITIALIZING:
            return InitProducer(self.producer_id, self.epoch)
        if self.state not in {IN_TRANSACTION, *ENDING}:
            return None
        if self._new or self._asked:
            self._asked |= self._new
            self._new.clear()
            return AddPartitions(tuple(self._asked))
        if self._commits:
            commit = self._commits[0]
            if commit.must_add:
                commit.is_asked = True
                return AddOffsets(commit.group.group_id)
            return CommitOffsets(commit.group, {**commit.offsets}, commit.version)
        if self._end is None or has_batches:
            return None
        if not self._is_started:
            # The coordinator knows nothing of the transaction.
            self._ended()
            return self.next_request(has_batches=False)
        return self._end

    def learn(
        self, version: int | None, features_epoch: int, *, can_bump: bool
    ) -> None:
        """Takes the features of the coordinator, for the next transaction.

        Args:
            version: the level of ``transaction.version``; None without the feature.
            features_epoch: grows with each change of the features.
            can_bump: whether InitProducerId takes a producer's epoch.
        """
        self.can_bump = can_bump
        if features_epoch > self._features_epoch:
            self._features_epoch = features_epoch
            self._next_version = version or 1

    # -- responses

    def initialized(self, producer_id: int, epoch: int) -> None:
        """Takes the response to `InitProducer`."""
        self.producer_id, self.epoch = producer_id, epoch
        self.version = self._next_version
        self._must_bump = False
        self._to(READY)
        self._finish()

    def partitions_added(self, request: AddPartitions) -> None:
        """Takes the response to `AddPartitions`."""
        for place in request.partitions:
            self._asked.pop(place, None)
        self.partitions.update(request.partitions)
        self._is_started = True

    def group_added(self) -> None:
        """Takes the response to `AddOffsets`."""
        self._is_started = True
        commit = self._commits[0]
        commit.must_add = False
        if commit.is_done:  # the transaction is aborted
            del self._commits[0]

    def offsets_committed(self, places: Iterable[TopicPartition]) -> None:
        """Takes the partitions of a response to `CommitOffsets` without an error."""
        if not self._commits:  # dropped meanwhile
            return
        commit = self._commits[0]
        for place in places:
            commit.offsets.pop(place, None)
        if not commit.offsets:
            commit.end()
            del self._commits[0]

    def ended(self, producer_id: int, epoch: int) -> None:
        """Takes the response to `EndTransaction`; -1 without a new epoch."""
        if producer_id != NO_PRODUCER_ID:
            self.producer_id, self.epoch = producer_id, epoch
        self._ended()

    def _ended(self) -> None:
        self.partitions.clear()
        self._is_started = False
        # Only a new epoch separates the generations of the protocol.
        if self._must_bump or self.version < 2 <= self._next_version:
            self._to(INITIALIZING)
        else:
            self.version = self._next_version
            self._to(READY)
            self._finish()

    def _finish(self) -> None:
        ending, self._ending, self._end = self._ending, None, None
        assert ending is not None
        ending.end()

    # -- errors

    def refused(self, request: Request, error: KohortError) -> bool:
        """Takes the error of a request; returns whether to retry it."""
        is_abort = isinstance(request, EndTransaction) and not request.is_commit
        verdict = of_request(error, is_abort=is_abort)
        if verdict is Verdict.RETRY:
            return True
        if isinstance(request, AddPartitions):
            self._asked.clear()
        elif isinstance(request, AddOffsets):
            self._commits[0].must_add = False
        self._fail(verdict, error)
        self._commits = [commit for commit in self._commits if not commit.is_done]
        return False

    def batch_failed(self, error: KohortError) -> None:
        """Takes the error of records that were not delivered."""
        self._fail(of_batch(error), error)

    def send_failed(self, error: KohortError) -> None:
        """Takes the error of a record that is in no batch."""
        if self.state is IN_TRANSACTION:
            self._fail(Verdict.ABORT, error)

    def close(self, error: KohortError) -> None:
        """Fails all operations."""
        if self.state is not FATAL_ERROR:
            self._fail(Verdict.FATAL, error)

    def _fail(self, verdict: Verdict, error: KohortError) -> None:
        if self.state is FATAL_ERROR:
            return
        needs_epoch = verdict is Verdict.ABORT_AND_BUMP and self.version < 2
        if verdict is Verdict.FATAL or (needs_epoch and not self.can_bump):
            self._fail_with(FATAL_ERROR, self._shown(error, fatal=True))
            return
        if needs_epoch:
            self._must_bump = True
        # An abort ends as it would without the error.
        if self.state in {IN_TRANSACTION, COMMITTING_TRANSACTION, INITIALIZING}:
            self._fail_with(ABORTABLE_ERROR, self._shown(error))

    def _fail_with(self, state: TransactionState, error: KohortError) -> None:
        self._to(state)
        self.error = error
        self._drop_commits(error)
        ending, self._ending, self._end = self._ending, None, None
        if ending is not None:
            ending.end(error)

    def _drop_commits(self, error: KohortError) -> None:
        """Fails all commits. One that may have been added still has to be."""
        for commit in self._commits:
            commit.end(error)
        self._commits = [c for c in self._commits if c.is_asked and c.must_add]

    def _shown(self, error: KohortError, *, fatal: bool = False) -> KohortError:
        return for_the_application(error, self._id).marked(fatal=fatal)

    def _aborted(self) -> KohortError:
        what = "the transaction was aborted"
        return TransactionStateError(what, transactional_id=self._id)

    def _to(self, state: TransactionState) -> None:
        check(self.state, state)
        self.state = state
