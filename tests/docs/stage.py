"""The stage of the pages' Python blocks: a broker, a group, services.

A block may use these names without making them:

    kohort           the fixture: a broker in a thread of its own
    group            its group "billing", Stable, with members billing-1 and billing-2
    broker           a broker on the block's event loop
    billing          its group "billing", Stable, with the same two members
    service          service(bootstrap_servers, client_id="billing-1", handled=...), a
                     coroutine that consumes "orders", and awaits handled(record)
    start_consumer   start_consumer(bootstrap_servers): the same as a process

Both brokers have a topic "orders" with 60 records in 3 partitions.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest
from tests.commands import KOHORT, environment
from tests.docs.blocks import Block

from kohort.broker.server import Broker
from kohort.client import Admin, Consumer, NewTopic, Producer, config
from kohort.control.group import Group
from kohort.testing import Kohort, running

ADDRESSES: Final = ("127.0.0.1:9092", "localhost:9092")
MEMBERS: Final = ("billing-1", "billing-2")


Handled = Callable[[Any], Awaitable[object]]


def consumer(bootstrap_servers: str, client_id: str, **settings: Any) -> Consumer:
    """A member of the group "billing" that consumes "orders"."""
    return Consumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        client_id=client_id,
        heartbeat_interval_ms=50,
        **{
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 50,
            **settings,
        },
    )


async def service(
    bootstrap_servers: str, client_id: str = MEMBERS[0], handled: Handled | None = None
) -> None:
    """Consumes the topic "orders" in the group "billing"."""
    async with consumer(bootstrap_servers, client_id) as member:
        while True:
            for records in (await member.getmany(timeout_ms=50)).values():
                for record in records:
                    if handled is not None:
                        await handled(record)


def start_consumer(bootstrap_servers: str) -> subprocess.Popen[bytes]:
    """Starts a process that consumes the topic "orders" in the group "billing"."""
    return subprocess.Popen(
        [*KOHORT, "consume", "orders", "--group", "billing"],
        env=environment(KOHORT_BOOTSTRAP_SERVERS=bootstrap_servers),
        stderr=subprocess.DEVNULL,
    )


def options(block: Block) -> dict[str, Any]:
    """Arguments of `Broker`, as the block's comment has them."""
    words = dict(word.split("=") for word in block.broker.split())
    found: dict[str, Any] = {"watch_fetches": True}
    if "nodes" in words:
        found["nodes"] = int(words.pop("nodes"))
    if "clock" in words:
        found["clock"] = words.pop("clock")
    return found | {"config": {"group.initial.rebalance.delay.ms": "0"} | words}


async def fill(bootstrap_servers: str) -> None:
    """Creates "orders", with 60 records."""
    async with Admin(bootstrap_servers=bootstrap_servers) as admin:
        (await admin.create_topics([NewTopic("orders", num_partitions=3)])).check()
    async with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(60):
            await producer.send("orders", b"%d" % number, partition=number % 3)


async def begin(stack: contextlib.AsyncExitStack, bootstrap_servers: str) -> None:
    """Begins the transaction of "orders-1", which is open until the stack's end."""
    producer = Producer(
        bootstrap_servers=bootstrap_servers,
        transactional_id="orders-1",
        client_id="app",
    )
    await stack.enter_async_context(producer)
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"60", partition=0)


@contextlib.asynccontextmanager
async def names(wanted: set[str], block: Block) -> AsyncIterator[dict[str, Any]]:
    """The names that a block uses."""
    found: dict[str, Any] = {"service": service, "start_consumer": start_consumer}
    async with contextlib.AsyncExitStack() as stack:
        if wanted & {"broker", "billing"}:
            broker = await stack.enter_async_context(Broker(**options(block)))
            await fill(broker.bootstrap_servers)
            found |= {"broker": broker, "billing": Group(broker, "billing")}
            if "billing" in block.text:
                await join(stack, broker.bootstrap_servers)
                await found["billing"].until(state="Stable", members=len(MEMBERS))
        else:
            kohort = Kohort(Broker(**options(block)))
            stack.callback(kohort.close)
            await fill(kohort.bootstrap_servers)
            found |= {"kohort": kohort, "group": kohort.group("billing")}
            if "group" in wanted:
                await join(stack, kohort.bootstrap_servers)
                await found["group"].stable(members=len(MEMBERS))
        yield found


async def join(stack: contextlib.AsyncExitStack, bootstrap_servers: str) -> None:
    """Starts the members."""
    for name in MEMBERS:
        await stack.enter_async_context(running(service(bootstrap_servers, name)))


def connect_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has kohort's clients connect to this address by default."""
    for cls in (config.ConsumerConfig, config.ProducerConfig, config.AdminConfig):
        defaults = cls.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "bootstrap_servers", (address,))
