"""Authentication by settings: of new connections, and again before sessions end."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.client.fake_broker import Answer, Asked, FakeBroker, alive
from tests.client.network.test_tls import Guarded, refused
from tests.client.producer_stage import QUICK, silent
from tests.client.stage import PATIENCE

from kohort.client import Admin, Consumer, Producer, TopicPartition
from kohort.client.config import CommonConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    SaslAuthenticationError,
)
from kohort.client.network import connection as connection_module
from kohort.client.network import session
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import LARGEST_FIRST_RESPONSE, Connection
from kohort.client.network.sasl.authenticator import authenticator
from kohort.client.network.session import Session
from kohort.client.security import Authenticate, NewConnection
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.errors import ErrorCode

ME: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "me",
    "sasl_password": "secret",
}
SASL = ["SaslHandshake", "SaslAuthenticate"]
HEARTBEAT = HeartbeatRequest("g", 1, "m")


@contextlib.asynccontextmanager
async def connected(broker: FakeBroker, **settings: Any) -> AsyncIterator[Connection]:
    """An authenticated connection."""
    config = CommonConfig(**{**ME, **settings})
    clock = asyncio.get_running_loop().time
    by = config.authenticate
    if config.sasl_mechanism is not None:
        by = authenticator(config, config.sasl_mechanism, clock)
    async with asyncio.timeout(PATIENCE):
        connection = await Connection.open(config, "127.0.0.1", broker.port, 1, by)
        yield connection
        connection.close()
        await connection.wait_closed()


async def heartbeat(connection: Connection) -> int:
    """The error code of a Heartbeat."""
    response = await connection.send("Heartbeat", 4, HEARTBEAT)
    code: int = response.error_code
    return code


class Now:
    """The clock of sessions."""

    seconds = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.seconds


def outlive_session(connection: Connection, now: Now) -> None:
    """The next request has to wait for authentication."""
    assert not connection.needs_authentication
    now.seconds += session.LEAST_S
    assert connection.needs_authentication


def names(broker: FakeBroker) -> list[str]:
    """The APIs of the requests, in order."""
    return [asked.api.name for asked in broker.asked]


# -- new connections


async def test_a_wrong_password_ends_the_start_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error has the mechanism and the broker's message, and no password."""
    async with Guarded() as broker:
        error = await refused(broker.address, **{**ME, "sasl_password": "wr0ng"})
        assert isinstance(error, SaslAuthenticationError)
        assert str(error) == (
            f"SaslAuthenticate at {broker.address}: PLAIN: Invalid username or "
            "password (SASL_AUTHENTICATION_FAILED)"
        )
        assert broker.opened == 1
    assert "wr0ng" not in repr(error) + caplog.text


async def test_a_password_that_becomes_invalid() -> None:
    """The next call of each client raises that immediately."""
    async with Guarded() as broker, asyncio.timeout(PATIENCE):
        servers: dict[str, Any] = {"bootstrap_servers": broker.address, **ME, **QUICK}
        async with (
            Producer(**servers, linger_ms=0) as producer,
            Admin(**servers) as admin,
            Consumer(**servers, auto_offset_reset="earliest") as consumer,
        ):
            await producer.send_and_wait("t", b"v", partition=0)
            broker.password = b"changed"
            broker.hang_up()
            await broker.is_left_alone()
            consumer.assign([TopicPartition("t", 0)])
            with pytest.raises(SaslAuthenticationError):
                await producer.send_and_wait("t", b"v", partition=0)
            with pytest.raises(SaslAuthenticationError):
                await admin.list_topics()
            with pytest.raises(SaslAuthenticationError):
                await consumer.getone()


def _close(asked: Asked) -> None:
    asked.close()


def _huge(asked: Asked) -> None:
    asked.raw(struct.pack(">i", LARGEST_FIRST_RESPONSE + 1))


@pytest.mark.parametrize("api", SASL)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_close, "the broker closed it"),
        (_huge, "not a Kafka broker"),
        (lambda asked: asked.raw(b"\0\0\0\2hi"), "invalid response"),
    ],
)
async def test_a_broker_that_ends_it_in_the_middle(
    api: str, answer: Answer, error: str
) -> None:
    """The broker may have been stopped: the error is retriable."""
    async with Guarded() as broker:
        broker.answers[api] = answer
        settings: dict[str, Any] = {"bootstrap_servers": broker.address, **ME}
        cluster = Cluster(CommonConfig(**settings))
        with pytest.raises(ConnectionFailedError, match=error) as caught:
            await cluster.refresh()
        assert caught.value.retriable
        await cluster.close(0)
        await broker.is_left_alone()


# -- sessions (KIP-368)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    """The clock of sessions."""
    now = Now()

    def at(authenticate: Authenticate | None, _: Callable[[], float]) -> Session:
        return Session(authenticate, now)

    monkeypatch.setattr(connection_module, "Session", at)
    return now


async def test_a_hook_authenticates_again(now: Now) -> None:
    """It returns the session's lifetime; None for no end."""
    lifetimes = [1, 1, None]

    async def authenticate(_: NewConnection) -> int | None:
        return lifetimes.pop(0)

    async with FakeBroker({"Heartbeat": alive}) as broker:
        hook = dict.fromkeys(ME) | {"security_protocol": "SASL_PLAINTEXT"}
        async with connected(broker, **hook, authenticate=authenticate) as connection:
            for _ in range(2):
                outlive_session(connection, now)
                await heartbeat(connection)
            await heartbeat(connection)
            assert not lifetimes


