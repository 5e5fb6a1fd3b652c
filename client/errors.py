"""Errors of the client: one class tree; each error has its API, broker and topic.

`retriable` says whether trying again can help; for an error code it is as in Apache
Kafka (its RetriableException).
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode


class KohortError(Exception):
    """The base of all errors of the client.

    Args:
        message: the error in words.
        api: Kafka's name of the API that was called.
        broker: the broker that was asked, as in "127.0.0.1:9092 (node 1)".
        group: group id.
        transactional_id: of the producer.
        topic: topic name.
        partition: partition of the topic.
        code: the broker's error code; None without an answer.
        retriable: whether trying again can help; None for the class's default.

    Attributes:
        requires_abort: whether the transaction can only be aborted; then the producer
            continues.
        fatal: whether a transactional producer can only be closed.
        wire_code: the number that the broker sent; None without an answer. It differs
            from `code` for KIP-389's 77, which Kafka uses for another error.
    """

    wire_code: int | None = None
    requires_abort: bool = False
    fatal: bool = False
    is_retriable_by_default: ClassVar[bool] = False

    def __init__(
        self,
        message: str = "",
        *,
        api: str | None = None,
        broker: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        code: ErrorCode | None = None,
        retriable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.api = api
        self.broker = broker
        self.group = group
        self.transactional_id = transactional_id
        self.topic = topic
        self.partition = partition
        self.code = code
        self._retriable = retriable

    @property
    def retriable(self) -> bool:
        """True if trying again can help."""
        if self._retriable is not None:
            return self._retriable
        return self.is_retriable_by_default

    @property
    def where(self) -> str:
        """API, broker, group, topic and partition, as far as they are known."""
        call = self.api or ""
        producer = self.transactional_id
        if self.broker:
            call = f"{call} at {self.broker}" if call else self.broker
        parts = [
            call,
            f"group {self.group!r}" if self.group is not None else "",
            f"transactional id {producer!r}" if producer is not None else "",
            f"topic {self.topic!r}" if self.topic is not None else "",
            f"partition {self.partition}" if self.partition is not None else "",
        ]
        return ", ".join(part for part in parts if part)

    def fill(self, **where: Any) -> None:
        """Sets attributes that are not set yet.

        Args:
            where: attributes of `KohortError`, such as `api`.
        """
        for name, value in where.items():
            if getattr(self, name) is None:
                setattr(self, name, value)

    def copy(self, **where: Any) -> Self:
        """A copy, for another traceback, filled with `where`."""
        error = copy.copy(self)
        error.__cause__ = self.__cause__
        error.fill(**where)
        return error

    def marked(self, *, fatal: bool) -> Self:
        """A copy that says how a transactional producer continues.

        Args:
            fatal: False if the transaction can be aborted.
        """
        error = self.copy()
        error.fatal, error.requires_abort = fatal, not fatal
        error._retriable = False  # noqa: SLF001 - a copy of this object
        return error

    def __str__(self) -> str:
        what = self.message or type(self).__name__
        if self.code is not None and self.code.name not in what:
            what = f"{what} ({self.code.name})"
        return f"{self.where}: {what}" if self.where else what

    def __reduce__(self) -> tuple[object, ...]:
        # An exception's own way calls the class without its keywords.
        return type(self), (self.message,), self.__dict__


class ConfigError(KohortError, ValueError):
    """An unknown setting, an invalid value, or settings that contradict each other."""


class ClosedError(KohortError):
    """The client is not started, or was closed before or during the call."""


class SerializationError(KohortError):
    """A serializer or deserializer rejected a key or a value."""


class ConnectionFailedError(KohortError):
    """The connection failed, or ended before the response."""

    is_retriable_by_default = True


class RequestTimedOutError(KohortError):
    """No response within the time limit."""

    is_retriable_by_default = True

    @classmethod
    def after(cls, last: KohortError | None) -> Self:
        """The error at the end of the time limit, with the place of the last error."""
        if last is None:
            return cls("no response within the time limit")
        return cls(
            f"timed out; the last error was: {last.message or type(last).__name__}",
            api=last.api,
            broker=last.broker,
            group=last.group,
            transactional_id=last.transactional_id,
            topic=last.topic,
            partition=last.partition,
            code=last.code,
        )


class UnsupportedVersionError(KohortError):
    """The broker supports no version of the API that the client supports."""


class NoOffsetForPartitionError(KohortError):
    """There is no committed offset, and ``auto.offset.reset`` is ``none``."""


class BrokerError(KohortError):
    """A broker answered with an error code."""

    @property
    def retriable(self) -> bool:
        """True if trying again can help, as Apache Kafka has it for the code."""
        if self._retriable is not None:
            return self._retriable
        return self.code in _RETRIABLE


class CommitFailedError(BrokerError):
    """The group has rebalanced: the member is not in its generation."""


class AuthorizationError(BrokerError):
    """The client is not authorized."""


class SaslAuthenticationError(BrokerError):
    """The broker rejected the client's credentials or mechanism."""


class CorruptMessageError(BrokerError):
    """A record batch with a wrong checksum."""


class FencedInstanceError(BrokerError):
    """Another member has taken this ``group.instance.id`` (KIP-345)."""


class FencedLeaderEpochError(BrokerError):
    """The client's metadata is older or newer than the leader's (KIP-320)."""


class GroupIdNotFoundError(BrokerError):
    """The group does not exist."""


class GroupMaxSizeReachedError(BrokerError):
    """The group has ``group.max.size`` members (KIP-389)."""


class IllegalGenerationError(BrokerError):
    """The group is in another generation."""


class InconsistentProtocolError(BrokerError):
    """The member and the group have no assignor in common."""


