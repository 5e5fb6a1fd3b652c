"""TxnOffsetCommit: offsets that count once a transaction is committed (KIP-98).

1. `handle` looks up the partitions, and refuses unknown ones.
2. Unless the group's partition of ``__consumer_offsets`` has this transaction already,
   the transaction coordinator is asked: v5 adds the partition, earlier versions have
   added it with AddOffsetsToTxn, which is verified (KIP-890).
3. `_Verified` hands the offsets to the group's coordinator, which checks the member.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.coordinator.effects import CommitResult
from kohort.broker.coordinator.events import NO_OFFSETS, CommitInTransaction, Offsets
from kohort.broker.handlers.commits import (
    ROW_COST,
    SLICE,
    Found,
    is_too_large,
    largest_batch,
)
from kohort.broker.log.producers import Verification
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.broker.transactions.events import AddPartitions, AddPartitionsResult
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.protocol.errors import ErrorCode

_Found = Found[TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition]

_FIRST_KNOWING_LOADING: Final = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""
_FIRST_ABORTABLE: Final = 4
"""The first version with TRANSACTION_ABORTABLE."""
_FIRST_ADDING: Final = 5
"""The first version that adds the partition."""
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


def handle(request: Request) -> Work:
    """Commits the offsets of known partitions; unknown ones get an error."""
    message: TxnOffsetCommitRequest = request.message
    by_name = request.node.cluster.topics.by_name
    pace = Pace()
    found = _Found(largest_batch(request.node.cluster.topics))
    for wanted in message.topics:
        topic = by_name.get(wanted.name)
        partitions = () if topic is None else topic.partitions
        known: list[TxnOffsetCommitRequestPartition] = []
        unknown: list[TxnOffsetCommitRequestPartition] = []
        for start in range(0, len(wanted.partitions), SLICE):
            some = wanted.partitions[start : start + SLICE]
            found.sort(some, wanted.name, partitions, known, unknown)
            if pace.spend(ROW_COST * len(some)):
                yield
        # Kafka's response leaves out known topics without partitions.
        if unknown or topic is None:
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found.unknown.append((wanted, unknown, missing))
        if known:
            found.known.append((wanted, known))
        if pace.spend(ROW_COST):
            yield
    if found.known and (
        yield from is_too_large(request, found, pace, has_expiry=False)
    ):
        found.is_too_large = True
    commit = _Commit(request, found, pace)
    if not found.known:
        yield from commit.reply(CommitResult(ErrorCode.NONE))
    elif not message.group_id:
        yield from commit.reply(CommitResult(ErrorCode.INVALID_GROUP_ID))
    else:
        _verify(commit)


def _verify(commit: _Commit) -> None:
    """Asks the transaction coordinator if that is necessary."""
    request = commit.request
    message: TxnOffsetCommitRequest = request.message
    cluster, adds = request.node.cluster, request.version >= _FIRST_ADDING
    verification = cluster.shards.verify(
        request.node.id,
        message.group_id,
        message.producer_id,
        message.producer_epoch,
        adds=adds,
    )
    if not isinstance(verification, Verification):
        if verification:
            commit.refuse(verification)
        else:
            commit.submit(None)
    elif adds or cluster.config["transaction.partition.verification.enable"]:
        index = cluster.shards.index_of(message.group_id)
        cluster.transactions.submit(
            None,
            AddPartitions(
                _Verified(commit, verification),
                message.transactional_id,
                message.producer_id,
                message.producer_epoch,
                [(OFFSETS_TOPIC, index)],
                verify_only=not adds,
                group_id=message.group_id,
                client=request.client,
            ),
        )
    else:
        commit.submit(verification)


class _Commit:
    """One request; the token of its commit.

    Args:
        request: the request.
        found: its partitions.
        pace: has counted the work so far.
    """

    __slots__ = ("_found", "_pace", "request")

    def __init__(self, request: Request, found: _Found, pace: Pace) -> None:
        self.request = request
        self._found = found
        self._pace = pace

    def submit(self, verification: Verification | None) -> None:
        """Hands the offsets to the group's coordinator.

        It is asked about none of them if they do not fit into a batch: a member that
        may not commit gets its error first.
        """
        request, found = self.request, self._found
        if found.is_stale(request.node.cluster.topics):
            request.go_on(handle(request))
            return
        offsets = NO_OFFSETS if found.is_too_large else found.offsets
        event = self._event(offsets)
        request.node.cluster.shards.commit_in_transaction(
            request.node.id, event, verification
        )

    def refuse(self, error: int) -> None:
        """Refuses the commit before it reaches the group's coordinator.

        As for other requests, it is no event that a client has to try again.
        """
        if error not in _RETRIED:
            event = self._event(self._found.offsets)
            self.request.node.commit_refused(event, error)
        self.answer(CommitResult(error))

    def _event(self, offsets: Offsets) -> CommitInTransaction:
        message: TxnOffsetCommitRequest = self.request.message
        return CommitInTransaction(
            self,
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            self.request.client,
            message.producer_id,
            message.producer_epoch,
            offsets,
        )

    def answer(self, result: CommitResult) -> None:
        """Takes the coordinator's result."""
        if self._found.is_too_large and not result.error_code:
            result = CommitResult(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.request.go_on(self.reply(result))

    def forget(self, why: str) -> None:
        """The request gets no answer."""
        self.request.forget(why)

    def reply(self, result: CommitResult) -> Work:
        """Answers the request."""
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if (
            result.error_code == loading
            and self.request.version < _FIRST_KNOWING_LOADING
        ):
            result = CommitResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        make = TxnOffsetCommitResponsePartition
        answers = yield from self._found.answers(result, make, self._pace)
        topics = yield from map_in_pieces(
            lambda each: TxnOffsetCommitResponseTopic(each[0], each[2]),
            answers,
            self._pace,
        )
        response = TxnOffsetCommitResponse(0, topics)
        yield from self.request.finish_in_pieces(response, self._pace)


class _Verified:
    """Token of the question to the transaction coordinator."""

    __slots__ = ("_commit", "_verification")

    def __init__(self, commit: _Commit, verification: Verification) -> None:
        self._commit = commit
        self._verification = verification

    def answer(self, result: AddPartitionsResult) -> None:
        """Goes on with the commit, or refuses it."""
        error = result.error_code or (result.codes or (0,))[0]
        if not error:
            self._commit.submit(self._verification)
            return
        version = self._commit.request.version
        if error == ErrorCode.PRODUCER_FENCED:
            # As in Kafka, at which producers expect the older error here.
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error == ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE:
            error = ErrorCode.INVALID_TXN_STATE
        elif error == ErrorCode.NETWORK_EXCEPTION:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._commit.refuse(error)

    def forget(self, why: str) -> None:
        """The request gets no answer."""
        self._commit.forget(why)
