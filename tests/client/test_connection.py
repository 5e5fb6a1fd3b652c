"""Connections: pipelining, order, what brokers do to them, and how they end."""

from __future__ import annotations

import asyncio
import ssl
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.fake_broker import Asked, FakeBroker

from kohort.broker.server import Broker
from kohort.client.config import CommonConfig
from kohort.client.connection import Connection
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    KohortError,
    RequestTimedOutError,
    SaslAuthenticationError,
    UnsupportedVersionError,
)
from kohort.protocol.apis.k08_offset_commit import OffsetCommitRequest
from kohort.protocol.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.apis.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kohort.protocol.apis.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS, BY_NAME

HEARTBEAT = HeartbeatRequest("g", 1, "m")
Answer = Callable[[Asked], None]


def config(**settings: Any) -> CommonConfig:
    """A configuration."""
    return CommonConfig(client_id="me", **settings)


async def opened(fake: FakeBroker, **settings: Any) -> Connection:
    """A connection to a fake."""
    return await Connection.open(config(**settings), "127.0.0.1", fake.port, 7)


async def opened_for_short_requests(fake: FakeBroker) -> Connection:
    """One with a request.timeout.ms of 10, which its opening has kept to, too."""
    while True:
        with suppress(RequestTimedOutError):
            return await opened(fake, request_timeout_ms=10)


async def closed(connection: Connection) -> None:
    """Closes, and waits for the end."""
    connection.close()
    await connection.wait_closed()


async def heartbeat(connection: Connection, **options: Any) -> Any:
    """Heartbeat in the newest version."""
    return await connection.send("Heartbeat", 4, HEARTBEAT, **options)


def find(key: str) -> FindCoordinatorRequest:
    """A request whose answer tells what was asked."""
    return FindCoordinatorRequest("", 0, [key])


def found(asked: Asked) -> None:
    """Answers FindCoordinator with the key."""
    rows = [Coordinator(key, 1, "h", 1) for key in asked.message.coordinator_keys]
    asked.reply(FindCoordinatorResponse(coordinators=rows))


def key_of(answer: Any) -> str:
    """What was asked."""
    key: str = answer.coordinators[0].key
    return key


# -- the start


