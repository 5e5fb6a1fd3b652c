"""The command ``kohort ping``: sends one ApiVersions request, without a client."""

from __future__ import annotations

import socket
import struct
import time

import click

from kohort.broker.config import ConfigError
from kohort.broker.config_started import parse_address
from kohort.control.terminal import BOOTSTRAP_VARIABLE, examples, fail

# ApiVersions v0 with a header v1: size, key 18, version 0, correlation id, client id.
_REQUEST = struct.Struct(">ihhih4s")
# The start of the response: size, correlation id, error code, number of APIs.
_RESPONSE = struct.Struct(">iihi")


@click.command()
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT",
    envvar=BOOTSTRAP_VARIABLE,
    show_envvar=True,
    default="127.0.0.1:9092",
    help="The broker.",
)
@click.option("--timeout", metavar="SECONDS", default=2.0, help="Seconds to wait.")
@examples("kohort ping", "kohort ping --bootstrap-server 127.0.0.1:9092")
def ping(bootstrap: str, timeout: float) -> None:
    """Checks that a broker answers.

    It asks for the API versions. Exits 0 if the broker answers, otherwise 1.
    """
    # Of several, the first: that is where a client begins.
    bootstrap = bootstrap.partition(",")[0].strip()
    try:
        host, port = parse_address(bootstrap)
    except ConfigError as error:
        fail(f"--bootstrap-server {error}", 2)
    start = time.perf_counter()
    try:
        count = _api_count(host, port, timeout)
    except OSError as error:
        advice = ""
        if isinstance(error, ConnectionRefusedError):
            advice = "; `kohort serve` starts a broker"
        fail(f"{bootstrap} does not answer: {error.strerror or error}{advice}", 1)
    except (struct.error, ValueError) as error:
        fail(f"{bootstrap} answers, but {error}", 1)
    elapsed_ms = (time.perf_counter() - start) * 1000
    click.echo(f"{bootstrap} answers in {elapsed_ms:.1f} ms: {count} APIs")


def _api_count(host: str, port: int, timeout: float) -> int:
    """The number of APIs that a broker lists, asked with its oldest request."""
    with socket.create_connection((host, port), timeout) as connection:
        # The timeout applies to each wait; the response arrives in one piece.
        connection.sendall(_REQUEST.pack(_REQUEST.size - 4, 18, 0, 1, 4, b"ping"))
        response = b""
        while len(response) < _RESPONSE.size:
            received = connection.recv(_RESPONSE.size - len(response))
            if not received:
                raise ConnectionError("the connection was closed")
            response += received
    _, correlation, error_code, count = _RESPONSE.unpack(response)
    if correlation != 1:
        raise ValueError("does not speak Kafka's protocol")
    if error_code:
        raise ValueError(f"with error code {error_code}")
    return int(count)
