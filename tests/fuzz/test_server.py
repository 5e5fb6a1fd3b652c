"""A broker serves other clients, whatever one sends."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.frames import mutated_frames
from tests.wire.client import WireClient, connected

from kohort.broker.server import Broker
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.registry import APIS

WITHOUT_CREATION = tuple(
    api for api in APIS if api.name not in {"CreateTopics", "CreatePartitions"}
)
"""These two may create 10,000 partitions per request: allowed, but not fast."""

FACTOR = 20
"""Streams per example of the profile: 300 by default, 1,500 with ``ci``."""


class Served:
    """A broker, a well-behaved client, and the log."""

    def __init__(self, runner: asyncio.Runner, log: io.StringIO) -> None:
        self.runner = runner
        self.log = log
        # Between examples the loop stands still while one is made: no connection is
        # idle because of that.
        self.broker = Broker({"connections.max.idle.ms": -1})
        self.client: WireClient
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Starts the broker and connects."""
        await self._stack.enter_async_context(self.broker)
        self.client = await self._stack.enter_async_context(connected(self.broker))

    async def stop(self) -> None:
        """Stops both."""
        await self._stack.aclose()

    async def survives(self, stream: bytes) -> None:
        """Sends a stream and disconnects; the other client is not affected."""
        _, writer = await asyncio.open_connection(self.broker.host, self.broker.port)
        writer.write(stream)
        await self._is_served()
        writer.transport.abort()
        await self._is_served()

    async def _is_served(self) -> None:
        answer = await self.client.call("ApiVersions", 0, ApiVersionsRequest())
        assert answer.error_code == 0


@pytest.fixture
def served() -> Iterator[Served]:
    """One broker for all examples of a test."""
    log = io.StringIO()
    with contextlib.redirect_stderr(log), asyncio.Runner() as runner:
        made = Served(runner, log)
        runner.run(made.start())
        yield made
        runner.run(made.stop())


@settings(
    max_examples=settings().max_examples * FACTOR,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
    deadline=None,
)
@given(stream=mutated_frames(WITHOUT_CREATION), noise=st.binary(max_size=50))
def test_no_stream_ends_the_broker(served: Served, stream: bytes, noise: bytes) -> None:
    """No stream makes a handler fail: every refusal is intended."""
    served.runner.run(served.survives(stream + noise))
    assert "request_failed" not in served.log.getvalue()
    assert "Traceback" not in served.log.getvalue()