async def test_a_broker_tells_its_versions_and_is_told_who_asks() -> None:
    """ApiVersions comes first, with the client's name and version (KIP-511)."""
    async with Broker() as broker:
        connection = await Connection.open(config(), broker.host, broker.port)
        assert connection.is_open
        versions = connection.api_versions
        for api in APIS:
            assert versions[api.key] == (api.advertised, api.newest)
        (theirs,) = broker.connections
        assert theirs.software_name == "kohort"
        assert theirs.software_version
        assert (await heartbeat(connection)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await closed(connection)


@pytest.mark.parametrize("newest", [0, 2, 3])
async def test_an_old_broker_is_asked_again_in_its_own_version(newest: int) -> None:
    """It refuses ApiVersions in version 0, naming what it knows (KIP-511)."""
    versions = {"ApiVersions": (0, newest), "Heartbeat": (0, 1)}
    async with FakeBroker(versions=versions) as fake:
        connection = await opened(fake)
        assert connection.version("Heartbeat") == 1
        assert connection.version("Heartbeat", (0, 0)) == 0
        with pytest.raises(UnsupportedVersionError, match="0 to 1, 2 to 4 would do"):
            connection.version("Heartbeat", (2, 4))
        with pytest.raises(UnsupportedVersionError, match="does not have") as caught:
            connection.version("JoinGroup")
        assert (caught.value.api, caught.value.retriable) == ("JoinGroup", False)
        assert caught.value.broker == f"{fake.address} (node 7)"
        await closed(connection)


async def test_nobody_there_is_an_error_that_names_the_address() -> None:
    """And it can be tried again."""
    async with FakeBroker() as fake:
        port = fake.port
    with pytest.raises(ConnectionFailedError) as caught:
        await Connection.open(config(), "127.0.0.1", port)
    assert caught.value.retriable
    assert caught.value.broker == f"127.0.0.1:{port}"


async def test_a_broker_that_does_not_answer_is_given_up() -> None:
    """socket.connection.setup.timeout.ms includes ApiVersions."""
    async with FakeBroker() as fake:
        fake.gate.clear()
        with pytest.raises(ConnectionFailedError, match="not connected within 1 ms"):
            await opened(fake, socket_connection_setup_timeout_ms=1)


async def test_opening_can_be_cancelled_anywhere() -> None:
    """No connection is left behind."""
    async with FakeBroker() as fake:
        connections: list[Connection] = []

        async def open_it() -> None:
            connections.append(await opened(fake))

        async def afterwards() -> None:
            for connection in connections:
                await closed(connection)
            await fake.is_left_alone()

        assert await cancel_at_every_await(open_it, afterwards) >= 2


# -- requests


async def test_a_thousand_requests_are_under_way_at_once() -> None:
    """Each gets its own response, whatever the order of those who wait."""
    async with Broker() as broker:
        connection = await Connection.open(config(), broker.host, broker.port)
        keys = [f"group-{number}" for number in range(1_000)]
        answers = [connection.post("FindCoordinator", 4, find(key)) for key in keys]
        assert connection.in_flight == 1_000
        assert [key_of(answer) for answer in await asyncio.gather(*answers)] == keys
        assert connection.in_flight == 0
        await closed(connection)


async def test_every_version_of_an_api_is_spoken() -> None:
    """Headers and bodies of all versions are understood on both sides."""
    async with Broker() as broker:
        connection = await Connection.open(config(), broker.host, broker.port)
        for version in range(7):
            request = FindCoordinatorRequest("g", 0, ["g"])
            answer = await connection.send("FindCoordinator", version, request)
            row = answer if version < 4 else answer.coordinators[0]
            assert (row.error_code, row.port) == (0, broker.port)
        await closed(connection)


async def test_a_cancelled_request_does_not_shift_the_others() -> None:
    """Its response is dropped when it comes; the next ones get their own."""
    kept: list[Asked] = []
    async with FakeBroker({"FindCoordinator": kept.append}) as fake:
        connection = await opened(fake)
        first, second, third = (
            asyncio.create_task(connection.send("FindCoordinator", 4, find(key)))
            for key in "abc"
        )
        await fake.has_been_asked(3)
        second.cancel()
        with suppress(asyncio.CancelledError):
            await second
        for asked in kept:
            found(asked)
        assert key_of(await first) == "a"
        assert key_of(await third) == "c"
        assert connection.in_flight == 0
        await closed(connection)


async def test_a_request_can_be_cancelled_anywhere() -> None:
    """The connection serves whatever comes next."""
    async with FakeBroker({"FindCoordinator": found}) as fake:
        connection = await opened(fake)
        number = 0

        async def ask() -> None:
            nonlocal number
            number += 1
            answer = await connection.send("FindCoordinator", 4, find(f"k{number}"))
            assert key_of(answer) == f"k{number}"

        assert await cancel_at_every_await(ask, ask) == 1
        await closed(connection)


async def test_a_broker_that_reads_slowly_holds_up_who_sends() -> None:
    """What the transport has no room for waits; cancelled there, it is not sent."""
    async with FakeBroker({"FindCoordinator": found}) as fake:
        connection = await opened(fake)
        fake.gate.clear()
        big = OffsetCommitRequest("x" * 30_000)
        tasks: list[asyncio.Task[Any]] = []
        while connection.in_flight == len(tasks):
            send = connection.send("OffsetCommit", 9, big)
            tasks.append(asyncio.create_task(send))
            await asyncio.sleep(0)  # the task runs once
        task = tasks.pop()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        sent = connection.in_flight
        assert sent == len(tasks)
        waiting = asyncio.create_task(connection.send_unanswered("Produce", 3, produce))
        await asyncio.sleep(0)
        assert not waiting.done()
        fake.gate.set()
        await waiting
        await fake.has_been_asked(sent + 1)
        assert [asked.api.name for asked in fake.asked].count("OffsetCommit") == sent
        await closed(connection)
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(answer, ClosedError)


produce = BY_NAME["Produce"].request_class(None, 0, 1_000, [])


# -- what brokers do


@pytest.mark.parametrize("cut", [0, 2, 4, 7, 9])
async def test_a_broker_that_closes_amid_a_response(cut: int) -> None:
    """All that are not answered fail, each by its own name, and can be tried again."""

    def half(asked: Asked) -> None:
        asked.raw(asked.frame(HeartbeatResponse())[:cut])
        asked.close()

    async with FakeBroker({"Heartbeat": half}) as fake:
        connection = await opened(fake)
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
        (lambda asked: asked.raw(b"HTTP/1.1 400 Bad Request\r\n"), "no Kafka broker"),
        (lambda asked: asked.raw(b"\xff" * 8), "no Kafka broker"),
        (lambda asked: asked.raw(b"\0\0\0\2hi"), "cannot be read"),
        (lambda asked: asked.raw(b"\0\0\0\0"), "cannot be read"),
        (_no_body, "cannot be read"),
        (_another_id, "correlation id"),
    ],
)
async def test_garbage_ends_the_connection(answer: Answer, why: str) -> None:
    """Nothing behind it could be trusted."""
    async with FakeBroker({"Heartbeat": answer}) as fake:
        connection = await opened(fake)
        with pytest.raises(ConnectionFailedError, match=why):
            await heartbeat(connection)
        await connection.wait_closed()
        await fake.is_left_alone()


