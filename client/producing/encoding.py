"""Serializes keys and values, and encodes them for a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.client.config import INT64_MAX, ProducerConfig
from kohort.client.errors import MessageTooLargeError, SerializationError
from kohort.client.producing.batches import OVERHEAD, Headers, encode_tail
from kohort.protocol.errors import ErrorCode


def encode(
    config: ProducerConfig, topic: str, value: Any, key: Any, headers: Headers | None
) -> tuple[bytes | None, bytes]:
    """The serialized key, and the record's tail for a batch.

    Raises:
        SerializationError: invalid headers, or a key or value that is not bytes.
        MessageTooLargeError: it exceeds ``max.request.size`` or ``buffer.memory``.
    """
    key_bytes = _as_bytes(key, config.key_serializer, "key", topic)
    value_bytes = _as_bytes(value, config.value_serializer, "value", topic)
    try:
        tail = encode_tail(key_bytes, value_bytes, headers or ())
    except (TypeError, ValueError, AttributeError) as error:
        what = f"headers: {error}"
        raise SerializationError(what, topic=topic) from error
    size = len(tail) + OVERHEAD
    if size > config.max_request_size or size > config.buffer_memory:
        raise _too_large(config, topic, size)
    return key_bytes, tail


def check_timestamp(timestamp_ms: int, topic: str) -> None:
    """Checks the timestamp of a record.

    Raises:
        SerializationError: it is not milliseconds since the epoch.
    """
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= INT64_MAX:
        what = f"timestamp_ms: {timestamp_ms!r} is not milliseconds since the epoch"
        raise SerializationError(what, topic=topic)


def _too_large(config: ProducerConfig, topic: str, size: int) -> MessageTooLargeError:
    limit, key = min(
        (config.max_request_size, "max_request_size"),
        (config.buffer_memory, "buffer_memory"),
    )
    return MessageTooLargeError(
        f"a record of up to {size} bytes, {key} is {limit}",
        topic=topic,
        code=ErrorCode.MESSAGE_TOO_LARGE,
    )


def _as_bytes(
    value: Any, serializer: Callable[[Any], bytes] | None, what: str, topic: str
) -> bytes | None:
    if value is not None and serializer is not None:
        try:
            value = serializer(value)
        except Exception as error:
            message = f"{what}: the serializer failed: {error}"
            raise SerializationError(message, topic=topic) from error
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    message = f"{what}: {type(value).__name__} is not bytes"
    raise SerializationError(message, topic=topic)
