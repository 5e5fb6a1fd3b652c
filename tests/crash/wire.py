"""A connection that asks one thing at a time, and waits for the answer."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from kohort.protocol.codegen import skip_tags
from kohort.protocol.registry import BY_NAME

CLIENT_ID = b"harness"
TIMEOUT_S = 30.0


class Wire:
    """One connection to one node.

    Args:
        port: of 127.0.0.1.

    Raises:
        OSError: nobody listens there.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes it."""
        self._socket.close()

    def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request and returns its response.

        Args:
            api_name: Kafka's name of the API, as in `DescribeGroups`.
            version: of the request.
            message: of that API's `request_class`.

        Raises:
            OSError: the connection is gone, or nothing came within TIMEOUT_S.
        """
        self.send(api_name, version, message)
        api = BY_NAME[api_name]
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(size)
        (correlation_id,) = struct.unpack_from(">i", answer)
        assert correlation_id == self._correlation_id
        start = 4
        if api.response_header_version(version) >= 1:
            start = skip_tags(answer, start)
        response, end = api.response(version).decode(answer, start, size)
        assert end == size, f"{size - end} bytes behind the response"
        return response

    def send(self, api_name: str, version: int, message: object) -> None:
        """Sends a request, and does not wait for its response.

        Args:
            api_name: as in `call`.
            version: of the request.
            message: of that API's `request_class`.

        Raises:
            OSError: the connection is gone.
        """
        api = BY_NAME[api_name]
        self._correlation_id += 1
        head = struct.pack(
            ">hhih", api.key, version, self._correlation_id, len(CLIENT_ID)
        )
        tags = b"\0" if api.is_flexible(version) else b""
        frame = head + CLIENT_ID + tags + api.request(version).encode(message)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionError("the connection was closed")
            received += piece
        return bytes(received)
