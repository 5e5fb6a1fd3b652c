"""The consequence of each error of a transactional request, as in the Java client."""

from __future__ import annotations

from enum import Enum, auto

from kohort.client.errors import CommitFailedError, KohortError, ProducerFencedError
from kohort.protocol.errors import ErrorCode


class Verdict(Enum):
    """The consequence of an error."""

    RETRY = auto()
    """The request is sent again."""

    ABORT = auto()
    """The transaction can only be aborted; then the producer continues."""

    ABORT_AND_BUMP = auto()
    """Likewise, under a new epoch (KIP-360)."""

    FATAL = auto()
    """The producer can only be closed."""


FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""Errors of an outdated epoch. Before KIP-588, coordinators sent the first one."""

_ABORTS = {
    "FindCoordinator": {ErrorCode.GROUP_AUTHORIZATION_FAILED},
    "AddOffsetsToTxn": {ErrorCode.GROUP_AUTHORIZATION_FAILED},
    "TxnOffsetCommit": {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
    },
}
"""By API, errors after which the transaction can be aborted."""

_ADD_PARTITIONS_FATAL = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
"""All other errors of single partitions can be aborted."""

_PRODUCE_FATAL = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
"""INVALID_PRODUCER_EPOCH is not among them: a partition may know the epoch after a
time-out of the transaction. If the producer is fenced, the abort fails (KIP-588)."""

_FORGETS_PRODUCERS = {"AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"}
_MISMATCH = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


def of_request(error: KohortError, *, is_abort: bool = False) -> Verdict:
    """The consequence of an error of a request to a coordinator.

    Args:
        error: with its API.
        is_abort: whether the request was an EndTxn that aborts.
    """
    api, code = error.api or "", error.code
    if error.retriable:
        return Verdict.RETRY
    if code in FENCED:
        return Verdict.FATAL
    if code == ErrorCode.TRANSACTION_ABORTABLE:
        # Another abort would end in the same way.
        return Verdict.FATAL if is_abort else Verdict.ABORT
    if code == ErrorCode.UNKNOWN_PRODUCER_ID and api in _FORGETS_PRODUCERS:
        return Verdict.ABORT_AND_BUMP
    if api == "AddPartitionsToTxn" and error.topic is not None:
        is_fatal = code in _ADD_PARTITIONS_FATAL
        return Verdict.FATAL if is_fatal else Verdict.ABORT
    return Verdict.ABORT if code in _ABORTS.get(api, ()) else Verdict.FATAL


def of_batch(error: KohortError) -> Verdict:
    """The consequence of a batch that has failed."""
    is_fatal = error.code in _PRODUCE_FATAL
    return Verdict.FATAL if is_fatal else Verdict.ABORT_AND_BUMP


def for_the_application(error: KohortError, transactional_id: str) -> KohortError:
    """The error as the application gets it, without a verdict."""
    code = error.code
    if code in FENCED and error.api != "Produce":
        made: KohortError = ProducerFencedError(
            "another producer has taken this transactional id",
            api=error.api,
            broker=error.broker,
            code=ErrorCode.PRODUCER_FENCED,
        )
    elif code in _MISMATCH:
        made = CommitFailedError(
            "the group has rebalanced without the consumer",
            api=error.api,
            broker=error.broker,
            group=error.group,
            code=code,
        )
    else:
        return error.copy(transactional_id=transactional_id)
    made.transactional_id = transactional_id
    made.__cause__ = error
    return made
