"""TLS and SASL: the whole client over them, and its errors when they fail."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_broker import Asked, FakeBroker, peer
from tests.client.producer_stage import Leader, values
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client import Admin, Consumer, KohortError, Producer
from kohort.client.config import CommonConfig
from kohort.client.errors import ConnectionFailedError, SaslAuthenticationError
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import Connection
from kohort.client.security import NewConnection
from kohort.protocol.apis.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kohort.protocol.apis.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kohort.protocol.errors import ErrorCode

TLS = "SSL"


def certificate(folder: Path, name: str, alternative: str) -> tuple[Path, Path]:
    """A self-signed certificate, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=broker"
    more = f"-addext subjectAltName={alternative} -keyout {key} -out {cert}"
    subprocess.run(f"{command} {more}".split(), check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates: of 127.0.0.1, and of another host."""
    folder = tmp_path_factory.mktemp("certificates")
    certificate(folder, "here", "IP:127.0.0.1")
    certificate(folder, "elsewhere", "DNS:broker.example")
    return folder


def theirs(folder: Path, name: str = "here") -> ssl.SSLContext:
    """The server's TLS context for this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


def trusting(folder: Path, name: str = "here") -> ssl.SSLContext:
    """A client's TLS context that trusts only this certificate."""
    return ssl.create_default_context(cafile=str(folder / f"{name}.pem"))


async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Passes bytes on until either side ends the connection."""
    while data := await source.read(65_536):
        to.write(data)
        await to.drain()
    raise ConnectionResetError


@contextlib.asynccontextmanager
async def behind_tls(folder: Path, name: str = "here") -> AsyncIterator[Broker]:
    """A broker with TLS only, at its advertised address."""

    async def serve(
        requests: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        responses, to_broker = await asyncio.open_connection("127.0.0.1", broker.port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(pass_on(requests, to_broker))
                group.create_task(pass_on(responses, to_client))
        except* OSError:
            pass
        finally:
            to_broker.transport.abort()

    config = {"group.initial.rebalance.delay.ms": 0}
    async with (
        peer(serve, theirs(folder, name)) as address,
        Broker(config, advertise=address) as broker,
    ):
        yield broker


async def refused(address: str, **settings: Any) -> KohortError:
    """The error of an admin client's start."""
    settings = {"default_api_timeout_ms": 60_000, **settings}
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(KohortError) as caught:
            async with Admin(bootstrap_servers=address, **settings):
                pass
    return caught.value


async def once(address: str, **settings: Any) -> KohortError:
    """The retriable error of one attempt to find the cluster."""
    cluster = Cluster(CommonConfig(bootstrap_servers=(address,), **settings))
    with pytest.raises(ConnectionFailedError) as caught:
        await cluster.refresh()
    await cluster.close(0)
    assert caught.value.retriable
    assert caught.value.api in {"ApiVersions", "Metadata"}
    assert address in str(caught.value)
    return caught.value


async def test_records_go_to_and_fro_by_tls(folder: Path) -> None:
    """Producer, consumer of a group, admin: megabytes of it."""
    tls = {"security_protocol": TLS, "ssl_context": trusting(folder)}
    sent = [b"%d" % n + bytes(50_000) for n in range(100)]
    async with behind_tls(folder) as broker, asyncio.timeout(PATIENCE):
        servers: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, **tls}
        async with Producer(**servers) as producer:
            for value in sent:
                await producer.send("t", value, partition=0)
            await producer.flush()
        got: list[Any] = []
        settings: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
        consumer = Consumer(**servers, **settings)
        async with consumer:
            consumer.subscribe(["t"])
            while len(got) < len(sent):
                for records in (await consumer.getmany(timeout_ms=1_000)).values():
                    got += [record.value for record in records]
        assert got == sent == values(broker, "t")
        async with Admin(**servers) as admin:
            assert "g" in (await admin.list_consumer_groups()).groups


