"""A blocking client, for processes without an event loop."""

from __future__ import annotations

import socket
from typing import Any

from tests.patience import PATIENCE_S
from tests.wire import frames
from tests.wire.closing import Closing

_PIECE = 1 << 20


class BlockingClient(Closing):
    """One connection to 127.0.0.1.

    Args:
        port: the node's port.
        timeout_s: the longest wait for a part of a response.

    Raises:
        OSError: no node listens there.
    """

    def __init__(self, port: int, timeout_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._correlation_id = 0

    def close(self) -> None:
        """Closes the connection."""
        self.socket.close()

    def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request and returns its response.

        Args:
            api_name: Kafka's name of the API, as in `DescribeGroups`.
            version: of the request.
            message: of that API's `request_class`.

        Raises:
            OSError: the connection is gone, or no answer came within the timeout.
        """
        self.send(api_name, version, message)
        content = self._exactly(self._size())
        assert frames.correlation_id_of(content) == self._correlation_id
        return frames.response(api_name, version, content)

    def send(self, api_name: str, version: int, message: object) -> None:
        """Sends a request without waiting for its response.

        Args:
            api_name: as in `call`.
            version: of the request.
            message: of that API's `request_class`.

        Raises:
            OSError: the connection is gone.
        """
        self._correlation_id += 1
        data = frames.request(api_name, version, message, self._correlation_id)
        self.socket.sendall(data)

    def skip_response(self) -> int:
        """Reads a response and keeps none of it; returns its size.

        Raises:
            OSError: the connection is gone, or no answer came within the timeout.
        """
        size = left = self._size()
        while left:
            left -= len(self._some(min(left, _PIECE)))
        return size

    def _size(self) -> int:
        return frames.size_of(self._exactly(4))

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            received += self._some(size - len(received))
        return bytes(received)

    def _some(self, size: int) -> bytes:
        piece = self.socket.recv(size)
        if not piece:
            raise ConnectionError("the connection was closed")
        return piece
