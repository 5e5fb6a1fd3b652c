"""The commands that need a broker and nothing beside it.

`kohort.control.cli` makes them the command ``kohort``.

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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import click

from kohort.broker import telemetry
from kohort.broker.config import Config, ConfigError, to_text

if TYPE_CHECKING:
    from kohort.broker.server import Broker

F = TypeVar("F", bound=Callable[..., Any])
Beside = Callable[["Broker"], AbstractAsyncContextManager[str]]
"""Opens what is served beside a broker: its address while it is open. What keeps it
from opening is a `NoStart`."""

MAX_NODES = 100
"""More than any cluster that a test plays; each has a socket and timers."""
BOOTSTRAP_VARIABLE = "KOHORT_BOOTSTRAP_SERVERS"
OWN_VARIABLES = frozenset({"KOHORT_HTTP", "KOHORT_HTTP_TOKEN", BOOTSTRAP_VARIABLE})
"""Variables of the environment that options have, and no configuration keys."""

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


_OBJECTS_PER_COLLECTION = 20_000
"""New objects until the garbage collector looks for circles: some 2 MB."""

SERVE_OPTIONS = (
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="The address to listen on; 0.0.0.0 for all.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=9092,
        show_default=True,
        help="Of the first node, the next have the next ones; 0 takes free ones.",
    ),
    click.option(
        "--nodes",
        type=click.IntRange(1, MAX_NODES),
        default=1,
        show_default=True,
        help="How many brokers the cluster has.",
    ),
    click.option(
        "--data-dir",
        metavar="DIR",
        help="Keeps records, groups and offsets there; else they are in memory.",
    ),
    click.option(
        "--advertise",
        metavar="HOST:PORT",
        help="The address that clients are told to connect to, if it is another.",
    ),
    *CONFIG_OPTIONS,
    click.option(
        "--events",
        metavar="FILE",
        help="Appends what happens to groups to a file: JSON, one event per line.",
    ),
    click.option(
        "--events-heartbeats",
        is_flag=True,
        help="Makes each heartbeat an event, too.",
    ),
    click.option(
        "--label",
        "labels",
        metavar="KEY=VALUE",
        multiple=True,
        help="Names this run in each of its events; can be given again.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["auto", "pretty", "json"]),
        default="auto",
        show_default=True,
        help="auto is pretty on a terminal, and json elsewhere.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(telemetry.LEVELS),
        default="info",
        show_default=True,
    ),
)


class NoStart(Exception):  # noqa: N818 - it is no error of the program's
    """Why nothing is served; one line of text."""


def serve_options(command: F) -> F:
    """Gives a command the options that are `serve`'s arguments."""
    for option in reversed(SERVE_OPTIONS):
        command = option(command)
    return command


def serve(
    host: str,
    port: int,
    nodes: int,
    data_dir: str | None,
    advertise: str | None,
    file: str | None,
    sets: tuple[str, ...],
    events: str | None,
    events_heartbeats: bool,
    labels: tuple[str, ...],
    log_format: telemetry.Format,
    log_level: Literal["debug", "info", "warning", "error", "critical"],
    *,
    beside: Beside | None = None,
) -> NoReturn:
    """Serves until SIGTERM or SIGINT, and ends the process.

    Prints one line when it accepts connections; see docs/command-line.md.
    """
    telemetry.configure(log_format, log_level)
    config = _config(file, sets)
    _raise_descriptors()
    last = max(port, _advertised_port(advertise)) + nodes - 1
    if last > 65535:
        fail(f"--nodes {nodes}: ports end at 65535, and the last would be {last}", 2)
    from kohort.broker import loop  # noqa: PLC0415 - the other commands need no loop
    from kohort.broker.server import Broker  # noqa: PLC0415 - as above

    broker = Broker(
        config,
        host=host,
        port=port,
        advertise=advertise,
        nodes=nodes,
        data_dir=data_dir,
        labels=_labels(labels),
        events_heartbeats=events_heartbeats,
    )
    try:
        loop.run(_serve(broker, beside, events))
    except NoStart as why:
        fail(str(why), 1)
    sys.exit(0)


