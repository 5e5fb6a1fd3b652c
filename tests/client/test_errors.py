"""Errors: one class tree, retriable or not, and their messages."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from kohort.client import errors
from kohort.client.errors import (
    BrokerError,
    ConfigError,
    ConnectionFailedError,
    GroupMaxSizeReachedError,
    KohortError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownTopicError,
    error_of,
)
from kohort.protocol.errors import ErrorCode

# What org.apache.kafka.common.protocol.Errors of Kafka 4.3 has an exception for that
# is a RetriableException.
RETRIABLE = {
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80,
    83, 84, 88, 89, 100, 103, 106, 122, 123, 133,
}  # fmt: skip


def test_there_is_one_tree() -> None:
    """KohortError catches all of them."""
    classes = {
        name
        for name, found in vars(errors).items()
        if inspect.isclass(found) and issubclass(found, BaseException)
    }
    assert all(issubclass(getattr(errors, name), KohortError) for name in classes)
    assert issubclass(ConfigError, ValueError)


def test_retriable_is_what_it_is_for_kafka() -> None:
    """An error is retriable if Kafka's own client retries it."""
    for code in [code for code in ErrorCode if code]:
        error = error_of(code, api="Fetch")
        assert error.retriable == (code in RETRIABLE), code
        assert error.code is code
        assert code.name in str(error)


def test_an_error_says_where() -> None:
    """API, broker, group, topic and partition are in the text."""
    error = error_of(
        16,
        api="OffsetCommit",
        broker="127.0.0.1:9092 (node 1)",
        group="orders",
        topic="t",
        partition=3,
    )
    assert isinstance(error, NotCoordinatorError)
    assert str(error) == (
        "OffsetCommit at 127.0.0.1:9092 (node 1), group 'orders', topic 't', "
        "partition 3: Another node coordinates the group (NOT_COORDINATOR)"
    )
    assert (error.api, error.group, error.topic, error.partition) == (
        "OffsetCommit",
        "orders",
        "t",
        3,
    )


def test_an_error_without_a_place_is_its_message() -> None:
    """Unknown places are left out."""
    assert str(ConfigError("acks: 2 is not possible")) == "acks: 2 is not possible"
    assert str(RequestTimedOutError()) == "RequestTimedOutError"


def test_the_brokers_own_words_are_kept() -> None:
    """The broker's message is shown, with the code's name."""
    error = error_of(3, api="CreatePartitions", topic="t", message="no topic t")
    assert isinstance(error, UnknownTopicError)
    expected = "CreatePartitions, topic 't': no topic t (UNKNOWN_TOPIC_OR_PARTITION)"
    assert str(error) == expected


@pytest.mark.parametrize("code", [77, 81])
def test_a_full_group_has_two_numbers(code: int) -> None:
    """JoinGroup's 77 is KIP-389's number, 81 Kafka's; the text is KIP-389's."""
    error = error_of(code, api="JoinGroup", group="g")
    assert isinstance(error, GroupMaxSizeReachedError)
    assert not error.retriable
    assert "Consumer group is already at its full capacity." in str(error)
    assert error.wire_code == code


def test_77_is_kafkas_elsewhere() -> None:
    """Only JoinGroup has KIP-389's number."""
    assert error_of(77, api="Metadata").code is ErrorCode.STALE_BROKER_EPOCH


def test_a_code_that_nobody_knows_is_an_error() -> None:
    """A later Kafka may have more codes: they are shown, and not retried."""
    error = error_of(4711, api="Fetch")
    assert isinstance(error, BrokerError)
    assert not error.retriable
    assert "4711" in str(error)


def test_words_are_for_people() -> None:
    """A class's docstring is shown without markup."""
    assert [code for code in ErrorCode if code and "`" in str(error_of(code))] == []


def test_what_is_usual_can_be_overruled() -> None:
    """A connection that must not be retried is not retriable."""
    assert ConnectionFailedError("gone").retriable
    assert not ConnectionFailedError("no such certificate", retriable=False).retriable
    error = BrokerError("x", code=ErrorCode.NOT_COORDINATOR, retriable=False)
    assert not error.retriable


def test_errors_are_copied_and_pickled_whole() -> None:
    """Process pools and test runners pickle errors."""
    error = error_of(25, api="Heartbeat", broker="b:1", group="g")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.code is error.code
        assert again.wire_code == 25


def test_a_copy_is_filled_and_keeps_the_cause() -> None:
    """Several items share an error; each has its own place and traceback."""
    error = BrokerError("x", topic="t")
    error.__cause__ = OSError("gone")
    again = error.copy(topic="u", group="g")
    assert again.__cause__ is error.__cause__
    assert (again.topic, again.group, error.group) == ("t", "g", None)
