"""The command ``kohort serve``: a broker in this process, until a signal ends it.

1. `serve` reads the options, and opens the HTTP port's modules if they are wanted.
2. `_serve` opens the events file, starts the broker, opens HTTP, and prints one line.
3. SIGTERM or SIGINT closes them in the opposite order.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from kohort.broker import telemetry
from kohort.broker.config import ConfigError
from kohort.control.commands.config import CONFIG_OPTIONS, load_config
from kohort.control.terminal import address, fail, parse_pairs, token_option, why_not

if TYPE_CHECKING:
    from kohort.broker.server import Broker

OpenHttp = Callable[["Broker"], AbstractAsyncContextManager[str]]
"""Opens the HTTP port of a broker, raises `StartError`; its URL while it is open."""

MAX_NODES = 100
"""More than any cluster that a test plays; each has a socket and timers."""

_OBJECTS_PER_COLLECTION = 20_000
"""New objects until the garbage collector looks for circles: some 2 MB."""


class StartError(Exception):
    """The broker cannot be served; says why in one line."""


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    help="The address to listen on; 0.0.0.0 for all.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    help="Port of the first node; further nodes use the following ports. 0 picks free"
    " ports.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, MAX_NODES),
    default=1,
    help="Brokers of the cluster.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Keeps records, groups and offsets there; else they are in memory.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The address for clients to connect to, if it differs.",
)
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@click.option(
    "--events",
    metavar="FILE",
    help="Appends the events of groups to a file: JSON, one event per line.",
)
@click.option(
    "--events-heartbeats",
    is_flag=True,
    help="Publishes an event for each heartbeat, too.",
)
@click.option(
    "--label",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    help="Names this run in each of its events; can be given again.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "pretty", "json"]),
    default="auto",
    help="auto is pretty on a terminal and json elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(telemetry.LEVELS),
    default="info",
)
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Opens an HTTP port, for why, top, cluster, /timeline, /events and /metrics; "
    "on loopback if it says no host; 0 takes a free one.",
)
@token_option
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
    http: str | None,
    http_token: str | None,
) -> NoReturn:
    """Serves until SIGTERM or SIGINT.

    Prints one line when it accepts connections. Logs go to stderr. Of a key that
    is set more than once, --set overrides the environment (KOHORT_GROUP_MAX_SIZE for
    group.max.size), and the environment the file.
    """
    open_http = None if http is None else _http_opener(http, http_token)
    telemetry.configure(log_format, log_level)
    config = load_config(file, sets)
    _raise_descriptors()
    last = max(port, _advertised_port(advertise)) + nodes - 1
    if last > 65535:
        fail(f"--nodes {nodes}: ports end at 65535, and the last would be {last}", 2)
    from kohort.broker import loop
    from kohort.broker.server import Broker

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
        loop.run(_serve(broker, open_http, events))
    except StartError as why:
        fail(str(why), 1)
    sys.exit(0)


def _http_opener(where: str, token: str | None) -> OpenHttp:
    """Opens the HTTP port of a broker once it has started."""
    # aiohttp takes longer to load than all the rest.
    from kohort.control.http.guard import ControlError, check_door
    from kohort.control.http.server import Control

    try:
        host, port = address(where if ":" in where else f"127.0.0.1:{where}")
        check_door(host, token)
    except ConfigError:
        fail(f"--http {where!r}: must be a port or host:port", 2)
    except ControlError as error:
        fail(str(error), 2)

    @asynccontextmanager
    async def open_http(broker: Broker) -> AsyncIterator[str]:
        control = Control(broker, host, port, token=token)
        try:
            await control.start()
        except OSError as error:
            free = "--http 0 takes a free one"
            raise StartError(why_not(host, port, error, free)) from None
        try:
            yield control.url
        finally:
            await control.stop()

    return open_http


def _raise_descriptors() -> None:
    """Raises the limit on file descriptors; exits if it stays too low."""
    from kohort.broker import descriptors

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
    pairs = parse_pairs("--label", given)
    for text in given:
        if not text.isprintable():
            # Invalid UTF-8 or control characters break log lines and JSON's readers.
            fail(f"--label {text!r}: must be text that can be printed", 2)
    return dict(pairs)


@asynccontextmanager
async def _written(broker: Broker, path: str) -> AsyncIterator[None]:
    """Writes events to a file, from before the start until after the stop."""
    from kohort.broker.events.views.jsonl import EventsFile

    try:
        view = EventsFile(path, broker.events)
    except OSError as error:
        reason = error.strerror or error
        named = path or "a file without a name"
        raise StartError(f"--events: cannot write to {named}: {reason}") from None
    view.start()
    try:
        yield
    finally:
        await view.close()


async def _serve(
    broker: Broker, open_http: OpenHttp | None, events: str | None
) -> None:
    import asyncio

    from kohort.broker import loop
    from kohort.protocol.records import crc_of

    stopping = asyncio.Event()
    loop.on_signals(stopping.set)
    # A start makes no garbage, and may load many groups.
    gc.disable()
    async with AsyncExitStack() as opened:
        if events is not None:
            await opened.enter_async_context(_written(broker, events))
        await _start(broker)
        opened.push_async_callback(broker.stop)
        addresses = broker.bootstrap_servers
        if open_http is not None:
            addresses += f" and {await opened.enter_async_context(open_http(broker))}"
        click.echo(f"kohort accepts connections on {addresses} (pid {os.getpid()})")
        sys.stdout.flush()
        # The first Produce shall not wait for the checksum's library to be loaded.
        crc_of(b"")
        settling = asyncio.create_task(_settle(broker))
        await stopping.wait()
        settling.cancel()


async def _settle(broker: Broker) -> None:
    await broker.wait_until_loaded()
    # Objects of the start are permanent: full collections skip them from now on.
    gc.freeze()
    # Most long-lived objects here are events, which have no reference cycles: a
    # collection at every 700th object would cost a few hundredths of the CPU.
    gc.set_threshold(_OBJECTS_PER_COLLECTION, 10, 10)
    gc.enable()


async def _start(broker: Broker) -> None:
    from kohort.broker.log.directory import DataDirError
    from kohort.broker.log.store import StorageError

    try:
        await broker.start()
    except (DataDirError, StorageError) as error:
        raise StartError(str(error)) from None
    except OSError as error:
        # Nodes have their ports once they listen, one after the other.
        listening = sum(node.port > 0 for node in broker.cluster.nodes.values())
        port = broker.port and broker.port + listening
        taken = "--port 0 takes a free one"
        raise StartError(why_not(broker.host, port, error, taken)) from None
