"""The command ``kohort``.

Exit codes: 0 done, 1 it did not work, 2 the command or the configuration is wrong.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import struct
import sys
import time
from typing import Literal, NoReturn

import click

from kohort.broker import telemetry
from kohort.broker.config import Config, ConfigError, to_text

CONFIG_OPTIONS = (
    click.option("--config", "file", metavar="FILE", help="A TOML file of keys."),
    click.option(
        "--set",
        "sets",
        metavar="KEY=VALUE",
        multiple=True,
        help="Sets one of Kafka's configuration keys; can be given again.",
    ),
)


def main() -> None:
    """Runs the command; the same for ``kohort`` and ``python -m kohort``."""
    cli(prog_name="kohort")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kohort", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka broker for testing consumer groups."""


@cli.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="0 takes a free port.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The address that clients are told to connect to, if it is another.",
)
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@click.option(
    "--log-format",
    type=click.Choice(["auto", "pretty", "json"]),
    default="auto",
    show_default=True,
    help="auto is pretty on a terminal, and json elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(telemetry.LEVELS),
    default="info",
    show_default=True,
)
def serve(
    host: str,
    port: int,
    advertise: str | None,
    file: str | None,
    sets: tuple[str, ...],
    log_format: telemetry.Format,
    log_level: Literal["debug", "info", "warning", "error", "critical"],
) -> None:
    """Serves until SIGTERM or SIGINT.

    Prints one line when it accepts connections. Logs go to stderr. Of a key that
    is set more than once, --set goes before the environment (KOHORT_GROUP_MAX_SIZE
    for group.max.size), and that before the file.
    """
    telemetry.configure(log_format, log_level)
    config = _config(file, sets)
    if advertise is not None:
        try:
            _address(advertise)
        except ConfigError as error:
            _fail(f"--advertise {error}", 2)
    from kohort.broker import loop  # noqa: PLC0415 - the other commands need no loop

    sys.exit(loop.run(_serve(config, host, port, advertise)))


async def _serve(config: Config, host: str, port: int, advertise: str | None) -> int:
    import asyncio  # noqa: PLC0415 - as above

    from kohort.broker.server import Broker  # noqa: PLC0415 - as above
    from kohort.protocol.records import crc_of  # noqa: PLC0415 - as above

    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            running.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows: Ctrl-C ends the process as it is
            break
    broker = Broker(config, host=host, port=port, advertise=advertise)
    try:
        await broker.start()
    except OSError as error:
        click.echo(f"kohort: {_why_not(host, port, error)}", err=True)
        return 1
    # What is there now stays: a full collection need not look at it again.
    gc.freeze()
    click.echo(
        f"kohort accepts connections on {broker.bootstrap_servers} (pid {os.getpid()})"
    )
    sys.stdout.flush()
    # The first Produce shall not wait for the checksum's library to be loaded.
    crc_of(b"")
    await stop.wait()
    await broker.stop()
    return 0


def _why_not(host: str, port: int, error: OSError) -> str:
    where = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is taken; --port 0 takes a free one"
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
    return f"{where}: {reason}"


@cli.command()
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@click.option("--all", "everything", is_flag=True, help="With keys of no effect yet.")
def config(file: str | None, sets: tuple[str, ...], everything: bool) -> None:
    """Lists the keys that have an effect, and the values they would have."""
    found = _config(file, sets)
    entries = [found.entry(name) for name in found]
    for entry in entries:
        if everything or entry.key.used:
            value = "" if entry.value is None else entry.value
            default = to_text(entry.key.default)
            changed = f"  # default: {default}" if value != (default or "") else ""
            click.echo(f"{entry.key.name}={value}{changed}")


@cli.command()
@click.option(
    "--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True
)
@click.option("--timeout", metavar="SECONDS", default=2.0, show_default=True)
def ping(bootstrap: str, timeout: float) -> None:
    """Asks a broker for its API versions; exits 0 if it answers, else 1."""
    try:
        host, port = _address(bootstrap)
    except ConfigError as error:
        _fail(f"--bootstrap {error}", 2)
    start = time.perf_counter()
    try:
        count = _api_count(host, port, timeout)
    except (OSError, struct.error, ValueError) as error:
        _fail(f"{bootstrap} does not answer: {error}", 1)
    elapsed_ms = (time.perf_counter() - start) * 1000
    click.echo(f"{bootstrap} answers in {elapsed_ms:.1f} ms: {count} APIs")


# ApiVersions v0 with a header v1: size, key 18, version 0, correlation id, client id.
_ASK = struct.Struct(">ihhih4s")
# Of the answer: size, correlation id, error code, how many APIs.
_ANSWER = struct.Struct(">iihi")


def _api_count(host: str, port: int, timeout: float) -> int:
    """How many APIs a broker says it has, by any broker's oldest request."""
    with socket.create_connection((host, port), timeout) as connection:
        # The timeout is for each wait; the answer comes in one piece.
        connection.sendall(_ASK.pack(_ASK.size - 4, 18, 0, 1, 4, b"ping"))
        answer = b""
        while len(answer) < _ANSWER.size:
            received = connection.recv(_ANSWER.size - len(answer))
            if not received:
                raise ConnectionError("the connection was closed")
            answer += received
    _, correlation, error_code, count = _ANSWER.unpack(answer)
    if correlation != 1:
        raise ValueError("that is no Kafka")
    if error_code:
        raise ValueError(f"error code {error_code}")
    return int(count)


def _config(file: str | None, sets: tuple[str, ...]) -> Config:
    try:
        return Config.load(sets, file, os.environ)
    except ConfigError as error:
        _fail(str(error), 2)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r}: must be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _fail(text: str, code: int) -> NoReturn:
    click.echo(f"kohort: {text}", err=True)
    sys.exit(code)