async def test_a_broker_that_is_not_trusted_is_named(folder: Path) -> None:
    """Immediately: a retry would not help."""
    async with behind_tls(folder) as broker:
        context = trusting(folder, "elsewhere")
        address = broker.bootstrap_servers
        error = await refused(address, security_protocol=TLS, ssl_context=context)
        assert isinstance(error, ConnectionFailedError)
        assert not error.retriable
        assert address in str(error)
        assert "certificate verify failed" in str(error)
        error = await refused(address, security_protocol=TLS)
        assert "certificate verify failed" in str(error), "the system's are used"


async def test_a_certificate_of_somebody_else_is_refused(folder: Path) -> None:
    """It is trusted, but for another host."""
    async with behind_tls(folder, "elsewhere") as broker:
        context = trusting(folder, "elsewhere")
        address = broker.bootstrap_servers
        error = await refused(address, security_protocol=TLS, ssl_context=context)
        assert not error.retriable
        assert address in str(error)
        assert "not valid for '127.0.0.1'" in str(error)
        context = trusting(folder, "elsewhere")
        context.check_hostname = False
        settings: dict[str, Any] = {"security_protocol": TLS, "ssl_context": context}
        async with Admin(bootstrap_servers=address, **settings) as admin:
            assert await admin.list_topics() == {}


async def test_tls_with_a_broker_that_has_none(folder: Path) -> None:
    """The error names the handshake."""
    async with Broker() as broker:
        address = broker.bootstrap_servers
        error = await once(address, security_protocol=TLS, ssl_context=trusting(folder))
        assert "the broker ended the TLS handshake" in str(error)


async def test_the_alert_of_a_listener_with_tls_names_the_setting() -> None:
    """As a size it would be 350 MB; a retry would not help."""

    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x46")
        await reader.read()  # until the client has had enough

    async with peer(alert) as address:
        error = await refused(address)
    assert isinstance(error, ConnectionFailedError)
    assert not error.retriable
    assert "speaks TLS: try security_protocol='SSL' or 'SASL_SSL'" in str(error)


# -- SASL


def plain(user: str, password: str) -> Any:
    """SASL PLAIN (RFC 4616), as an application would write it."""
    requests = {
        "SaslHandshake": SaslHandshakeRequest("PLAIN"),
        "SaslAuthenticate": SaslAuthenticateRequest(f"\0{user}\0{password}".encode()),
    }

    async def authenticate(connection: NewConnection) -> None:
        for api, request in requests.items():
            answer = await connection.send(api, connection.version(api), request)
            if answer.error_code:
                message = getattr(answer, "error_message", None)
                raise connection.error_of(answer.error_code, api, message)

    return authenticate


