"""The client finds its cluster, and finds it again, whatever the network does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from tests.client.fake_broker import (
    Asked,
    FakeBroker,
    Serve,
    alive,
    alone,
    coordinates,
    knows,
    peer,
)
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client import Admin, KohortError
from kohort.client.config import CommonConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    RequestTimedOutError,
)
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import Connection
from kohort.client.network.sockets import connected_socket
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.errors import ErrorCode

HEARTBEAT = HeartbeatRequest("g", 1, "m")


def config(*servers: str, **settings: Any) -> CommonConfig:
    """A configuration with short retries."""
    quick = {"reconnect_backoff_ms": 1, "retry_backoff_ms": 1, **settings}
    return CommonConfig(bootstrap_servers=servers, **quick)


async def _closes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _never_answers(reader: asyncio.StreamReader, _: object) -> None:
    while await reader.read(65536):
        pass


def _answers(data: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(data)
        await reader.read()

    return serve


NO_BROKERS: dict[str, Serve] = {
    "closes at once": _closes,
    "never answers": _never_answers,
    "a web server": _answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "a size of 900 MB": _answers(struct.pack(">ii", 900_000_000, 1)),
    "a negative size": _answers(b"\xff" * 100),
    "another correlation id": _answers(struct.pack(">iih", 6, 77, 0)),
    "noise": _answers(struct.pack(">ii", 60, 1) + Random(1).randbytes(56)),
    "half an answer": _answers(struct.pack(">iih", 600, 1, 0)),
}


@contextlib.asynccontextmanager
async def nobody() -> AsyncIterator[str]:
    """An address without a listener."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@pytest.mark.parametrize("seed", range(3))
async def test_one_of_many_bootstrap_servers_is_enough(seed: int) -> None:
    """The others are down, unknown to DNS, hanging, or not brokers."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(PATIENCE))
        servers = [await stack.enter_async_context(nobody()), "no-such-host.invalid:1"]
        for serve in NO_BROKERS.values():
            servers += [await stack.enter_async_context(peer(serve))]
        broker = await stack.enter_async_context(Broker())
        servers.insert(seed, broker.bootstrap_servers)
        limits = {"socket_connection_setup_timeout_ms": 500}
        cluster = Cluster(config(*servers, **limits), random=Random(seed))
        async with cluster:
            assert len(cluster.metadata.nodes) == 1


@pytest.mark.parametrize("kind", NO_BROKERS)
async def test_what_is_no_broker_is_an_error_that_names_it(kind: str) -> None:
    """It is retriable: a broker may listen there later."""
    async with peer(NO_BROKERS[kind]) as address:
        host, _, port = address.rpartition(":")
        limits, why = {"socket_connection_setup_timeout_ms": 100}, "within 100 ms"
        if kind not in {"never answers", "half an answer"}:
            limits, why = {}, address
        with pytest.raises(ConnectionFailedError, match=why) as caught:
            await Connection.open(config(address, **limits), host, int(port))
        assert caught.value.retriable
        assert caught.value.broker == address


async def test_the_log_says_once_who_cannot_be_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One warning for all attempts and connections, and a line when it is over."""
    caplog.set_level(logging.INFO, "kohort.client")
    fake = FakeBroker()
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
        async with fake:
            fake.answers["Metadata"] = knows((1, fake))
            me = config(fake.address, client_id="me")
            cluster = await stack.enter_async_context(Cluster(me))
            opened = [await cluster.connection(1, lane) for lane in ("group", "")]
        for connection in opened:
            await connection.wait_closed()
        for node_id, lane in ((1, "group"), (1, ""), (None, ""), (1, "group")):
            with pytest.raises(ConnectionFailedError):
                await cluster.connection(node_id, lane)
        (warning,) = caplog.records
        assert warning.levelno == logging.WARNING
        assert warning.getMessage().startswith(f"me: {fake.address}")
        caplog.clear()
        async with fake:
            for lane in ("group", ""):
                await cluster.connection(1, lane)
            (end,) = caplog.records
            assert end.getMessage().startswith(f"me: {fake.address}")
            assert end.getMessage().endswith(" can be reached again")
            await cluster.close()


async def test_time_that_is_up_before_the_first_attempt_names_the_servers() -> None:
    """A hanging bootstrap server, and less time than a connection may take."""
    async with peer(_never_answers) as address:
        with pytest.raises(RequestTimedOutError) as caught:
            async with Admin(bootstrap_servers=address, default_api_timeout_ms=50):
                pass
        assert address in str(caught.value)
        assert caught.value.api == "Metadata"


@pytest.mark.parametrize("seed", [0, 2])
async def test_a_server_that_does_not_answer_is_not_the_only_one_to_ask(
    seed: int,
) -> None:
    """The request times out first: the other server is still asked."""
    async with FakeBroker() as deaf, FakeBroker() as good:
        nodes = knows((1, deaf), (2, good))
        deaf.answers["Metadata"] = good.answers["Metadata"] = nodes
        limits = {"request_timeout_ms": 1_000, "metadata_max_age_ms": 600_000}
        settings = config(good.address, **limits)
        async with Cluster(settings, random=Random(seed)) as cluster:
            deaf.gate.clear()
            connection = await cluster.connection(2)
            good.hang_up()
            await connection.wait_closed()
            assert (await cluster.connection(None)).port == good.port