async def test_a_response_nobody_asked_for_ends_the_connection() -> None:
    """It could be anybody's."""

    def twice(asked: Asked) -> None:
        asked.raw(asked.frame(HeartbeatResponse()) * 2)

    async with FakeBroker({"Heartbeat": twice}) as fake:
        connection = await opened(fake)
        assert (await heartbeat(connection)).error_code == 0
        await connection.wait_closed()
        assert not connection.is_open


async def test_a_late_response_ends_the_connection() -> None:
    """It is late by request.timeout.ms; those behind it can be tried again at once."""
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
    """A JoinGroup may wait longer than others; a short one behind it is still short."""
    async with FakeBroker() as fake:
        connection = await opened(fake)
        long = connection.post("Heartbeat", 4, HEARTBEAT, timeout_ms=600_000)
        with pytest.raises(RequestTimedOutError):
            await heartbeat(connection, timeout_ms=1)
        with pytest.raises(ConnectionFailedError):
            await long
        await connection.wait_closed()


async def test_a_cancelled_request_is_late_too() -> None:
    """A broker that is stuck is found out though nobody waits any more."""
    async with FakeBroker() as fake:
        connection = await opened_for_short_requests(fake)
        connection.post("Heartbeat", 4, HEARTBEAT).cancel()
        await connection.wait_closed()


async def test_an_idle_connection_is_closed() -> None:
    """connections.max.idle.ms, and brokers are spared."""
    async with FakeBroker() as fake:
        connection = await opened(fake, connections_max_idle_ms=1)
        await connection.wait_closed()
        await fake.is_left_alone()
        with pytest.raises(ConnectionFailedError, match="idle for 1 ms"):
            await heartbeat(connection)


async def test_a_connection_is_idle_again_after_a_long_request() -> None:
    """The time that the request might have taken is not waited for."""

    def later(asked: Asked) -> None:
        asyncio.get_running_loop().call_later(0.1, asked.reply, HeartbeatResponse())

    async with FakeBroker({"Heartbeat": later}) as fake:
        connection = await opened(fake, connections_max_idle_ms=20)
        await heartbeat(connection, timeout_ms=600_000)
        async with asyncio.timeout(60):
            await connection.wait_closed()


async def test_a_connection_in_use_is_not_idle() -> None:
    """Whoever waits for an answer is not cut off."""
    async with FakeBroker() as fake:
        connection = await opened(fake, connections_max_idle_ms=1)
        with pytest.raises(RequestTimedOutError):
            await heartbeat(connection, timeout_ms=20)
        await connection.wait_closed()