class Guarded(Leader):
    """A leader that hangs up on clients that have not finished PLAIN.

    Attributes:
        password: of the user "me".
        lifetime_ms: of sessions; 0 for no end.
    """

    def __init__(
        self,
        mechanisms: tuple[str, ...] = ("PLAIN",),
        *,
        lifetime_ms: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.mechanisms = mechanisms
        self.lifetime_ms = lifetime_ms
        self.password = b"secret"
        self.admitted: set[Any] = set()
        for name, answer in self.answers.items():
            self.answers[name] = self._guarding(answer)
        self.answers["SaslHandshake"] = self._handshake
        self.answers["SaslAuthenticate"] = self._authenticate

    def _guarding(self, answer: Any) -> Any:
        def guarded(asked: Asked) -> None:
            if asked.writer in self.admitted:
                answer(asked)
            else:
                asked.close()

        return guarded

    def _handshake(self, asked: Asked) -> None:
        self.admitted.discard(asked.writer)
        is_known = asked.message.mechanism in self.mechanisms
        code = 0 if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        asked.reply(SaslHandshakeResponse(code, self.mechanisms))

    def _authenticate(self, asked: Asked) -> None:
        if asked.message.auth_bytes == b"\0me\0" + self.password:
            self.admitted.add(asked.writer)
            done = SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
            asked.reply(done)
            return
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        asked.reply(SaslAuthenticateResponse(code, "Invalid username or password"))


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_hook_is_enough_for_sasl(protocol: str, folder: Path) -> None:
    """Each new connection is authenticated before any other request."""
    settings: dict[str, Any] = {"security_protocol": protocol}
    tls = None
    if protocol == "SASL_SSL":
        tls, settings["ssl_context"] = theirs(folder), trusting(folder)
    settings["authenticate"] = plain("me", "secret")
    async with Guarded(tls=tls) as broker, asyncio.timeout(PATIENCE):
        servers: dict[str, Any] = {"bootstrap_servers": broker.address, "linger_ms": 0}
        async with Producer(**servers, **settings) as producer:
            await producer.send_and_wait("t", b"v", partition=0)
            broker.hang_up()
            await broker.is_left_alone()
            await producer.send_and_wait("t", b"v", partition=0)
        firsts: dict[Any, list[str]] = {}
        for asked in broker.asked:
            firsts.setdefault(asked.writer, []).append(asked.api.name)
        assert len(firsts) > 1
        for names in firsts.values():
            assert names[:2] == ["SaslHandshake", "SaslAuthenticate"]


async def test_wrong_credentials_end_the_start_at_once() -> None:
    """With the broker's message; nothing is retried."""
    sasl = "SASL_PLAINTEXT"
    async with Guarded() as broker:
        hook = plain("me", "wrong")
        error = await refused(broker.address, security_protocol=sasl, authenticate=hook)
        assert isinstance(error, SaslAuthenticationError)
        assert str(error) == (
            f"SaslAuthenticate at {broker.address}: Invalid username or password "
            "(SASL_AUTHENTICATION_FAILED)"
        )
        assert broker.opened == 1
    async with Guarded(mechanisms=("SCRAM-SHA-256",)) as broker:
        error = await refused(broker.address, security_protocol=sasl, authenticate=hook)
        assert isinstance(error, SaslAuthenticationError)
        assert error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


async def test_a_client_without_credentials_says_where_it_was_turned_away() -> None:
    """The broker closes the connection without a reason, as in Kafka."""
    async with Guarded() as broker:
        error = await once(broker.address)
        assert "the broker closed it" in str(error)


async def test_who_hangs_in_a_hook_is_given_up() -> None:
    """Authentication counts toward the time limit for new connections."""

    async def never(connection: Connection) -> None:
        await asyncio.Event().wait()

    async with FakeBroker() as broker:
        limit = {"socket_connection_setup_timeout_ms": 50}
        error = await once(broker.address, authenticate=never, **limit)
        assert "not connected within 50 ms" in str(error)
        await broker.is_left_alone()


async def test_a_hook_that_fails_is_an_error_of_the_connection() -> None:
    """An error that is not kohort's is wrapped, and not retried."""

    async def authenticate(_: Connection) -> None:
        raise KeyError("password")

    async with FakeBroker() as broker:
        error = await refused(broker.address, authenticate=authenticate)
        assert isinstance(error, ConnectionFailedError)
        assert "'password'" in str(error)
        assert isinstance(error.__cause__, KeyError)
        assert not error.retriable
        await broker.is_left_alone()


@pytest.mark.parametrize("has_tls", [False, True])
async def test_a_listener_with_sasl_names_the_setting(
    folder: Path, *, has_tls: bool
) -> None:
    """It closes on the first request; the next connection asks for a mechanism."""
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    offer = SaslHandshakeResponse(code, ("SCRAM-SHA-256",))
    tls = theirs(folder) if has_tls else None
    async with FakeBroker(
        {"Metadata": Asked.close, "SaslHandshake": lambda asked: asked.reply(offer)},
        tls=tls,
    ) as broker:
        settings = {"security_protocol": TLS, "ssl_context": trusting(folder)}
        error = await refused(broker.address, **(settings if has_tls else {}))
    assert not error.retriable
    protocol = "SASL_SSL" if has_tls else "SASL_PLAINTEXT"
    assert "the listener wants SASL (SCRAM-SHA-256)" in str(error)
    assert f"try security_protocol={protocol!r}" in str(error)
