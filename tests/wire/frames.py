"""Frames of Kafka's protocol, for all clients of the tests.

A request is a size, a header and a body; a response is a size, a header with the
request's correlation id, and a body. Bodies of `request` and `response` are encoded by
kohort; `header` and `frame` take any bytes, valid or not.
"""

from __future__ import annotations

import struct
from typing import Any

from kohort.protocol.generated_calls import skip_tags, uvarint
from kohort.protocol.registry import BY_NAME

CLIENT_ID = "wire-client"


def frame(content: bytes, size: int | None = None) -> bytes:
    """Content after its size, or after a wrong one."""
    return struct.pack(">i", len(content) if size is None else size) + content


def size_of(head: bytes) -> int:
    """The size in the four bytes at the start of a frame."""
    size: int = struct.unpack(">i", head)[0]
    return size


def correlation_id_of(content: bytes) -> int:
    """The correlation id of a response without its size."""
    correlation_id: int = struct.unpack_from(">i", content)[0]
    return correlation_id


def tagged_fields(tags: dict[int, bytes]) -> bytes:
    """Tagged fields, in ascending order of their tags."""
    out = uvarint(len(tags))
    for tag, data in sorted(tags.items()):
        out += uvarint(tag) + uvarint(len(data)) + data
    return out


def header(
    key: int,
    version: int,
    correlation_id: int,
    client_id: str | bytes | None,
    header_version: int,
    tags: dict[int, bytes] | None = None,
) -> bytes:
    """A request header: v0 has no client id, v2 has tagged fields."""
    out = struct.pack(">hhi", key, version, correlation_id)
    if header_version >= 1:
        if client_id is None:
            out += struct.pack(">h", -1)
        else:
            raw = client_id.encode() if isinstance(client_id, str) else client_id
            out += struct.pack(">h", len(raw)) + raw
    if header_version >= 2:
        out += tagged_fields(tags or {})
    return out


def request(
    api_name: str,
    version: int,
    message: object,
    correlation_id: int = 1,
    client_id: str | None = CLIENT_ID,
) -> bytes:
    """A request as on the wire: `payload` after its size."""
    return frame(payload(api_name, version, message, correlation_id, client_id))


def payload(
    api_name: str,
    version: int,
    message: object,
    correlation_id: int = 1,
    client_id: str | None = CLIENT_ID,
) -> bytes:
    """A request without its size.

    Args:
        api_name: Kafka's name of the API, as in ``CreateTopics``.
        version: of the request.
        message: of the API's `request_class`, or its body in bytes.
        correlation_id: comes back with the response.
        client_id: None for null.
    """
    api = BY_NAME[api_name]
    head = header(
        api.key,
        version,
        correlation_id,
        client_id,
        2 if api.is_flexible(version) else 1,
    )
    if not isinstance(message, bytes):
        message = api.request(version).encode(message)
    return head + message


def response(api_name: str, version: int, content: bytes) -> Any:
    """The message of a response, of the API's `response_class`.

    Args:
        api_name: Kafka's name of the API.
        version: of the request.
        content: the response without its size; no byte may follow the message.
    """
    api = BY_NAME[api_name]
    start = 4
    if api.response_header_version(version) >= 1:
        start = skip_tags(content, start)
    message, end = api.response(version).decode(content, start, len(content))
    assert end == len(content), f"{len(content) - end} bytes behind the response"
    return message
