"""Start and close, which are the same for all clients."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.client.fake_broker import alone
from tests.client.stage import PATIENCE, consumer, fill, take

import kohort.client
from kohort.broker.server import Broker
from kohort.client import Admin, Consumer, ConsumerConfig, Producer
from kohort.client.errors import ClosedError, ConfigError

CALLS: dict[Any, Callable[[Any], Awaitable[object]]] = {
    Admin: lambda admin: admin.list_topics(),
    Consumer: lambda consumer: consumer.getmany(),
    Producer: lambda producer: producer.send("t", b"v"),
}
every_client = pytest.mark.parametrize("client", CALLS)


@every_client
async def test_a_client_is_used_between_start_and_close(client: Any) -> None:
    """Before and after there is an error that says so, and it starts once."""
    async with asyncio.timeout(PATIENCE), alone() as fake:
        await client(bootstrap_servers=fake.address).close()
        made = client(bootstrap_servers=fake.address)
        with pytest.raises(ClosedError, match="not started"):
            await CALLS[client](made)
        await made.start()
        with pytest.raises(ClosedError, match="once"):
            await made.start()
        assert fake.opened == 1
        await asyncio.gather(made.close(), made.close())
        for call in (CALLS[client](made), made.start()):
            with pytest.raises(ClosedError):
                await call
        await made.close()


@every_client
async def test_a_client_that_is_closed_amid_its_start_stays_closed(client: Any) -> None:
    """At any moment; nothing is left open."""
    async with asyncio.timeout(PATIENCE), alone() as fake:
        for turns in range(0, 30, 3):
            made = client(bootstrap_servers=fake.address)
            starting = asyncio.create_task(made.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            await made.close()
            outcome: Any
            (outcome,) = await asyncio.gather(starting, return_exceptions=True)
            assert outcome is None or isinstance(outcome, ClosedError)
            await fake.is_left_alone()
            with pytest.raises(ClosedError):
                await CALLS[client](made)


# -- clients that are forgotten


def forgotten(client: Any, *, is_closed: bool = False) -> list[str]:
    """Starts a client, lets it be collected, and returns the warnings."""

    async def start() -> None:
        async with asyncio.timeout(PATIENCE), alone() as fake:
            made = client(bootstrap_servers=fake.address, client_id="me")
            await made.start()
            if is_closed:
                await made.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(start())
        gc.collect()
    texts = [str(w.message) for w in caught if w.category is ResourceWarning]
    return [text for text in texts if text.endswith(" me")]


@pytest.mark.parametrize(
    ("client", "name"),
    [(Admin, "admin client"), (Consumer, "consumer"), (Producer, "producer")],
)
def test_an_unclosed_client_warns(client: Any, name: str) -> None:
    """The ResourceWarning names the client; a closed one causes none."""
    assert forgotten(client) == [f"unclosed {name} me"]
    assert not forgotten(client, is_closed=True)


@every_client
def test_a_client_that_never_started_does_not_warn(client: Any) -> None:
    """There is nothing to close, also after an invalid setting."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client()
        with pytest.raises(ConfigError):
            client(retry_backoff_ms=-1)
        gc.collect()


# -- client ids


def test_a_client_has_an_id_of_its_own() -> None:
    """As in the Java client; a shared configuration gets several."""
    config = ConsumerConfig(group_id="billing")
    first, second = Consumer(config=config), Consumer(config=config)
    assert config.client_id == ""
    numbers = [
        int(each.config.client_id.removeprefix("consumer-billing-"))
        for each in (first, second)
    ]
    assert numbers[1] == numbers[0] + 1
    static = Consumer(group_id="billing", group_instance_id="a")
    assert static.config.client_id == "consumer-billing-a"
    for client, prefix in ((Consumer, "consumer"), (Producer, "producer")):
        assert re.fullmatch(rf"{prefix}-\d+", client().config.client_id)
    assert re.fullmatch(r"adminclient-\d+", Admin().config.client_id)
    assert Admin(client_id="mine").config.client_id == "mine"


async def test_the_group_knows_a_member_by_its_default_client_id() -> None:
    """The member id begins with it."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        await fill(broker, counts=[1])
        async with consumer(broker, "t", group_id="billing") as reader:
            await take(reader, 1)
            name = reader.config.client_id
            assert name.startswith("consumer-billing-")
            assert reader.group_metadata().member_id.startswith(f"{name}-")


# -- imports


def loaded_by(code: str) -> set[str]:
    """The modules that a program loads."""
    run = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    done = subprocess.run(run, capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_importing_the_client_loads_no_http_and_no_terminal() -> None:
    """A service that only consumes does not need them, nor the other clients."""
    modules = loaded_by("from kohort.client import Consumer")
    assert "kohort.client.consumer" in modules
    assert not modules & {"aiohttp", "click", "rich", "structlog"}
    assert not modules & {"difflib", "hmac", "importlib.metadata"}
    assert not modules & {"kohort.client.admin", "kohort.client.producer"}
    assert "kohort.client.network.sasl.authenticator" not in modules


def test_the_package_alone_loads_none_of_its_clients() -> None:
    """Each name of `kohort.client` loads its module when it is first used."""
    modules = loaded_by("import kohort.client")
    assert {m for m in modules if m.startswith("kohort.")} == {"kohort.client"}
    assert "asyncio" not in modules


def test_the_package_has_the_names_that_it_lists() -> None:
    """Also for ``dir`` and ``import *``; another name is an `AttributeError`."""
    listed = kohort.client.__all__
    assert dir(kohort.client) == listed
    for name in listed:
        assert getattr(kohort.client, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Reader'"):
        _ = kohort.client.Reader  # type: ignore[attr-defined]