def _raise_descriptors() -> None:
    """Raises the limit on file descriptors; exits if it stays too low."""
    from kohort.broker import descriptors  # noqa: PLC0415 - the other commands need none

    most = descriptors.raise_limit()
    if most < descriptors.FEWEST:
        fail(
            f"{most} file descriptors (ulimit -n) are too few: a broker needs at "
            f"least {descriptors.FEWEST}",
            1,
        )


def _advertised_port(advertise: str | None) -> int:
    """The port of --advertise, which is wrong or right; 0 without one."""
    try:
        return 0 if advertise is None else address(advertise)[1]
    except ConfigError as error:
        fail(f"--advertise {error}", 2)


def _labels(given: tuple[str, ...]) -> dict[str, str]:
    """The labels of --label, each of which is wrong or right."""
    labels = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            fail(f"--label {text!r}: must be KEY=VALUE", 2)
        if not text.isprintable():
            # No UTF-8, or what a log line cannot show: JSON's readers would stumble.
            fail(f"--label {text!r}: must be text that can be printed", 2)
        labels[name] = value
    return labels


@asynccontextmanager
async def _written(broker: Broker, path: str) -> AsyncIterator[None]:
    """Writes events to a file, from before the start until after the stop."""
    from kohort.broker.events.views.jsonl import EventsFile  # noqa: PLC0415 - few do

    try:
        view = EventsFile(path, broker.events)
    except OSError as error:
        reason = error.strerror or error
        named = path or "a file without a name"
        raise NoStart(f"--events: cannot write to {named}: {reason}") from None
    view.start()
    try:
        yield
    finally:
        await view.close()


async def _serve(broker: Broker, beside: Beside | None, events: str | None) -> None:
    import asyncio  # noqa: PLC0415 - as above

    from kohort.protocol.records import crc_of  # noqa: PLC0415 - as above

    told = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            running.add_signal_handler(number, told.set)
        except NotImplementedError:  # Windows: Ctrl-C ends the process as it is
            break
    # Nothing of what a start makes is garbage, and groups that are loaded are many.
    gc.disable()
    async with AsyncExitStack() as opened:
        if events is not None:
            await opened.enter_async_context(_written(broker, events))
        await _start(broker)
        opened.push_async_callback(broker.stop)
        addresses = broker.bootstrap_servers
        if beside is not None:
            addresses += f" and {await opened.enter_async_context(beside(broker))}"
        click.echo(f"kohort accepts connections on {addresses} (pid {os.getpid()})")
        sys.stdout.flush()
        # The first Produce shall not wait for the checksum's library to be loaded.
        crc_of(b"")
        settling = asyncio.create_task(_settle(broker))
        await told.wait()
        settling.cancel()


async def _settle(broker: Broker) -> None:
    await broker.wait_until_loaded()
    # What is there now stays: a full collection need not look at it again.
    gc.freeze()
    # Most of what lives long here are events, and there is no circle in them: looking
    # for some at every 700th object would cost a few hundredths of the CPU.
    gc.set_threshold(_OBJECTS_PER_COLLECTION, 10, 10)
    gc.enable()


async def _start(broker: Broker) -> None:
    from kohort.broker.log.directory import DataDirError  # noqa: PLC0415 - as above
    from kohort.broker.log.store import StorageError  # noqa: PLC0415 - as above

    try:
        await broker.start()
    except (DataDirError, StorageError) as error:
        raise NoStart(str(error)) from None
    except OSError as error:
        # Nodes have their ports once they listen, one after the other.
        listening = sum(node.port > 0 for node in broker.cluster.nodes.values())
        port = broker.port and broker.port + listening
        taken = "--port 0 takes a free one"
        raise NoStart(why_not(broker.host, port, error, taken)) from None


def why_not(host: str, port: int, error: OSError, if_taken: str) -> str:
    """Why an address cannot be listened on, and what to do if it is taken."""
    where = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is taken; {if_taken}"
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
    return f"{where}: {reason}"


