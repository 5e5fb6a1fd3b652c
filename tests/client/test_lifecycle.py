"""Start and close, which are the same for all clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.client.fake_broker import alone
from tests.client.stage import PATIENCE

from kohort.client import Admin, Consumer, Producer
from kohort.client.errors import ClosedError

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
    """Whenever that is; nothing is left open."""
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