# -- the end


async def test_closing_fails_what_waits() -> None:
    """The waiter is told, and nothing can be sent any more."""
    async with FakeBroker() as fake:
        connection = await opened(fake)
        waiting = asyncio.create_task(heartbeat(connection))
        await fake.has_been_asked(1)
        await closed(connection)
        for attempt in (waiting, heartbeat(connection)):
            with pytest.raises(ClosedError) as caught:
                await attempt
            assert caught.value.api == "Heartbeat"
            assert not caught.value.retriable


# -- TLS and SASL


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    more = f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {cert}"
    subprocess.run(f"{command} {more}".split(), check=True, capture_output=True)
    return cert, key


async def test_tls_connections(certificate: tuple[Path, Path]) -> None:
    """The broker's certificate is checked; one that is not trusted stays so."""
    cert, key = certificate
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with FakeBroker({"FindCoordinator": found}, tls=theirs) as fake:
        connection = await opened(fake, security_protocol="SSL", ssl_context=trusting)
        keys = [str(number) for number in range(100)]
        answers = [connection.post("FindCoordinator", 4, find(key)) for key in keys]
        assert [key_of(answer) for answer in await asyncio.gather(*answers)] == keys
        await closed(connection)
        with pytest.raises(ConnectionFailedError, match="certificate") as caught:
            await opened(fake, security_protocol="SSL")
        assert not caught.value.retriable


def _handshake(asked: Asked) -> None:
    asked.reply(SaslHandshakeResponse(0, ["PLAIN"]))


def _authenticate(asked: Asked) -> None:
    is_right = asked.message.auth_bytes == b"\0me\0secret"
    code = 0 if is_right else ErrorCode.SASL_AUTHENTICATION_FAILED
    asked.reply(SaslAuthenticateResponse(code))


def plain(password: str) -> Any:
    """SASL PLAIN as a hook."""

    async def authenticate(connection: Connection) -> None:
        version = connection.version("SaslHandshake")
        await connection.send("SaslHandshake", version, SaslHandshakeRequest("PLAIN"))
        version = connection.version("SaslAuthenticate")
        token = SaslAuthenticateRequest(f"\0me\0{password}".encode())
        answer = await connection.send("SaslAuthenticate", version, token)
        if answer.error_code:
            raise connection.error_of(answer.error_code, "SaslAuthenticate")

    return authenticate


async def test_authentication_comes_before_everything_else() -> None:
    """The hook has the connection to itself; what it raises is what `open` raises."""
    script: dict[str, Answer] = {
        "SaslHandshake": _handshake,
        "SaslAuthenticate": _authenticate,
        "FindCoordinator": found,
    }
    sasl = "SASL_PLAINTEXT"
    async with FakeBroker(script) as fake:
        right = plain("secret")
        connection = await opened(fake, security_protocol=sasl, authenticate=right)
        answer = await connection.send("FindCoordinator", 4, find("a"))
        assert key_of(answer) == "a"
        names = [asked.api.name for asked in fake.asked]
        assert names == ["SaslHandshake", "SaslAuthenticate", "FindCoordinator"]
        await closed(connection)
        with pytest.raises(SaslAuthenticationError) as caught:
            await opened(fake, security_protocol=sasl, authenticate=plain("wrong"))
        assert isinstance(caught.value, KohortError)
        assert not caught.value.retriable
        await fake.is_left_alone()


async def test_a_hook_that_fails_is_an_error_of_the_connection() -> None:
    """What is no error of ours is wrapped, and not tried again."""

    async def authenticate(_: Connection) -> None:
        raise KeyError("password")

    async with FakeBroker() as fake:
        with pytest.raises(ConnectionFailedError, match="'password'") as caught:
            await opened(fake, authenticate=authenticate)
        assert isinstance(caught.value.__cause__, KeyError)
        assert not caught.value.retriable
        await fake.is_left_alone()
