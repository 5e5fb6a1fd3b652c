"""Tools of an attack: sockets, frames, and a few calls for its preparation."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

from tests.wire import frames, malformed_batches
from tests.wire.blocking import BlockingClient
from tests.wire.closing import Closing
from tests.wire.requests import create_topics, metadata, produce

from kohort.protocol.errors import ErrorCode

ANSWER_S = 60.0
"""Seconds that an attack waits for a response; then it goes on without."""
LOOK_S = 0.1
CHUNK = 500
"""Pipelined requests on one connection."""
_PIECE = 1 << 20


class Line(BlockingClient):
    """One connection of an attacker.

    Args:
        port: of the broker.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port, ANSWER_S)

    def send_bytes(self, data: bytes) -> bool:
        """Sends all bytes; False if the broker closed, or reads no more."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def answer(self) -> str:
        """Reads one response, discards it, and returns the result in words."""
        began = time.monotonic()
        try:
            size = self.skip_response()
        except TimeoutError:
            return f"no answer in {ANSWER_S:.0f} s"
        except ConnectionResetError:
            return "reset"
        except ConnectionError:
            return "closed"
        return f"{_bytes(size)} in {time.monotonic() - began:.1f} s"

    def is_closed(self) -> bool:
        """Returns whether the broker has closed it, without waiting."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(_PIECE):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.socket.settimeout(ANSWER_S)
        return True

    def vanish(self) -> None:
        """Closes with RST."""
        linger = struct.pack("ii", 1, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.socket.close()


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size} bytes"


class Target(Closing):
    """The attacked broker.

    Args:
        port: of 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._stack = contextlib.ExitStack()

    def close(self) -> None:
        """Closes all its connections."""
        self._stack.close()

    def line(self) -> Line:
        """A connection, which is closed after the attack."""
        made = Line(self.port)
        self._stack.callback(made.close)
        return made

    def ask(self, data: bytes) -> str:
        """Sends bytes on a new connection; returns the kind of the response."""
        line = self.line()
        if line.send_bytes(data):
            return line.answer()
        return f"took not all of it, {line.answer()}"

    def call(self, api: str, version: int, message: object) -> Any:
        """A valid request on a new connection."""
        with BlockingClient(self.port) as wire:
            return wire.call(api, version, message)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Creates a topic; keys of its configuration with ``_`` in place of dots."""
        request = create_topics(topic, partitions=partitions, config=config)
        found = self.call("CreateTopics", 5, request)
        error = found.topics[0].error_code
        assert not error, (topic, ErrorCode(error).name, found.topics[0].error_message)
        asked = metadata(topic, creates=False)
        # Kafka's broker learns of it a moment later from its controller.
        while len(self.call("Metadata", 9, asked).topics[0].partitions) < partitions:
            time.sleep(LOOK_S)

    def produce(self, topic: str, batch: bytes) -> str:
        """Sends a batch to partition 0; returns the error's name, or NONE."""
        found = self.call("Produce", 7, produce((0, batch), topic=topic, acks=1))
        return ErrorCode(found.responses[0].partition_responses[0].error_code).name


def pipelined(line: Line, frames: Iterable[bytes]) -> dict[str, int]:
    """Sends requests, `CHUNK` at a time; counts the responses by kind."""
    found: dict[str, int] = {}
    rest = iter(frames)
    while chunk := list(itertools.islice(rest, CHUNK)):
        line.send_bytes(b"".join(chunk))
        for _ in chunk:
            answer = line.answer().partition(" in ")[0]
            found[answer] = found.get(answer, 0) + 1
            if answer in {"closed", "reset"}:
                return found
    return found


def producing(topic: str, batch: bytes) -> bytes:
    """A Produce of one batch to partition 0."""
    return frames.request("Produce", 7, produce((0, batch), topic=topic, acks=1))


def batch(
    packed: bytes,
    count: int,
    codec: int = 0,
    times: tuple[int, int] = (0, 0),
    damage: int = 0,
) -> bytes:
    """A record batch with any bytes.

    Args:
        packed: its records, compressed as `codec` says.
        count: declared number of records.
        codec: 0 to 4.
        times: declared times of the first and of the latest record, in ms.
        damage: is added to the CRC.
    """
    made = malformed_batches.batch(
        times[0], packed, count, attributes=codec, max_time=times[1]
    )
    crc = int.from_bytes(made[17:21]) + damage & 0xFFFFFFFF
    return made[:17] + crc.to_bytes(4) + made[21:]
