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
from kohort.protocol.consumer import (
    Assignment,
    CooperativeStickyUserData,
    StickyUserData,
    Subscription,
    TopicPartitions,
)
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
    """After their version, the bytes equal kio's."""
    message = data.draw(messages(declared, version))
    module = f"kio.schema.consumer_protocol_{name.lower()}.v{version}.data"
    theirs = getattr(importlib.import_module(module), f"ConsumerProtocol{name}")

    encoded = consumer.encode(message, version)

    values = carried(message, version)
    assert encoded == struct.pack(">h", version) + kio_encode(to_kio(theirs, values))
    assert carried(decode(encoded), version) == values


def test_user_data_of_sticky() -> None:
    """KIP-54: the previous assignment; its newer form ends with the generation."""
    older = bytes.fromhex("00000001000174000000020000000000000007")
    before = [TopicPartitions("t", [0, 7])]
    read = consumer.decode_sticky_user_data
    assert read(older) == StickyUserData(before, -1)
    assert read(older + b"\0\0\0\x05") == StickyUserData(before, 5)
    assert read(older + b"\0\0") == StickyUserData(before, -1)
    for broken in (b"", older[:-1], b"\xff\xff\xff\xff"):
        with pytest.raises(WireError):
            read(broken)
    encoded = consumer.encode_user_data(StickyUserData(before, 5))
    assert encoded == older + b"\0\0\0\x05"


def test_user_data_of_cooperative_sticky() -> None:
    """The generation, and perhaps later fields."""
    read = consumer.decode_cooperative_sticky_user_data
    assert read(b"\0\0\0\x05more") == CooperativeStickyUserData(5)
    with pytest.raises(WireError):
        read(b"\0\0\0")
    assert consumer.encode_user_data(CooperativeStickyUserData(5)) == b"\0\0\0\x05"


def test_fields_of_newer_versions_are_passed_over() -> None:
    """Unknown newer fields are ignored."""
    wanted = Subscription(["t"], b"", [TopicPartitions("t", [0, 1])], 7, "rack")
    encoded = consumer.encode(wanted)
    newer = b"\x7f\xff" + encoded[2:] + b"and more"
    assert consumer.decode_subscription(newer) == wanted


def test_older_versions_leave_defaults() -> None:
    """A subscription v0 has no owned partitions and no generation."""
    encoded = consumer.encode(Subscription(["t"]), 0)
    assert consumer.decode_subscription(encoded) == Subscription(["t"])


@every_kind
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\x03\0\0\0\x01"])
def test_what_is_no_message(
    declared: type, name: str, decode: Any, data: bytes
) -> None:
    """A missing or negative version, or too few bytes after it, is an error."""
    with pytest.raises(WireError):
        decode(data)


@every_kind
@given(data=st.data())
def test_mutated_messages(
    declared: type, name: str, decode: Any, data: st.DataObject
) -> None:
    """Any bytes of a member are read or refused."""
    message = data.draw(messages(declared, consumer.NEWEST))
    try:
        decoded = decode(data.draw(mutated(consumer.encode(message))))
    except WireError:
        return
    assert isinstance(decoded, declared)
