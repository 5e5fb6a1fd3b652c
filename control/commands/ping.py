"""The command ``kohort ping``: one ApiVersions request, without a client."""

from __future__ import annotations

import socket
import struct
import time

import click

from kohort.broker.config import ConfigError
from kohort.control.terminal import address, fail

# ApiVersions v0 with a header v1: size, key 18, version 0, correlation id, client id.
_REQUEST = struct.Struct(">ihhih4s")
# The start of the response: size, correlation id, error code, number of APIs.
_RESPONSE = struct.Struct(">iihi")


@click.command()
@click.option("--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092")
@click.option("--timeout", metavar="SECONDS", default=2.0)
def ping(bootstrap: str, timeout: float) -> None:
    """Asks a broker for its API versions; exits 0 if it answers, else 1."""
    try:
        host, port = address(bootstrap)
    except ConfigError as error:
        fail(f"--bootstrap {error}", 2)
    start = time.perf_counter()
    try:
        count = _api_count(host, port, timeout)
    except (OSError, struct.error, ValueError) as error:
        fail(f"{bootstrap} does not answer: {error}", 1)
    elapsed_ms = (time.perf_counter() - start) * 1000
    click.echo(f"{bootstrap} answers in {elapsed_ms:.1f} ms: {count} APIs")


def _api_count(host: str, port: int, timeout: float) -> int:
    """The number of APIs that a broker lists, asked with its oldest request."""
    with socket.create_connection((host, port), timeout) as connection:
        # The timeout is for each wait; the response comes in one piece.
        connection.sendall(_REQUEST.pack(_REQUEST.size - 4, 18, 0, 1, 4, b"ping"))
        response = b""
        while len(response) < _RESPONSE.size:
            received = connection.recv(_RESPONSE.size - len(response))
            if not received:
                raise ConnectionError("the connection was closed")
            response += received
    _, correlation, error_code, count = _RESPONSE.unpack(response)
    if correlation != 1:
        raise ValueError("that is no Kafka")
    if error_code:
        raise ValueError(f"error code {error_code}")
    return int(count)
