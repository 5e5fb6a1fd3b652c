"""Subscriptions and assignments, the consumers' own messages."""

from __future__ import annotations

import importlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.kio_bridge import kio_encode, to_kio
from tests.protocol.strategies import carried, messages, mutated

from kohort.protocol import consumer
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions
from kohort.protocol.messages import WireError

KINDS = [
    (Subscription, "Subscription", consumer.decode_subscription),
    (Assignment, "Assignment", consumer.decode_assignment),
]
every_kind = pytest.mark.parametrize(("declared", "name", "decode"), KINDS)


@every_kind
@pytest.mark.parametrize("version", range(consumer.NEWEST + 1))
@given(data=st.data())
def test_consumers_messages_are_kios(
    declared: type, name: str, decode: Any, version: int, data: st.DataObject
) -> None:
    """Behind their version, the bytes are those of kio."""
    message = data.draw(messages(declared, version))
    module = f"kio.schema.consumer_protocol_{name.lower()}.v{version}.data"
    theirs = getattr(importlib.import_module(module), f"ConsumerProtocol{name}")

    encoded = consumer.encode(message, version)

    values = carried(message, version)
    assert encoded == struct.pack(">h", version) + kio_encode(to_kio(theirs, values))
    assert carried(decode(encoded), version) == values


def test_fields_of_newer_versions_are_passed_over() -> None:
    """A consumer of tomorrow is understood by its older fields."""
    wanted = Subscription(["t"], b"", [TopicPartitions("t", [0, 1])], 7, "rack")
    encoded = consumer.encode(wanted)
    newer = b"\x7f\xff" + encoded[2:] + b"and more"
    assert consumer.decode_subscription(newer) == wanted


def test_older_versions_leave_defaults() -> None:
    """A subscription v0 owns nothing and is of no generation."""
    encoded = consumer.encode(Subscription(["t"]), 0)
    assert consumer.decode_subscription(encoded) == Subscription(["t"])


@every_kind
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\x03\0\0\0\x01"])
def test_what_is_no_message(
    declared: type, name: str, decode: Any, data: bytes
) -> None:
    """No version, a negative one, or too little behind it."""
    with pytest.raises(WireError):
        decode(data)


@every_kind
@given(data=st.data())
def test_mutated_messages(
    declared: type, name: str, decode: Any, data: st.DataObject
) -> None:
    """Whatever a member sends is read or refused."""
    message = data.draw(messages(declared, consumer.NEWEST))
    try:
        decoded = decode(data.draw(mutated(consumer.encode(message))))
    except WireError:
        return
    assert isinstance(decoded, declared)
