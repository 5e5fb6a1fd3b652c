"""A broker that commands serve: with its HTTP port, and a file of its events."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker import telemetry
from kohort.broker.config import ConfigError
from kohort.broker.config_started import parse_address
from kohort.broker.dispatch import HANDLERS
from kohort.control.terminal import fail, why_not

if TYPE_CHECKING:
    from kohort.broker.server import Broker

OpenHttp = Callable[["Broker"], AbstractAsyncContextManager[str]]
"""Opens the HTTP port of a broker, raises `StartError`; its URL while it is open."""

_OBJECTS_PER_COLLECTION = 20_000
"""New objects until the garbage collector looks for circles: some 2 MB."""


_FIRST_ANSWER_S = 0.1
"""Time for the first client's connection; group requests come after other ones."""
_LOADING_PAUSE_S = 0.005
"""A module takes a millisecond or two."""
_LOADED_LATER = (
    "kohort.protocol.records",
    "kohort.broker.log.partition",
    "kohort.broker.coordinator.classic.group",
    "kohort.broker.coordinator.notices",
    "kohort.broker.coordinator.classic.notices",
    "kohort.broker.coordinator.classic.rebalance",
    "kohort.broker.coordinator.coordinator",
    "kohort.broker.runtime.driver",
    "kohort.broker.shards.group_driver",
    "kohort.broker.shards.group_records",
    "kohort.broker.runtime.shard",
    "kohort.broker.shards.group_shard",
    "kohort.broker.events.render",
)
"""Modules of topics and groups, each after those that it imports: a few ms each."""
_LOADED_LAST = (
    "kohort.protocol.transactions_log",
    "kohort.broker.transactions.ending",
    "kohort.broker.transactions.coordinator",
    "kohort.broker.shards.transaction_driver",
    "kohort.broker.shards.transaction_shard",
    "kohort.broker.log.compaction",
    # Used in requests by name.
    "encodings.utf_16_be",
    "cramjam",
    "lz4.frame",
    "lz4.block",
    "zstandard",
)
"""Modules of transactions, single requests and rounds, and compression."""


class StartError(Exception):
    """The broker cannot be served; one line says why."""


class Served(NamedTuple):
    """Addresses of a broker.

    Attributes:
        bootstrap_servers: "host:port" of each node.
        url: the URL of its HTTP port; None without one.
    """

    bootstrap_servers: str
    url: str | None


def raise_descriptors() -> None:
    """Raises the limit on file descriptors; exits if it stays too low."""
    from kohort.broker import descriptors

    most = descriptors.raise_limit()
    if most < descriptors.FEWEST:
        fail(
            f"{most} file descriptors (ulimit -n) are too few: a broker needs at "
            f"least {descriptors.FEWEST}",
            1,
        )


def load_faults(broker: Broker, path: str | None) -> None:
    """Adds the faults of a plan, if there is one; ends the command if it is wrong."""
    if path is None:
        return
    from kohort.broker.faults.rule import FaultError

    try:
        broker.faults.load(path)
    except FaultError as error:
        fail(f"--faults {error}", 2)


def http_opener(where: str, token: str | None) -> OpenHttp:
    """Opens the HTTP port of a broker once it has started; ends the command if wrong.

    Args:
        where: ``--http``: a port, or "host:port".
        token: ``--http-token``.
    """
    # aiohttp takes longer to load than all the rest.
    from kohort.control.http.guard import ControlError, check_door
    from kohort.control.http.server import Control

    try:
        host, port = parse_address(where if ":" in where else f"127.0.0.1:{where}")
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
            free = "--http 0 picks a free one"
            raise StartError(why_not(host, port, error, free)) from None
        try:
            yield control.url
        finally:
            await control.stop()

    return open_http


@asynccontextmanager
async def served(
    broker: Broker, open_http: OpenHttp | None, events: str | None
) -> AsyncIterator[Served]:
    """A broker that accepts connections; it stops at the end.

    Args:
        broker: the broker, not started yet.
        open_http: opens its HTTP port; None for none.
        events: the file that its events are appended to, from before the start until
            after the stop; None for none.

    Raises:
        StartError: at the beginning.
    """
    # A start makes no garbage, and may load many groups.
    gc.disable()
    # The first line of the log is written in the first JoinGroup.
    telemetry.load()
    async with AsyncExitStack() as opened:
        if events is not None:
            await opened.enter_async_context(_written(broker, events))
        await _start(broker)
        opened.push_async_callback(broker.stop)
        url = None
        if open_http is not None:
            url = await opened.enter_async_context(open_http(broker))
        settling = asyncio.create_task(_settle(broker))
        opened.callback(settling.cancel)
        yield Served(broker.bootstrap_servers, url)


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


async def load_the_rest() -> None:
    """Loads the modules of requests, one at a time, so that none is loaded by them.

    The first request that needs some would otherwise load all of them at once. A
    request that comes meanwhile has most of the time.
    """
    for module in (*_LOADED_LATER, *HANDLERS.values(), *_LOADED_LAST):
        if module not in sys.modules:
            importlib.import_module(module)
            await asyncio.sleep(_LOADING_PAUSE_S)
    from kohort.protocol.records import crc_of

    # Loads the checksum's library.
    crc_of(b"")


async def _settle(broker: Broker) -> None:
    await asyncio.sleep(_FIRST_ANSWER_S)
    await load_the_rest()
    await broker.wait_until_loaded()
    # Objects of the start are permanent: full collections skip them from now on.
    gc.freeze()
    # Most long-lived objects here are events, which have no reference cycles: a
    # collection at every 700th object would cost a few hundredths of the CPU.
    gc.set_threshold(_OBJECTS_PER_COLLECTION, 10, 10)
    gc.enable()


async def _start(broker: Broker) -> None:
    from kohort.broker.log.store import DataDirError, StorageError

    try:
        await broker.start()
    except (DataDirError, StorageError) as error:
        raise StartError(str(error)) from None
    except OSError as error:
        host, port = broker.host, broker.port
        if error.filename is not None:
            host, port = parse_address(error.filename)
        taken = "--port 0 picks a free one"
        raise StartError(why_not(host, port, error, taken)) from None
