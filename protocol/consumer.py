"""The consumer protocol: subscriptions and assignments, opaque to the coordinator.

A subscription travels as protocol metadata in JoinGroup, an assignment in
SyncGroup. Both start with an int16 version. v1 brought owned partitions
(KIP-429), v2 the generation (KIP-792), v3 the rack (KIP-881).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bytes, Int32, String, V
from kohort.protocol.messages import CutError, WireError, codec
from kohort.protocol.slotted import slotted

PROTOCOL_TYPE = "consumer"
NEWEST = 3


@slotted
class TopicPartitions:
    """Some partitions of one topic."""

    topic: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class Subscription:
    """The topics that a member subscribes to and, from v1, its owned partitions."""

    topics: Sequence[String] = ()
    user_data: Bytes | None = None
    owned_partitions: Annotated[Sequence[TopicPartitions], V(1)] = ()
    generation_id: Annotated[Int32, V(2)] = -1
    rack_id: Annotated[String | None, V(3)] = None


@slotted
class Assignment:
    """The partitions assigned to a member."""

    assigned_partitions: Sequence[TopicPartitions] = ()
    user_data: Bytes | None = None


@slotted
class StickyUserData:
    """User data of `sticky` in a subscription (KIP-54); v1 added the generation."""

    previous_assignment: Sequence[TopicPartitions] = ()
    generation: Annotated[Int32, V(1)] = -1


@slotted
class CooperativeStickyUserData:
    """User data of `cooperative-sticky` in a subscription (KIP-429)."""

    generation: Int32 = -1


def version_of(data: bytes) -> int | None:
    """The version of a subscription or an assignment; None if it is malformed."""
    if len(data) < 2:
        return None
    (version,) = struct.unpack_from(">h", data)
    return None if version < 0 else int(version)


def _decode(cls: type, data: bytes) -> object:
    version = version_of(data)
    if version is None:
        raise CutError("no version")
    # Newer versions only append fields.
    known = codec(cls, min(version, NEWEST), flexible=False)
    message, _ = known.decode(data, 2, len(data))
    return message


def decode_subscription(data: bytes) -> Subscription:
    """The subscription in JoinGroup metadata.

    Raises:
        WireError: the bytes are malformed; a `CutError` is a SchemaException in Kafka.
    """
    message = _decode(Subscription, data)
    assert isinstance(message, Subscription)
    return message


def decode_assignment(data: bytes) -> Assignment:
    """The assignment that SyncGroup hands out.

    Raises:
        WireError: see `decode_subscription`.
    """
    message = _decode(Assignment, data)
    assert isinstance(message, Assignment)
    return message


def assigned_partitions(data: bytes) -> set[tuple[str, int]]:
    """The (topic, partition) of an assignment; none if it is not a consumer's."""
    if not data:
        return set()
    try:
        parts = decode_assignment(data).assigned_partitions
    except WireError:
        return set()
    return {(part.topic, p) for part in parts for p in part.partitions}


def encode(message: Subscription | Assignment, version: int = NEWEST) -> bytes:
    """The bytes of a subscription or an assignment, version first."""
    cls: type = type(message)
    body = codec(cls, version, flexible=False).encode(message)
    return struct.pack(">h", version) + body


def decode_sticky_user_data(data: bytes) -> StickyUserData:
    """Decodes the user data of `sticky`. It has no version number: tries v1, then v0.

    Raises:
        WireError: the bytes are neither v1 nor v0.
    """
    try:
        message = codec(StickyUserData, 1, flexible=False).decode(data, 0, len(data))[0]
    except WireError:
        message = codec(StickyUserData, 0, flexible=False).decode(data, 0, len(data))[0]
    assert isinstance(message, StickyUserData)
    return message


def decode_cooperative_sticky_user_data(data: bytes) -> CooperativeStickyUserData:
    """Decodes the user data of `cooperative-sticky`.

    Raises:
        WireError: the bytes are malformed.
    """
    cls = CooperativeStickyUserData
    message, _ = codec(cls, 0, flexible=False).decode(data, 0, len(data))
    assert isinstance(message, CooperativeStickyUserData)
    return message


def encode_user_data(message: StickyUserData | CooperativeStickyUserData) -> bytes:
    """Encodes an assignor's user data, which has no version number."""
    cls: type = type(message)
    return codec(cls, 1, flexible=False).encode(message)