async def test_all_nodes_are_replaced() -> None:
    """Other ids and addresses: the bootstrap address has them (KIP-899)."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(PATIENCE))
        entry, *new = [await stack.enter_async_context(FakeBroker()) for _ in range(4)]
        async with FakeBroker() as first, FakeBroker() as second:
            old = knows((1, first), (2, second))
            for fake in (entry, first, second):
                fake.answers["Metadata"] = old
            cluster = Cluster(config(entry.address), random=Random(1))
            await stack.enter_async_context(cluster)
            await cluster.connection(1)
            await cluster.refresh()
        now = knows(*enumerate(new, start=11))
        for fake in (entry, *new):
            fake.answers["Metadata"] = now
            fake.answers["Heartbeat"] = alive
        await cluster.retrying(cluster.deadline(), cluster.refresh)
        assert set(cluster.metadata.nodes) == {11, 12, 13}
        for node_id in (11, 12, 13):
            await cluster.call(node_id, "Heartbeat", HEARTBEAT)


async def test_a_node_that_listens_elsewhere_is_not_asked_where_it_was() -> None:
    """Another node listens there now."""
    async with FakeBroker() as before, FakeBroker() as after:
        before.answers["Metadata"] = knows((1, before))
        after.answers["Metadata"] = knows((1, after))
        async with Cluster(config(before.address), random=Random(1)) as cluster:
            before.answers["Metadata"] = knows((1, after))
            await cluster.refresh()
            connection = await cluster.connection(1)
            before.hang_up()
            await connection.wait_closed()
            opened = before.opened
            await cluster.refresh()
            assert (before.opened, after.opened) == (opened, 1)


async def test_an_idle_connection_is_opened_again_without_a_word() -> None:
    """The call after the pause works like the one before."""
    async with alone() as fake, asyncio.timeout(PATIENCE):
        fake.answers["Heartbeat"] = alive
        settings = config(fake.address, connections_max_idle_ms=100)
        async with Cluster(settings) as cluster:
            for _ in range(3):
                await cluster.call(1, "Heartbeat", HEARTBEAT)
                await fake.is_left_alone()
            assert fake.opened >= 3


async def test_a_cluster_is_found_by_ipv6() -> None:
    """As "[::1]:port", which errors show in the same way."""
    try:
        broker = await Broker(host="::1").__aenter__()
    except OSError:
        pytest.skip("there is no IPv6")
    address = f"[::1]:{broker.bootstrap_servers.rpartition(':')[2]}"
    try:
        async with Admin(bootstrap_servers=[address]) as admin:
            described = await admin.describe_cluster()
            assert [*map(str, described.nodes.values())] == [f"{address} (node 1)"]
    finally:
        await broker.stop()


# -- names with several addresses


@contextlib.asynccontextmanager
async def full() -> AsyncIterator[tuple[str, int]]:
    """An address that neither accepts nor refuses connections."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        for _ in range(2):  # the kernel queues one more than asked for
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(address)
        yield address


async def test_each_address_of_a_name_gets_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is down, the second does not respond, the third works (KIP-302)."""
    loop = asyncio.get_running_loop()
    async with nobody() as down, full() as swallows, FakeBroker() as good:
        ports = [int(down.rpartition(":")[2]), swallows[1], good.port]

        async def resolve(*_: object, **__: object) -> list[Any]:
            row = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*row, ("127.0.0.1", port)) for port in ports]

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        sock = await connected_socket("broker", 1, 2.0)
        assert sock.getpeername()[1] == good.port
        sock.close()
        del ports[2:]
        with pytest.raises(TimeoutError):
            await connected_socket("broker", 1, 0.05)
        del ports[1:]
        with pytest.raises(ConnectionRefusedError):
            await connected_socket("broker", 1, 60)


# -- coordinators


async def test_a_coordinator_may_be_forgotten_while_another_is_looked_up() -> None:
    """The result for both groups is complete."""
    asked: list[Asked] = []
    async with alone(answers={"FindCoordinator": asked.append}) as fake:
        answer = coordinates(fake)
        async with Cluster(config(fake.address)) as cluster:
            first = asyncio.create_task(cluster.coordinator("a"))
            await fake.has_been_asked(2)
            answer(asked.pop())
            assert await first == 1
            both = asyncio.create_task(cluster.coordinators(["a", "b"]))
            await fake.has_been_asked(3)
            cluster.forget_coordinator("a")
            answer(asked.pop())
            assert await both == {"a": 1, "b": 1}


async def test_a_start_that_is_overtaken_by_close_leaves_nothing() -> None:
    """At any moment; the error says that the client was closed."""
    async with alone() as fake, asyncio.timeout(PATIENCE):
        outcomes = set()
        for turns in range(30):
            before = asyncio.all_tasks()
            cluster = Cluster(config(fake.address))
            starting = asyncio.create_task(cluster.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            await cluster.close()
            outcome = (await asyncio.gather(starting, return_exceptions=True))[0]
            outcomes.add(type(outcome))
            assert outcome is None or isinstance(outcome, ClosedError)
            await fake.is_left_alone()
            left = asyncio.all_tasks() - before
            await asyncio.wait(left, timeout=10) if left else None
            assert not [task for task in left if not task.done()]
        assert ClosedError in outcomes


async def test_an_error_that_many_share_is_each_ones_own() -> None:
    """Waiters do not see each other's attributes."""
    async with nobody() as address:
        cluster = Cluster(config(address))
        both = [cluster.coordinators([group]) for group in "ab"]
        errors = await asyncio.gather(*both, return_exceptions=True)
        assert errors[0] is not errors[1]
        for error in errors:
            assert isinstance(error, KohortError)
            assert error.retriable
            assert error.code is not ErrorCode.NONE
        await cluster.close(0)
