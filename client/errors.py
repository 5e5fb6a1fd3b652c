"""Errors of the client: one tree, and every error names its API, broker and topic.

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
        topic: topic name.
        partition: partition of the topic.
        code: the broker's error code; None without an answer.
        retriable: whether trying again can help; None for the class's default.

    Attributes:
        wire_code: the number that the broker sent; None without an answer. It differs
            from `code` for KIP-389's 77, which Kafka uses for another error.
    """

    wire_code: int | None = None
    is_retriable_by_default: ClassVar[bool] = False

    def __init__(
        self,
        message: str = "",
        *,
        api: str | None = None,
        broker: str | None = None,
        group: str | None = None,
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
        self.topic = topic
        self.partition = partition
        self.code = code
        self._retriable = retriable

    @property
    def retriable(self) -> bool:
        """Whether trying again can help."""
        if self._retriable is not None:
            return self._retriable
        return self.is_retriable_by_default

    @property
    def where(self) -> str:
        """API, broker, group, topic and partition, as far as they are known."""
        call = self.api or ""
        if self.broker:
            call = f"{call} at {self.broker}" if call else self.broker
        parts = [
            call,
            f"group {self.group!r}" if self.group is not None else "",
            f"topic {self.topic!r}" if self.topic is not None else "",
            f"partition {self.partition}" if self.partition is not None else "",
        ]
        return ", ".join(part for part in parts if part)

    def fill(self, **where: Any) -> None:
        """Has it say where it happened, as far as it does not yet.

        Args:
            where: by the names of `KohortError`.
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

    def __str__(self) -> str:
        what = self.message or type(self).__name__
        if self.code is not None and self.code.name not in what:
            what = f"{what} ({self.code.name})"
        return f"{self.where}: {what}" if self.where else what

    def __reduce__(self) -> tuple[object, ...]:
        # An exception's own way calls the class without its keywords.
        return type(self), (self.message,), self.__dict__


class ConfigError(KohortError, ValueError):
    """A key that does not exist, or a value that it cannot have."""


class ClosedError(KohortError):
    """The client was closed, before the call or meanwhile."""


class SerializationError(KohortError):
    """A key or a value that a serializer, or a deserializer, does not take."""


class ConnectionFailedError(KohortError):
    """There is no connection, or it ended before the answer came."""

    is_retriable_by_default = True


class RequestTimedOutError(KohortError):
    """No answer within the time that was given."""

    is_retriable_by_default = True

    @classmethod
    def after(cls, last: KohortError | None) -> Self:
        """Time is up; where it happened comes from the last error, if any."""
        if last is None:
            return cls("no answer in the time that was given")
        return cls(
            f"time is up; the last error was: {last.message or type(last).__name__}",
            api=last.api,
            broker=last.broker,
            group=last.group,
            topic=last.topic,
            partition=last.partition,
            code=last.code,
        )


class UnsupportedVersionError(KohortError):
    """The broker does not have the API, or not in a version that would do."""


class NoOffsetForPartitionError(KohortError):
    """Nothing is committed, and ``auto.offset.reset`` is ``none``."""


class BrokerError(KohortError):
    """A broker answered with an error code."""

    @property
    def retriable(self) -> bool:
        """Whether trying again can help, as Apache Kafka has it for the code."""
        if self._retriable is not None:
            return self._retriable
        return self.code in _RETRIABLE


class CommitFailedError(BrokerError):
    """The group has moved on: the member that commits is not in its generation."""


class AuthorizationError(BrokerError):
    """The client is not allowed to."""


class SaslAuthenticationError(BrokerError):
    """The broker does not take the client's credentials or mechanism."""


class CorruptMessageError(BrokerError):
    """A record batch whose checksum is wrong."""


class FencedInstanceError(BrokerError):
    """Another member has taken this ``group.instance.id`` (KIP-345)."""


class FencedLeaderEpochError(BrokerError):
    """The metadata is older, or newer, than the leader (KIP-320)."""


class GroupIdNotFoundError(BrokerError):
    """There is no such group."""


class GroupMaxSizeReachedError(BrokerError):
    """The group has as many members as ``group.max.size`` allows (KIP-389)."""


class IllegalGenerationError(BrokerError):
    """The group is in another generation."""


class InconsistentProtocolError(BrokerError):
    """The group has no protocol in common with the member."""


class InvalidSessionTimeoutError(BrokerError):
    """The session timeout is outside the broker's limits."""


class InvalidTopicError(BrokerError):
    """No topic can have this name, or clients may not write to it."""


class MemberIdRequiredError(BrokerError):
    """The member is to join again with the id that it was given (KIP-394)."""


class MessageTooLargeError(BrokerError):
    """A record, or its batch, is larger than the topic allows."""


class NonEmptyGroupError(BrokerError):
    """The group has members."""


class OffsetOutOfRangeError(BrokerError):
    """The log has no such offset."""


class LogTruncationError(OffsetOutOfRangeError):
    """A new leader has truncated the log below the consumer's position (KIP-320)."""


class OutOfOrderSequenceError(BrokerError):
    """A batch of this producer before this one is missing (KIP-98)."""


class ProducerFencedError(BrokerError):
    """Another producer has taken this producer's id, or its epoch is over."""


class RebalanceInProgressError(BrokerError):
    """The group is rebalancing: the member is to join again."""


class TopicExistsError(BrokerError):
    """There is a topic of this name."""


class UnknownMemberError(BrokerError):
    """The group has no such member."""


class UnknownTopicError(BrokerError):
    """The topic or partition is unknown to this broker."""


class CoordinatorLoadInProgressError(BrokerError):
    """The coordinator is reading the group's log."""


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
    ErrorCode.NON_EMPTY_GROUP: NonEmptyGroupError,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupIdNotFoundError,
    ErrorCode.FENCED_LEADER_EPOCH: FencedLeaderEpochError,
    ErrorCode.UNKNOWN_LEADER_EPOCH: FencedLeaderEpochError,
    ErrorCode.MEMBER_ID_REQUIRED: MemberIdRequiredError,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupMaxSizeReachedError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceError,
}
"""Codes with a class of their own; the others are a `BrokerError`."""

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


def _what_it_means(cls: type[KohortError]) -> str:
    """The class's own words, for a broker that has none."""
    first = (cls.__doc__ or "").partition("\n")[0]
    return first.removesuffix(".").replace("``", "")


_CODES = {int(code): code for code in ErrorCode}


def error_of(code: int, message: str | None = None, **where: Any) -> KohortError:
    """The error that an error code other than 0 stands for.

    In a response to JoinGroup 77 is GROUP_MAX_SIZE_REACHED, as KIP-389 numbers
    it and kohort may send it; elsewhere it is Kafka's STALE_BROKER_EPOCH.

    Args:
        code: from a response.
        message: the broker's own words, where it has some.
        where: `api`, `broker` and so on, by the names of `KohortError`.
    """
    wire_code = int(code)
    if code == KIP_389_GROUP_MAX_SIZE_REACHED and where.get("api") == "JoinGroup":
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
        message = _what_it_means(cls)
    error = cls(message or known.name, code=known, **where)
    error.wire_code = wire_code
    return error
