"""A broker that stops while a client connects."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

import pytest

from kohort.broker.server import Broker


@pytest.mark.parametrize("turns", range(6))
async def test_who_connects_while_a_node_stops_is_not_left_waiting(turns: int) -> None:
    """The connection ends, at whatever point the event loop was."""
    async with Broker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await broker.stop_node(1)
            gc.disable()  # the collector would close lost sockets by chance
            try:
                client.settimeout(60)
                with contextlib.suppress(ConnectionResetError):
                    assert client.recv(1) == b""
            finally:
                gc.enable()
        gc.collect()
