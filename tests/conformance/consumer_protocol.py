"""The metadata of consumers in JoinGroup: encoding, and decoding for transcripts."""

from __future__ import annotations

import struct
from typing import Any


def consumer_subscription(
    topics: list[str],
    version: int = 0,
    user_data: bytes | None = None,
    owned: dict[str, list[int]] | None = None,
) -> bytes:
    """ConsumerProtocolSubscription: consumers' JoinGroup metadata."""
    out = struct.pack(">hi", version, len(topics))
    for topic in topics:
        raw = topic.encode()
        out += struct.pack(">h", len(raw)) + raw
    if user_data is None:
        out += struct.pack(">i", -1)
    else:
        out += struct.pack(">i", len(user_data)) + user_data
    if version >= 1:
        out += _partitions(owned or {})
    if version >= 2:
        out += struct.pack(">i", -1)  # generation
    if version >= 3:
        out += struct.pack(">h", -1)  # rack
    return out


def consumer_assignment(partitions: dict[str, list[int]]) -> bytes:
    """ConsumerProtocolAssignment, version 0: what a leader gives a consumer."""
    return struct.pack(">h", 0) + _partitions(partitions) + struct.pack(">i", -1)


def read_assignment(data: bytes) -> list[dict[str, Any]] | None:
    """The topics and partitions of ConsumerProtocolAssignment; None if it is none."""
    try:
        _, count = struct.unpack_from(">hi", data)
        offset, rows = 6, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", data, offset)
            topic = data[offset + 2 : offset + 2 + size].decode()
            offset += 2 + size
            (length,) = struct.unpack_from(">i", data, offset)
            partitions = struct.unpack_from(f">{length}i", data, offset + 4)
            offset += 4 + 4 * length
            rows.append({"name": topic, "partitions": [*partitions]})
        if offset + 4 == len(data):
            return rows
    except (struct.error, UnicodeDecodeError):
        pass
    return None


def _partitions(by_topic: dict[str, list[int]]) -> bytes:
    out = struct.pack(">i", len(by_topic))
    for topic, partitions in by_topic.items():
        raw = topic.encode()
        out += struct.pack(">h", len(raw)) + raw
        out += struct.pack(f">{len(partitions) + 1}i", len(partitions), *partitions)
    return out


def read_simple_subscription(
    data: bytes,
) -> tuple[int, list[str], bytes | None] | None:
    """(version, topics, user data) from bytes of consumer_subscription, or None."""
    try:
        version, count = struct.unpack_from(">hi", data)
        offset = 6
        topics = []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", data, offset)
            topics.append(data[offset + 2 : offset + 2 + size].decode())
            offset += 2 + size
        (size,) = struct.unpack_from(">i", data, offset)
        user_data = None if size < 0 else data[offset + 4 : offset + 4 + size]
        if consumer_subscription(topics, version, user_data) == data:
            return version, topics, user_data
    except (struct.error, UnicodeDecodeError, OverflowError):
        pass
    return None
