"""The command ``kohort serve``: runs a broker in this process, until a signal.

1. `serve` reads the options, and loads the modules of the HTTP port if it is used.
2. `served` opens the events file, starts the broker and opens the HTTP port.
3. `_serve` prints one line with the addresses.
4. SIGTERM, SIGINT or the end of stdin closes them in reverse order.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from kohort.broker import telemetry
from kohort.broker.config import ConfigError
from kohort.broker.config_started import parse_address
from kohort.control.commands.config import CONFIG_OPTIONS, load_config
from kohort.control.terminal import (
    examples,
    fail,
    parse_pairs,
    token_option,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker
    from kohort.control.serving import OpenHttp

MAX_NODES = 100
"""More than a test needs. Each node has a socket and timers."""

nodes_option = click.option(
    "--nodes",
    type=click.IntRange(1, MAX_NODES),
    default=1,
    help="Number of brokers in the cluster.",
)
partitions_option = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Partitions of automatically created topics (num.partitions).",
)
faults_option = click.option(
    "--faults",
    metavar="FILE",
    help="A TOML file with faults: [[fault]] tables with api, error, delay_ms, ...",
)
clock_option = click.option(
    "--clock",
    type=click.Choice(["real", "manual"]),
    default="real",
    help="With manual, the time of groups and retention stands still until it is moved:"
    " kohort clock advance.",
)


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on; 0.0.0.0 for all.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    help="Port of the first node; further nodes use the following ports. 0 picks free"
    " ports.",
)
@nodes_option
@partitions_option
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Keeps records, groups and offsets in this folder; otherwise in memory.",
)
@click.option(
    "--advertise",
    metavar="[LISTEN_PORT=]HOST:PORT",
    multiple=True,
    help="Address that clients connect to, if it is not the address listened on."
    " With LISTEN_PORT= it opens a further port, whose clients get this address. Can be"
    " given more than once.",
)
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@click.option(
    "--events",
    metavar="FILE",
    help="Appends the events of groups to this file: JSON, one event per line.",
)
@click.option(
    "--events-heartbeats",
    is_flag=True,
    help="Also publishes an event for each heartbeat.",
)
@clock_option
@faults_option
@click.option(
    "--label",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    help="A label of this run, in each event. Can be given more than once.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "pretty", "json"]),
    default="auto",
    help="auto is pretty on a terminal, otherwise json.",
)
@click.option(
    "--log-level",
    type=click.Choice(telemetry.LEVELS),
    default="info",
    help="Log lines below this level are dropped.",
)
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Opens an HTTP port for kohort why, top, group, faults, clock, cluster and for"
    " the timeline page. On loopback by default; 0 picks a free port.",
)
@token_option
@click.option(
    "--until-stdin-closes",
    is_flag=True,
    help="Also stops at the end of stdin, so that it ends with the program that started"
    " it, even if that is killed.",
)
@examples(
    "kohort serve --http 9080",
    "kohort serve --set group.initial.rebalance.delay.ms=0 --port 0",
    "kohort serve --nodes 3 --data-dir data",
    "kohort serve --advertise 127.0.0.1:9092 --advertise 29092=kohort:29092",
)
def serve(
    host: str,
    port: int,
    nodes: int,
    partitions: int | None,
    data_dir: str | None,
    advertise: tuple[str, ...],
    file: str | None,
    sets: tuple[str, ...],
    events: str | None,
    events_heartbeats: bool,
    clock: Literal["real", "manual"],
    faults: str | None,
    labels: tuple[str, ...],
    log_format: telemetry.Format,
    log_level: Literal["debug", "info", "warning", "error", "critical"],
    http: str | None,
    http_token: str | None,
    until_stdin_closes: bool,
) -> NoReturn:
    """Starts a broker; it runs until Ctrl-C or SIGTERM.

    Prints one line when it accepts connections. Logs go to stderr. Settings come from
    --set, from environment variables (KOHORT_GROUP_MAX_SIZE sets group.max.size) and
    from the --config file; --set overrides the environment, which overrides the file.
    """
    from kohort.control.serving import (
        StartError,
        http_opener,
        load_faults,
        raise_descriptors,
    )

    open_http = None if http is None else http_opener(http, http_token)
    telemetry.configure(log_format, log_level)
    config = load_config(file, with_partitions(sets, partitions))
    raise_descriptors()
    main, listeners, highest = _listeners(advertise)
    last = max(port, highest) + nodes - 1
    if last > 65535:
        fail(f"--nodes {nodes}: ports end at 65535, and the last would be {last}", 2)
    from kohort.broker import loop
    from kohort.broker.server import Broker

    broker = Broker(
        config,
        host=host,
        port=port,
        advertise=main,
        listeners=listeners,
        nodes=nodes,
        data_dir=data_dir,
        labels=_labels(labels),
        events_heartbeats=events_heartbeats,
        clock=clock,
        watch_fetches=http is not None,
    )
    load_faults(broker, faults)
    try:
        loop.run(_serve(broker, open_http, events, until_stdin_closes))
    except StartError as why:
        fail(str(why), 1)
    sys.exit(0)


def with_partitions(sets: tuple[str, ...], partitions: int | None) -> tuple[str, ...]:
    """The settings of --set, with that of --partitions."""
    return sets if partitions is None else (*sets, f"num.partitions={partitions}")


def _listeners(given: tuple[str, ...]) -> tuple[str | None, dict[int, str], int]:
    """The addresses of --advertise. Ends the command if one is invalid.

    Returns:
        That of --port, if it has one; the others by their ports; the highest port.
    """
    main, listeners, highest = None, dict[int, str](), 0
    for text in given:
        listen, separator, address = text.rpartition("=")
        try:
            highest = max(highest, parse_address(address)[1])
            port = parse_address(f"*:{listen}")[1] if separator else 0
        except ConfigError:
            fail(f"--advertise {text!r}: must be host:port, or port=host:port", 2)
        if not separator and main is None:
            main = address
        elif port and port not in listeners:
            listeners[port] = address
            highest = max(highest, port)
        else:
            why = "one address per port; write port=host:port for a further one"
            fail(f"--advertise {text!r}: {why}", 2)
    return main, listeners, highest


def _labels(given: tuple[str, ...]) -> dict[str, str]:
    """The labels of --label. Ends the command if one is invalid."""
    pairs = parse_pairs("--label", given)
    for text in given:
        if not text.isprintable():
            # Invalid UTF-8 and control characters break log lines and readers of JSON.
            fail(f"--label {text!r}: must be printable text", 2)
    return dict(pairs)


async def _serve(
    broker: Broker,
    open_http: OpenHttp | None,
    events: str | None,
    until_stdin_closes: bool,
) -> None:
    import asyncio

    from kohort.broker import loop
    from kohort.control.serving import served

    stopping = asyncio.Event()
    loop.on_signals(stopping.set)
    if until_stdin_closes:
        _on_end_of_stdin(stopping.set)
    async with served(broker, open_http, events) as at:
        addresses = at.bootstrap_servers
        if at.url is not None:
            addresses += f" and {at.url}"
        click.echo(f"kohort accepts connections on {addresses} (pid {os.getpid()})")
        sys.stdout.flush()
        await stopping.wait()


def _on_end_of_stdin(callback: Callable[[], object]) -> None:
    """Calls `callback` from the running loop when stdin has ended.

    In a thread, because a loop cannot watch a stdin that is a file.
    """
    import asyncio

    running = asyncio.get_running_loop()

    def wait() -> None:
        # Not sys.stdin: a read that holds its lock would break the interpreter's exit.
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        # The broker may have stopped before.
        with suppress(RuntimeError):
            running.call_soon_threadsafe(callback)

    threading.Thread(target=wait, name="stdin", daemon=True).start()
