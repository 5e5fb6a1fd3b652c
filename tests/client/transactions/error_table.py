"""Errors of each request of a transaction, and the states that they lead to."""

from __future__ import annotations

from kohort.protocol.errors import ErrorCode

RETRIED = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
]
# As in the handlers of kafka-clients 4.3: the state after each error of each request.
TABLE = {
    "InitProducerId": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ],
        "abortable_error": [ErrorCode.TRANSACTION_ABORTABLE],
    },
    "AddPartitionsToTxn": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ],
        "abortable_error": [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
    },
    "AddOffsetsToTxn": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        "abortable_error": [
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
        ],
    },
    "TxnOffsetCommit": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        "abortable_error": [
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.TRANSACTION_ABORTABLE,
        ],
    },
    "EndTxn": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        "abortable_error": [
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
        ],
    },
}


CASES = [
    (api, state, code)
    for api, states in TABLE.items()
    for state, codes in states.items()
    for code in codes
]
