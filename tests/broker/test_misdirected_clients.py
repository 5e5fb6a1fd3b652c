"""Clients that want what kohort does not have: one line in the log says what to change.

Most of them try again without end, and say nothing of use themselves.
"""

from __future__ import annotations

import json
import ssl
import tracemalloc
from typing import Any

import confluent_kafka
import pytest
from tests.events.checks import check
from tests.patience import PATIENCE_S
from tests.wire.client import connected, served

from kohort.broker.server import Broker
from kohort.broker.telemetry import MOST_FIRST_TIMES, FirstTimes
from kohort.control.group import Group
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME

TRANSACTION = 1


def client_hello() -> bytes:
    """The first bytes of a TLS connection."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of the log since the last call."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


HTTP = "HTTP on the Kafka port; the HTTP port is that of --http"
TLS = "TLS on a plaintext port; set security.protocol=PLAINTEXT"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (client_hello(), TLS),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", HTTP),
        (b"POST /v1/groups HTTP/1.1\r\n\r\n", HTTP),
    ],
    ids=["TLS", "GET", "POST"],
)
async def test_another_protocol_is_named_once(
    sent: bytes, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often the client connects; the connection is closed each time."""
    async with Broker() as broker:
        for _ in range(3):
            async with connected(broker) as peer:
                peer.writer.write(sent)
                await peer.is_closed()
    (line,) = lines(capsys)
    assert (line["event"], line["reason"]) == ("connection_closed", reason)


async def test_other_bytes_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """They name no protocol: each line has the size that was read."""
    async with Broker() as broker:
        for _ in range(2):
            async with connected(broker) as peer:
                peer.writer.write(b"\x7f\0\0\0")
                await peer.is_closed()
    reasons = [line["reason"] for line in lines(capsys)]
    assert reasons == ["a frame of 2130706432 bytes; the limit is 104857600"] * 2


async def test_sasl_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A client with SASL_PLAINTEXT asks for it first."""
    async with served() as client:
        for _ in range(2):
            await client.call("SaslHandshake", 1, SaslHandshakeRequest("PLAIN"))
    (line,) = lines(capsys)
    assert line["event"] == "sasl_unsupported"
    assert "security.protocol=PLAINTEXT" in line["reason"]


CLASSIC = {"group.coordinator.rebalance.protocols": "classic"}
"""Without groups of newer protocols."""


@pytest.mark.parametrize(
    ("api", "version"),
    [
        ("ConsumerGroupHeartbeat", 1),
        ("ShareGroupHeartbeat", 1),
        ("StreamsGroupHeartbeat", 0),
    ],
)
async def test_newer_groups_are_refused(
    api: str, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each heartbeat with UNSUPPORTED_VERSION; the log has a line for each group."""
    async with served(**CLASSIC) as client:
        for group in ("g", "h", "g"):
            heartbeat = BY_NAME[api].request_class(group, "m", 0)
            answer = await client.call(api, version, heartbeat)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    said = lines(capsys)
    assert {line["event"] for line in said} == {"group_protocol_unsupported"}
    assert [line["group"] for line in said] == ["g", "h"]
    assert {line["reason"] for line in said} == {answer.error_message}


async def test_kohort_why_explains_a_group_of_a_newer_protocol() -> None:
    """It has no rebalance, and one finding, with the setting to change."""
    async with Broker(CLASSIC) as broker, connected(broker) as client:
        heartbeat = BY_NAME["ConsumerGroupHeartbeat"].request_class("g", "m", 0)
        for _ in range(2):
            await client.call("ConsumerGroupHeartbeat", 1, heartbeat)
        found = Group(broker, "g").history()
        (event,) = broker.events.recent("g")
    check(event)
    assert (event["kind"], event["cause"]) == ("member_refused", "unsupported")
    assert [each.code for each in found.findings] == ["unsupported-protocol"]
    assert "group.protocol=classic" in found.text()
    (evidence,) = found.findings[0].evidence
    assert "client wire-client" in evidence.text


def test_librdkafka_fails_for_a_newer_group() -> None:
    """At once, and not by waiting for a coordinator without an end."""
    with Broker(CLASSIC) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
            "log_level": 0,
        }
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe(["orders"])
        message = consumer.poll(PATIENCE_S)
        consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert "ConsumerGroupHeartbeat fatal error" in error.str()


def test_the_memory_of_first_times_is_bounded() -> None:
    """Clients choose the keys: it begins anew when there are too many."""
    seen = FirstTimes()
    assert all(seen.add(str(number)) for number in range(MOST_FIRST_TIMES))
    assert not seen.add("0")
    assert seen.add("one more")
    assert seen.add("0")


def test_first_times_do_not_keep_long_names() -> None:
    """A group id or transactional id may have 32,767 bytes."""
    seen = FirstTimes()
    tracemalloc.start()
    try:
        for number in range(100):
            seen.add("a kind of request", f"{number}" + "x" * 32_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
