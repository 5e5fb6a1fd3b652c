"""What members of type ``consumer`` tell each other through the coordinator.

A subscription travels as protocol metadata in JoinGroup, an assignment in
SyncGroup. Both start with an int16 version. v1 brought owned partitions
(KIP-429), v2 the generation (KIP-792), v3 the rack (KIP-881).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.messages import (
    Bytes,
    Int32,
    String,
    V,
    WireError,
    codec,
    slotted,
)

PROTOCOL_TYPE = "consumer"
NEWEST = 3


@slotted
class TopicPartitions:
    """Some partitions of one topic."""

    topic: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class Subscription:
    """What a member wants, and, from v1 on, what it still owns."""

    topics: Sequence[String] = ()
    user_data: Bytes | None = None
    owned_partitions: Annotated[Sequence[TopicPartitions], V(1)] = ()
    generation_id: Annotated[Int32, V(2)] = -1
    rack_id: Annotated[String | None, V(3)] = None


@slotted
class Assignment:
    """What a member is to consume."""

    assigned_partitions: Sequence[TopicPartitions] = ()
    user_data: Bytes | None = None


def _decode(cls: type, data: bytes) -> object:
    if len(data) < 2:
        raise WireError("no version")
    (version,) = struct.unpack_from(">h", data)
    if version < 0:
        raise WireError(f"version {version}")
    # Newer versions only add fields behind the known ones.
    known = codec(cls, min(version, NEWEST), flexible=False)
    message, _ = known.decode(data, 2, len(data))
    return message


def decode_subscription(data: bytes) -> Subscription:
    """The subscription in JoinGroup metadata.

    Raises:
        WireError: the bytes are none.
    """
    message = _decode(Subscription, data)
    assert isinstance(message, Subscription)  # noqa: S101
    return message


def decode_assignment(data: bytes) -> Assignment:
    """The assignment that SyncGroup hands out.

    Raises:
        WireError: the bytes are none.
    """
    message = _decode(Assignment, data)
    assert isinstance(message, Assignment)  # noqa: S101
    return message


def encode(message: Subscription | Assignment, version: int = NEWEST) -> bytes:
    """The bytes of a subscription or an assignment, version first."""
    cls: type = type(message)
    body = codec(cls, version, flexible=False).encode(message)
    return struct.pack(">h", version) + body