async def test_a_session_without_an_end_is_authenticated_once() -> None:
    """As by default, connections.max.reauth.ms=0."""
    async with (
        Guarded(answers={"Heartbeat": alive}) as broker,
        connected(broker) as connection,
    ):
        for _ in range(3):
            await heartbeat(connection)
        assert names(broker) == [*SASL, *["Heartbeat"] * 3]


async def test_a_connection_authenticates_again_before_its_session_ends(
    now: Now,
) -> None:
    """With the next request, which waits; the connection stays open."""
    async with (
        Guarded(lifetime_ms=1, answers={"Heartbeat": alive}) as broker,
        connected(broker) as connection,
    ):
        for _ in range(3):
            outlive_session(connection, now)
            assert await heartbeat(connection) == 0
        assert names(broker) == SASL + [*SASL, "Heartbeat"] * 3
        assert broker.opened == 1


async def test_requests_wait_for_authentication_together(now: Now) -> None:
    """One authentication for all; no request is sent in the middle of it."""
    async with (
        Guarded(lifetime_ms=1, answers={"Heartbeat": alive}) as broker,
        connected(broker) as connection,
    ):
        outlive_session(connection, now)
        broker.lifetime_ms = 0
        tasks = [asyncio.create_task(heartbeat(connection)) for _ in range(20)]
        tasks.pop(0).cancel()  # the one that began it
        assert await asyncio.gather(*tasks) == [0] * len(tasks)
        assert names(broker) == [*SASL, *SASL, *["Heartbeat"] * len(tasks)]


async def test_a_response_that_is_due_comes_before_authentication(now: Now) -> None:
    """A broker answers in order, so SASL waits for the earlier response."""
    parked: list[Asked] = []
    async with Guarded(lifetime_ms=1, answers={"Heartbeat": parked.append}) as broker:
        handshake = broker.answers["SaslHandshake"]

        def later(asked: Asked) -> None:
            def answer() -> None:
                parked.pop().reply(HeartbeatResponse())
                handshake(asked)
                broker.answers["Heartbeat"] = alive

            asyncio.get_running_loop().call_later(0.2, answer)

        async with connected(broker, request_timeout_ms=100) as connection:
            long = connection.post("Heartbeat", 4, HEARTBEAT, timeout_ms=60_000)
            outlive_session(connection, now)
            broker.answers["SaslHandshake"] = later
            assert await heartbeat(connection) == 0
            assert long.done()
            assert names(broker) == [*SASL, "Heartbeat", *SASL, "Heartbeat"]


async def test_authentication_again_that_is_refused_ends_the_connection(
    now: Now,
) -> None:
    """Waiting requests fail with the error, and are not retried."""
    async with (
        Guarded(lifetime_ms=1, answers={"Heartbeat": alive}) as broker,
        connected(broker) as connection,
    ):
        outlive_session(connection, now)
        broker.password = b"changed"
        failed = await asyncio.gather(
            *(heartbeat(connection) for _ in range(3)), return_exceptions=True
        )
        for error in failed:
            assert isinstance(error, SaslAuthenticationError)
            assert not error.retriable
            assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "PLAIN: Invalid username or password" in str(error)
        assert not connection.is_open
        await broker.is_left_alone()


async def test_a_connection_is_closed_while_it_authenticates_again(now: Now) -> None:
    """Authentication is cancelled, wherever it waits."""
    begun: list[None] = []
    again = asyncio.Event()

    async def authenticate(_: NewConnection) -> int:
        begun.append(None)
        if len(begun) > 1:
            again.set()
            await asyncio.Event().wait()
        return 1

    hook = dict.fromkeys(ME) | {"security_protocol": "SASL_PLAINTEXT"}
    async with (
        FakeBroker() as broker,
        connected(broker, **hook, authenticate=authenticate) as connection,
    ):
        before = asyncio.all_tasks()
        outlive_session(connection, now)
        waiting = asyncio.create_task(heartbeat(connection))
        await again.wait()
        connection.close()
        with pytest.raises(ClosedError):
            await waiting
        await connection.wait_closed()
        assert asyncio.all_tasks() <= before


async def test_authentication_again_has_a_limit(now: Now) -> None:
    """If the broker does not respond, the connection ends."""
    async with Guarded(lifetime_ms=1) as broker:
        limit = {"request_timeout_ms": 1_000, "socket_connection_setup_timeout_ms": 200}
        async with connected(broker, **limit) as connection:
            outlive_session(connection, now)
            broker.answers["SaslHandshake"] = lambda _: None
            with pytest.raises(ConnectionFailedError, match="again within 200 ms"):
                await heartbeat(connection)


@pytest.mark.parametrize("acks", ["all", "0"])
async def test_a_producer_goes_on_over_many_sessions(
    acks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its unawaited requests are held back, too, and stay in order."""
    monkeypatch.setattr(session, "LEAST_S", 0)
    produce = silent if acks == "0" else None
    async with (
        Guarded(lifetime_ms=1, produce=produce) as broker,
        asyncio.timeout(PATIENCE),
    ):
        settings: dict[str, Any] = {"linger_ms": 0, "acks": acks, **ME, **QUICK}
        async with Producer(bootstrap_servers=broker.address, **settings) as producer:
            while len(broker.of("SaslHandshake")) < 5:
                for _ in range(3):
                    await producer.send("t", b"v", partition=0)
                await producer.flush()
        assert broker.opened == 1
        if acks == "all":
            firsts = [header.base_sequence for header in broker.batches]
            assert firsts == sorted(firsts)