class InvalidSessionTimeoutError(BrokerError):
    """The session timeout is outside the broker's limits."""


class InvalidTopicError(BrokerError):
    """An invalid topic name, or a topic that clients may not write to."""


class MemberIdRequiredError(BrokerError):
    """The member has to join again with its new member id (KIP-394)."""


class MessageTooLargeError(BrokerError):
    """A record, or its batch, is larger than the topic allows."""


class NonEmptyGroupError(BrokerError):
    """The group has members."""


class OffsetOutOfRangeError(BrokerError):
    """The offset is outside the log."""


class LogTruncationError(OffsetOutOfRangeError):
    """A new leader has truncated the log below the consumer's position (KIP-320)."""


class OutOfOrderSequenceError(BrokerError):
    """An earlier batch of this producer is missing (KIP-98)."""


class ProducerFencedError(BrokerError):
    """Another producer has taken this producer's id, or its epoch is outdated."""


class TransactionAbortableError(BrokerError):
    """The transaction cannot be committed; abort it (KIP-890)."""


class TransactionAbortedError(KohortError):
    """The record was not sent, because its transaction was aborted."""


class TransactionStateError(BrokerError):
    """The call does not fit the state of the transaction."""


class TransactionTimeoutError(BrokerError):
    """The transaction timeout is above the broker's ``transaction.max.timeout.ms``."""


class UnstableOffsetError(BrokerError):
    """A transaction that has not ended has committed offsets (KIP-447)."""


class RebalanceInProgressError(BrokerError):
    """The group is rebalancing: the member has to join again."""


class TopicExistsError(BrokerError):
    """The topic already exists."""


class UnknownMemberError(BrokerError):
    """The group has no such member."""


class UnknownTopicError(BrokerError):
    """The topic or partition is unknown to this broker."""


class CoordinatorLoadInProgressError(BrokerError):
    """The coordinator is loading the group."""


class CoordinatorNotAvailableError(BrokerError):
    """The group has no coordinator at the moment."""


class NotCoordinatorError(BrokerError):
    """Another node coordinates the group."""


class LeaderNotAvailableError(BrokerError):
    """The partition has no leader at the moment."""


class NotLeaderError(BrokerError):
    """Another node leads the partition."""


class NotControllerError(BrokerError):
    """Another node is the controller."""


_CLASSES: dict[int, type[KohortError]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.CORRUPT_MESSAGE: CorruptMessageError,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.INCONSISTENT_TOPIC_ID: UnknownTopicError,
    ErrorCode.LEADER_NOT_AVAILABLE: LeaderNotAvailableError,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NotLeaderError,
    ErrorCode.REQUEST_TIMED_OUT: RequestTimedOutError,
    ErrorCode.MESSAGE_TOO_LARGE: MessageTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: MessageTooLargeError,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CoordinatorLoadInProgressError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorNotAvailableError,
    ErrorCode.NOT_COORDINATOR: NotCoordinatorError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidTopicError,
    ErrorCode.ILLEGAL_GENERATION: IllegalGenerationError,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: InconsistentProtocolError,
    ErrorCode.UNKNOWN_MEMBER_ID: UnknownMemberError,
    ErrorCode.INVALID_SESSION_TIMEOUT: InvalidSessionTimeoutError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgressError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: SaslAuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: SaslAuthenticationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: SaslAuthenticationError,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersionError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.NOT_CONTROLLER: NotControllerError,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequenceError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_TXN_STATE: TransactionStateError,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: TransactionTimeoutError,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: UnstableOffsetError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortableError,
    ErrorCode.NON_EMPTY_GROUP: NonEmptyGroupError,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupIdNotFoundError,
    ErrorCode.FENCED_LEADER_EPOCH: FencedLeaderEpochError,
    ErrorCode.UNKNOWN_LEADER_EPOCH: FencedLeaderEpochError,
    ErrorCode.MEMBER_ID_REQUIRED: MemberIdRequiredError,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupMaxSizeReachedError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceError,
}
"""Error codes with their own class; all others are a `BrokerError`."""

_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

GROUP_IS_FULL = "Consumer group is already at its full capacity."
"""KIP-389's text."""


def _meaning(cls: type[KohortError]) -> str:
    """The class's docstring as a message, for brokers that send none."""
    first = (cls.__doc__ or "").partition("\n")[0]
    return first.removesuffix(".").replace("``", "")


_JOINS = {"JoinGroup", "ConsumerGroupHeartbeat"}

_CODES = {int(code): code for code in ErrorCode}


def error_of(code: int, message: str | None = None, **where: Any) -> KohortError:
    """Makes the error of an error code other than 0.

    In the response to a join 77 is GROUP_MAX_SIZE_REACHED, numbered as in KIP-389,
    which kohort may send; elsewhere it is Kafka's STALE_BROKER_EPOCH.

    Args:
        code: from a response.
        message: the broker's message, if it sent one.
        where: attributes of `KohortError`, such as `api`.
    """
    wire_code = int(code)
    if code == KIP_389_GROUP_MAX_SIZE_REACHED and where.get("api") in _JOINS:
        code = ErrorCode.GROUP_MAX_SIZE_REACHED
    known = _CODES.get(code)
    if known is None:
        unnamed = f"error code {code}"
        message = f"{unnamed}: {message}" if message else unnamed
        known = ErrorCode.UNKNOWN_SERVER_ERROR
    cls = _CLASSES.get(known, BrokerError)
    if cls is GroupMaxSizeReachedError:
        message = GROUP_IS_FULL
    elif not message and cls is not BrokerError:
        message = _meaning(cls)
    error = cls(message or known.name, code=known, **where)
    error.wire_code = wire_code
    return error
