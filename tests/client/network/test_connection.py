"""Connections: pipelining, order, misbehaving brokers, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from tests.client.fake_broker import Asked, FakeBroker
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client.config import CommonConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kohort.client.network.connection import Connection
from kohort.protocol.apis.k08_offset_commit import OffsetCommitRequest
from kohort.protocol.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS, BY_NAME

HEARTBEAT = HeartbeatRequest("g", 1, "m")
Answer = Callable[[Asked], None]


def config(**settings: Any) -> CommonConfig:
    """A configuration."""
    return CommonConfig(client_id="me", **settings)


async def opened(fake: FakeBroker, **settings: Any) -> Connection:
    """A connection to a fake broker."""
    return await Connection.open(config(**settings), "127.0.0.1", fake.port, 7)


@contextlib.asynccontextmanager
async def connected(
    answers: Mapping[str, Answer] | None = None, **settings: Any
) -> AsyncIterator[tuple[FakeBroker, Connection]]:
    """A scripted broker, and a connection to it."""
    async with asyncio.timeout(PATIENCE), FakeBroker(answers) as fake:
        connection = await opened(fake, **settings)
        yield fake, connection
        connection.close()
        await connection.wait_closed()


async def opened_for_short_requests(fake: FakeBroker) -> Connection:
    """The same with request.timeout.ms=10, which also limits its opening."""
    while True:
        with contextlib.suppress(RequestTimedOutError):
            return await opened(fake, request_timeout_ms=10)


async def heartbeat(connection: Connection, **options: Any) -> Any:
    """Heartbeat in the latest version."""
    return await connection.send("Heartbeat", 4, HEARTBEAT, **options)


def find(key: str) -> FindCoordinatorRequest:
    """A request whose response repeats its key."""
    return FindCoordinatorRequest("", 0, [key])


def answer_key(asked: Asked) -> None:
    """Answers FindCoordinator with the key."""
    rows = [Coordinator(key, 1, "h", 1) for key in asked.message.coordinator_keys]
    asked.reply(FindCoordinatorResponse(coordinators=rows))


def key_of(answer: Any) -> str:
    """The key."""
    key: str = answer.coordinators[0].key
    return key


# -- the start


async def test_a_broker_tells_its_versions_and_is_told_who_asks() -> None:
    """ApiVersions comes first, with the client's name and version (KIP-511)."""
    async with Broker() as broker:
        connection = await Connection.open(config(), broker.host, broker.port)
        assert connection.is_open
        versions = connection.supported.versions
        for api in APIS:
            assert versions[api.key] == (api.advertised, api.newest)
        (theirs,) = broker.connections
        assert theirs.software_name == "kohort"
        assert theirs.software_version
        assert (await heartbeat(connection)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        connection.abort()


@pytest.mark.parametrize("newest", [0, 2, 3])
async def test_an_old_broker_is_asked_again_in_its_own_version(newest: int) -> None:
    """It refuses ApiVersions in version 0, with its own versions (KIP-511)."""
    versions = {"ApiVersions": (0, newest), "Heartbeat": (0, 1)}
    async with FakeBroker(versions=versions) as fake:
        connection = await opened(fake)
        assert connection.version("Heartbeat") == 1
        assert connection.version("Heartbeat", (0, 0)) == 0
        with pytest.raises(UnsupportedVersionError, match="0 to 1, the client 2 to 4"):
            connection.version("Heartbeat", (2, 4))
        with pytest.raises(UnsupportedVersionError, match="does not support") as caught:
            connection.version("JoinGroup")
        assert (caught.value.api, caught.value.retriable) == ("JoinGroup", False)
        assert caught.value.broker == f"{fake.address} (node 7)"
        connection.abort()


# -- requests


async def test_a_thousand_requests_are_under_way_at_once() -> None:
    """Each gets its own response, whatever the order of the waiters."""
    async with Broker() as broker:
        connection = await Connection.open(config(), broker.host, broker.port)
        keys = [f"group-{number}" for number in range(1_000)]
        answers = [connection.post("FindCoordinator", 4, find(key)) for key in keys]
        assert connection.in_flight == 1_000
        assert [key_of(answer) for answer in await asyncio.gather(*answers)] == keys
        assert connection.in_flight == 0
        connection.abort()


async def test_a_cancelled_request_does_not_shift_the_others() -> None:
    """Its response is dropped; the next ones get their own."""
    kept: list[Asked] = []
    async with connected({"FindCoordinator": kept.append}) as (fake, connection):
        first, second, third = (
            asyncio.create_task(connection.send("FindCoordinator", 4, find(key)))
            for key in "abc"
        )
        await fake.has_been_asked(3)
        second.cancel()
        await asyncio.wait([second])
        for asked in kept:
            answer_key(asked)
        assert key_of(await first) == "a"
        assert key_of(await third) == "c"
        assert connection.in_flight == 0


async def test_a_broker_that_reads_slowly_holds_up_who_sends() -> None:
    """A send waits for room in the transport; if cancelled then, it is not sent."""
    async with connected({"FindCoordinator": answer_key}) as (fake, connection):
        fake.gate.clear()
        big = OffsetCommitRequest("x" * 30_000)
        tasks: list[asyncio.Task[Any]] = []
        while connection.in_flight == len(tasks):
            send = connection.send("OffsetCommit", 9, big)
            tasks.append(asyncio.create_task(send))
            await asyncio.sleep(0)  # the task runs once
        task = tasks.pop()
        task.cancel()
        await asyncio.wait([task])
        sent = connection.in_flight
        assert sent == len(tasks)
        waiting = asyncio.create_task(connection.send_unanswered("Produce", 3, produce))
        await asyncio.sleep(0)
        assert not waiting.done()
        fake.gate.set()
        await waiting
        await fake.has_been_asked(sent + 1)
        assert [asked.api.name for asked in fake.asked].count("OffsetCommit") == sent
        connection.close()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(answer, ClosedError)


produce = BY_NAME["Produce"].request_class(None, 0, 1_000, [])


# -- misbehaving brokers


@pytest.mark.parametrize("cut", [0, 2, 4, 7, 9])
async def test_a_broker_that_closes_amid_a_response(cut: int) -> None:
    """All unanswered requests fail, each with its own API, and are retriable."""

    def half(asked: Asked) -> None:
        asked.raw(asked.frame(HeartbeatResponse())[:cut])
        asked.close()

    async with connected({"Heartbeat": half}) as (fake, connection):
        answers = await asyncio.gather(
            heartbeat(connection),
            connection.send("FindCoordinator", 4, find("a")),
            return_exceptions=True,
        )
        for answer, api in zip(answers, ["Heartbeat", "FindCoordinator"], strict=True):
            assert isinstance(answer, ConnectionFailedError)
            assert answer.retriable
            assert (answer.api, answer.broker) == (api, f"{fake.address} (node 7)")
        assert not connection.is_open
        with pytest.raises(ConnectionFailedError):
            await heartbeat(connection)
        await connection.wait_closed()


def _no_body(asked: Asked) -> None:
    asked.raw(struct.pack(">ii", 4, asked.correlation_id))


def _another_id(asked: Asked) -> None:
    asked.correlation_id += 1
    asked.reply(HeartbeatResponse())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            lambda asked: asked.raw(b"HTTP/1.1 400 Bad Request\r\n"),
            "not a Kafka broker",
        ),
        (lambda asked: asked.raw(b"\xff" * 8), "not a Kafka broker"),
        (lambda asked: asked.raw(b"\0\0\0\2hi"), "invalid response"),
        (lambda asked: asked.raw(b"\0\0\0\0"), "invalid response"),
        (_no_body, "invalid response"),
        (_another_id, "correlation id"),
    ],
)
async def test_garbage_ends_the_connection(answer: Answer, why: str) -> None:
    """No later byte could be trusted."""
    async with connected({"Heartbeat": answer}) as (fake, connection):
        with pytest.raises(ConnectionFailedError, match=why):
            await heartbeat(connection)
        await connection.wait_closed()
        await fake.is_left_alone()


