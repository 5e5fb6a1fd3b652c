"""Authentication at Apache Kafka 4.3, the reference for all of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import apache_kafka
from tests.apache_kafka import Kafka
from tests.client.network.test_tls import certificate, once, refused, trusting
from tests.client.sent_requests import SentRequests
from tests.client.stage import PATIENCE, QUICK

from kohort.client import Admin, Consumer, NewTopic, OAuthToken, Producer
from kohort.client.errors import SaslAuthenticationError
from kohort.protocol.errors import ErrorCode

pytestmark = pytest.mark.interop

SASL, TLS = "SASL_PLAINTEXT", "SASL_SSL"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 2_000
"""Kafka's connections.max.reauth.ms; it takes no two authentications within 1 s."""
TOKEN_MS = 4_000

ODD = "p\u00e4ss\u00a0w\u00ad\u2168=rd"
"""SASLprep would make "p\u00e4ss wIX=rd" of it."""
USERS = {"alice": "her-secret", "o=dd": ODD}

_MODULE = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1, and a file with its key for Kafka."""
    folder = tmp_path_factory.mktemp("certificates")
    cert, key = certificate(folder, "here", "IP:127.0.0.1")
    (folder / "keystore.pem").write_text(key.read_text() + cert.read_text())
    return folder


@pytest.fixture(scope="module")
def kafka(certificates: Path) -> Iterator[Kafka]:
    """A node that takes each mechanism without TLS, and SCRAM-SHA-512 with it."""
    plain = f"listener.name.{SASL.lower()}"
    tls = f"listener.name.{TLS.lower()}"
    scram = f"{_MODULE}.scram.ScramLoginModule required;"
    oauth = f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;"
    config = {
        "group.initial.rebalance.delay.ms": 0,
        "connections.max.reauth.ms": SESSION_MS,
        f"{plain}.sasl.enabled.mechanisms": ",".join(["PLAIN", "OAUTHBEARER", *SCRAM]),
        f"{plain}.plain.sasl.jaas.config": (
            f'{_MODULE}.plain.PlainLoginModule required user_alice="her-secret";'
        ),
        f"{plain}.oauthbearer.sasl.jaas.config": oauth,
        **{f"{plain}.{name.lower()}.sasl.jaas.config": scram for name in SCRAM},
        f"{tls}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{tls}.scram-sha-512.sasl.jaas.config": scram,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates / "keystore.pem",
    }
    users = [
        f"{mechanism}=[name={name},password={password}]"
        for mechanism in SCRAM
        for name, password in USERS.items()
    ]
    running = apache_kafka.running(config, listeners=[SASL, TLS], scram_users=users)
    with running as node:
        yield node


def jwt(lifetime_ms: int = TOKEN_MS) -> str:
    """A token without a signature, as Kafka takes it by default."""
    now = time.time()
    claims = {"sub": "alice", "iat": now, "exp": now + lifetime_ms / 1000}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    text = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
    return ".".join([*text, ""])


class Provider:
    """Gets tokens, and counts them."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> OAuthToken:
        """Gets one."""
        self.calls += 1
        return OAuthToken(jwt(), TOKEN_MS, {"traceId": str(self.calls)})


def settings(kafka: Kafka, mechanism: str, protocol: str = SASL) -> dict[str, Any]:
    """Those of alice."""
    common = {
        "bootstrap_servers": kafka.secured[protocol],
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return common | {"sasl_oauth_token_provider": Provider()}
    return common | {"sasl_username": "alice", "sasl_password": "her-secret"}


def group(name: str) -> dict[str, Any]:
    """The settings of a member that reads from the beginning."""
    return {**QUICK, "group_id": name, "auto_offset_reset": "earliest"}


@contextlib.asynccontextmanager
async def topic(**alice: Any) -> AsyncIterator[str]:
    """A topic that alice has made."""
    name = uuid.uuid4().hex
    async with asyncio.timeout(PATIENCE):
        async with Admin(**alice) as admin:
            (await admin.create_topics([NewTopic(name)])).check()
        yield name


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [
        *((name, SASL) for name in ("PLAIN", "OAUTHBEARER", *SCRAM)),
        ("SCRAM-SHA-512", TLS),
    ],
)
async def test_records_go_to_and_fro(
    kafka: Kafka, certificates: Path, mechanism: str, protocol: str
) -> None:
    """Admin, producer and a group's consumer, over each mechanism."""
    alice = settings(kafka, mechanism, protocol)
    if protocol == TLS:
        alice["ssl_context"] = trusting(certificates)
    async with topic(**alice) as name:
        async with Producer(**alice, linger_ms=0) as producer:
            await producer.send_and_wait(name, b"v")
        async with Consumer(name, **group(name), **alice) as consumer:
            assert (await consumer.getone()).value == b"v"