@click.command()
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


@click.command()
@click.option(
    "--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True
)
@click.option("--timeout", metavar="SECONDS", default=2.0, show_default=True)
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


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--group", metavar="GROUP", help="Shows this one only.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def inspect(directory: Path, group: str | None, *, as_json: bool) -> None:
    """Prints the groups and offsets in a data directory, kohort's or Kafka's.

    DIR may also be one partition's folder, or one segment. A broker may be running
    on it. Exits 1 if something in it is damaged.
    """
    from kohort.broker import inspection  # noqa: PLC0415 - reads more than commands do

    try:
        code = inspection.inspect(
            directory, group=group, as_json=as_json, out=sys.stdout
        )
    except inspection.InspectError as error:
        fail(str(error), 1)
    sys.exit(code)


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def verify(directory: Path, *, as_json: bool) -> None:
    """Checks every file of a data directory, kohort's or Kafka's; changes nothing.

    DIR may also be one partition's folder. No broker may be running on it. Prints the
    records that are damaged or missing, and the effects of a start of the broker. Exits
    0 if all is sound, 1 if anything is damaged, 2 if it cannot be verified.
    """
    from kohort.broker import (  # noqa: PLC0415 - reads more than commands do
        verdict,
        verification,
    )

    # A start is rehearsed; the verdict has its messages.
    telemetry.configure(level="critical")
    try:
        with _reading(directory) as progress:
            found = verification.verify(directory, progress)
    except verification.VerifyError as error:
        fail(str(error), 2)
    verdict.write(found, as_json=as_json, out=sys.stdout)
    sys.exit(1 if found.is_damaged else 0)


@contextmanager
def _reading(directory: Path) -> Iterator[Callable[[str, int], None]]:
    """Shows the progress of reading all segments, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    size = sum(log.stat().st_size for log in directory.rglob("*.log"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=size)
        yield lambda name, count: shown.update(task, advance=count, description=name)


@click.command("import")
@click.argument("source", metavar="KAFKA_DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="Imports this topic only; can be given again. __consumer_offsets is one.",
)
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
def import_(
    source: Path,
    target: Path,
    topics: tuple[str, ...],
    file: str | None,
    sets: tuple[str, ...],
) -> None:
    """Makes a data directory DIR out of what Apache Kafka has written.

    KAFKA_DIR is a log directory of a broker that is stopped, or a copy of one, or
    the folder of one partition. It is not changed.
    """
    from kohort.broker import importing  # noqa: PLC0415 - reads more than commands do
    from kohort.broker.log.directory import DataDirError  # noqa: PLC0415 - as above
    from kohort.broker.log.store import StorageError  # noqa: PLC0415 - as above

    config = _config(file, sets)

    def progress(folder: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{folder}", err=True, nl=False)

    try:
        imported = importing.import_kafka(
            source,
            target,
            config,
            topics=topics,
            now_ms=int(time.time() * 1000),
            progress=progress,
        )
    except (DataDirError, StorageError, OSError) as error:
        fail(str(error), 1)
    for each in imported:
        click.echo(
            f"{each.topic}: {each.found} of {each.partitions} partitions, "
            f"{each.records} offsets"
        )
    click.echo(f"kohort serve --data-dir {target} serves it")
    damaged = [row for each in imported for row in each.damaged]
    for partition, size in damaged:
        text = f"kohort: {partition} is damaged: its last {size} bytes were left out"
        click.echo(text, err=True)
    sys.exit(1 if damaged else 0)


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
    environment = {n: v for n, v in os.environ.items() if n not in OWN_VARIABLES}
    try:
        return Config.load(sets, file, environment)
    except ConfigError as error:
        fail(str(error), 2)


def address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port"; ConfigError if it is something else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r}: must be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def fail(text: str, code: int) -> NoReturn:
    """Ends the command with one line on stderr, and this exit code."""
    click.echo(f"kohort: {text}", err=True)
    sys.exit(code)