async def test_a_response_nobody_asked_for_ends_the_connection() -> None:
    """It could belong to any request."""

    def twice(asked: Asked) -> None:
        asked.raw(asked.frame(HeartbeatResponse()) * 2)

    async with connected({"Heartbeat": twice}) as (_, connection):
        assert (await heartbeat(connection)).error_code == 0
        await connection.wait_closed()
        assert not connection.is_open


async def test_a_late_response_ends_the_connection() -> None:
    """It is late by request.timeout.ms; the next ones can be retried at once."""
    async with FakeBroker() as fake:
        connection = await opened_for_short_requests(fake)
        late: Any
        behind: Any
        late, behind = await asyncio.gather(
            heartbeat(connection),
            heartbeat(connection, timeout_ms=60_000),
            return_exceptions=True,
        )
        assert isinstance(late, RequestTimedOutError)
        assert isinstance(behind, ConnectionFailedError)
        assert late.retriable
        assert "Heartbeat at 127.0.0.1" in str(late)
        assert "no response within 10 ms" in str(late)
        assert "the response to Heartbeat was late" in str(behind)
        await connection.wait_closed()


async def test_requests_have_their_own_time() -> None:
    """A JoinGroup may wait longer; a shorter limit behind it still applies."""
    async with connected() as (_, connection):
        long = connection.post("Heartbeat", 4, HEARTBEAT, timeout_ms=600_000)
        with pytest.raises(RequestTimedOutError):
            await heartbeat(connection, timeout_ms=1)
        with pytest.raises(ConnectionFailedError):
            await long
        await connection.wait_closed()