@pytest.mark.parametrize("mechanism", SCRAM)
async def test_a_password_is_used_as_it_is(kafka: Kafka, mechanism: str) -> None:
    """Kafka stores what its UTF-8 bytes yield, without SASLprep."""
    odd = {"sasl_username": "o=dd", "sasl_password": ODD}
    async with Admin(**settings(kafka, mechanism) | odd) as admin:
        await admin.list_topics()
    odd["sasl_password"] = "p\u00e4ss wIX=rd"
    alice = settings(kafka, mechanism) | odd
    error = await refused(alice.pop("bootstrap_servers"), **alice)
    assert isinstance(error, SaslAuthenticationError)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
async def test_a_wrong_password(kafka: Kafka, mechanism: str) -> None:
    """At once, in Kafka's words."""
    alice = settings(kafka, mechanism) | {"sasl_password": "wr0ng"}
    address = alice.pop("bootstrap_servers")
    error = await refused(address, **alice)
    assert isinstance(error, SaslAuthenticationError)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert f"SaslAuthenticate at {address}: {mechanism}: Authentication failed" in str(
        error
    )
    assert "wr0ng" not in str(error)


async def test_a_token_that_has_expired(kafka: Kafka) -> None:
    """At once, with the status that Kafka gives."""

    async def expired() -> str:
        return jwt(-60_000)

    alice = settings(kafka, "OAUTHBEARER") | {"sasl_oauth_token_provider": expired}
    error = await refused(alice.pop("bootstrap_servers"), **alice)
    assert isinstance(error, SaslAuthenticationError)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert '"status":"invalid_token"' in str(error)


async def test_a_mechanism_that_is_not_enabled(
    kafka: Kafka, certificates: Path
) -> None:
    """The error lists those that are."""
    alice = settings(kafka, "PLAIN", TLS) | {"ssl_context": trusting(certificates)}
    error = await refused(alice.pop("bootstrap_servers"), **alice)
    assert isinstance(error, SaslAuthenticationError)
    assert "does not offer PLAIN, it offers SCRAM-SHA-512" in str(error)


async def test_listeners_of_another_security_protocol(kafka: Kafka) -> None:
    """SASL where there is none, and none where there is SASL."""
    alice = settings(kafka, "PLAIN")
    del alice["bootstrap_servers"]
    error = await refused(kafka.bootstrap_servers, **alice)
    assert isinstance(error, SaslAuthenticationError)
    assert "this listener has no SASL" in str(error)
    assert "the broker closed it" in str(await once(kafka.secured[SASL]))


async def test_sessions_end_while_groups_are_at_work(
    kafka: Kafka, sent: SentRequests
) -> None:
    """Connections authenticate again and stay: no rebalance, no record is missed."""

    def count(api: str) -> int:
        return sum(each.api == api for each in sent.exchanges)

    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        alices = [settings(kafka, name) for name in ("PLAIN", "OAUTHBEARER", *SCRAM)]
        idle = await stack.enter_async_context(Admin(**alices[0]))
        pairs = [await stack.enter_async_context(at_work(alice)) for alice in alices]
        connections, done = count("ApiVersions"), count("SaslHandshake")
        # Each producer has a connection, each consumer two: all do it twice.
        enough = done + len(pairs) * 3 * 2

        async def work(name: str, producer: Producer, consumer: Consumer) -> None:
            number = 0
            while count("SaslHandshake") < enough:
                number += 1
                await producer.send_and_wait(name, b"%d" % number)
                assert (await consumer.getone()).value == b"%d" % number
            # The first is answered with MEMBER_ID_REQUIRED (KIP-394).
            assert len(sent.requests("JoinGroup", name)) == 2

        await asyncio.gather(*(work(*pair) for pair in pairs))
        await idle.list_topics()  # its session is over
        assert count("ApiVersions") == connections
        provider = alices[1]["sasl_oauth_token_provider"]
        assert provider.calls > 3, "a token for each client, and newer ones"


@contextlib.asynccontextmanager
async def at_work(
    alice: dict[str, Any],
) -> AsyncIterator[tuple[str, Producer, Consumer]]:
    """A producer and a consumer, which have sent and read the first record."""
    async with (
        topic(**alice) as name,
        Producer(**alice, linger_ms=0) as producer,
        Consumer(name, **group(name), **alice) as consumer,
    ):
        await producer.send_and_wait(name, b"0")
        assert (await consumer.getone()).value == b"0"
        yield name, producer, consumer