async def test_a_cancelled_request_is_late_too() -> None:
    """A hanging broker is detected even if no caller waits any more."""
    async with FakeBroker() as fake:
        connection = await opened_for_short_requests(fake)
        connection.post("Heartbeat", 4, HEARTBEAT).cancel()
        await connection.wait_closed()


async def test_an_idle_connection_is_closed() -> None:
    """connections.max.idle.ms, which saves brokers connections."""
    async with connected(connections_max_idle_ms=1) as (fake, connection):
        await connection.wait_closed()
        await fake.is_left_alone()
        with pytest.raises(ConnectionFailedError, match="idle for 1 ms"):
            await heartbeat(connection)


async def test_a_connection_is_idle_again_after_a_long_request() -> None:
    """The time limit of the long request does not delay it."""

    def later(asked: Asked) -> None:
        asyncio.get_running_loop().call_later(0.1, asked.reply, HeartbeatResponse())

    async with connected({"Heartbeat": later}, connections_max_idle_ms=20) as (
        _,
        connection,
    ):
        await heartbeat(connection, timeout_ms=600_000)
        await connection.wait_closed()


async def test_a_connection_in_use_is_not_idle() -> None:
    """It is not closed while a caller waits for a response."""
    async with connected(connections_max_idle_ms=1) as (_, connection):
        with pytest.raises(RequestTimedOutError):
            await heartbeat(connection, timeout_ms=20)
        await connection.wait_closed()


async def test_a_repeated_heartbeat_is_the_same_but_for_its_id() -> None:
    """Its bytes are kept, until another one is sent."""
    other = HeartbeatRequest("g", 2, "m")
    seen: list[Asked] = []

    def answer(asked: Asked) -> None:
        seen.append(asked)
        asked.reply(HeartbeatResponse())

    async with connected({"Heartbeat": answer}) as (_, connection):
        for message, version in [
            (HEARTBEAT, 4),
            (HEARTBEAT, 4),
            (HEARTBEAT, 3),
            (other, 4),
            (HEARTBEAT, 4),
        ]:
            await connection.send("Heartbeat", version, message)
    assert [asked.message for asked in seen] == [
        HEARTBEAT,
        HEARTBEAT,
        HEARTBEAT,
        other,
        HEARTBEAT,
    ]
    assert [asked.version for asked in seen] == [4, 4, 3, 4, 4]
