"""Connections: order, back-pressure, invalid input, and their ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

import pytest
from tests.wire import frames
from tests.wire.client import WireClient, connected, connections
from tests.wire.requests import (
    TOPIC,
    commit_offsets,
    describe_configs,
    join_group,
    metadata,
)

from kohort.broker.connection import Connection
from kohort.broker.server import Broker, Listener
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest

ApiVersions = ApiVersionsRequest("tests", "1")
Heartbeat = HeartbeatRequest("some-group", 1, "nobody")


def end_of(broker: Broker | Listener, peer: WireClient) -> Connection:
    """The broker's end of a connection."""
    host, port = peer.writer.get_extra_info("sockname")
    (found,) = (c for c in broker.connections if c.client_address == f"{host}:{port}")
    return found


async def test_answers_come_in_the_order_of_requests() -> None:
    """Also behind a JoinGroup that waits for its group's first window."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 50}) as broker,
        connected(broker) as peer,
    ):
        peer.writer.write(
            frames.request("ApiVersions", 3, ApiVersions, 1)
            + frames.request("JoinGroup", 3, join_group(), 2)
            + frames.request("Heartbeat", 4, Heartbeat, 3)
            + frames.request("ApiVersions", 3, ApiVersions, 4)
        )
        assert [await peer.next_correlation_id() for _ in range(4)] == [1, 2, 3, 4]


BAD_INPUT = {
    "negative size": struct.pack(">i", -1),
    "size above socket.request.max.bytes": struct.pack(">i", 104_857_601),
    "no header": struct.pack(">i", 3) + b"abc",
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown API key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "unsupported version": struct.pack(">ihhih", 10, 12, 99, 1, -1),
    "body too short": struct.pack(">ihhih", 10, 12, 0, 1, -1),
    "array of 2**31 - 1": struct.pack(">ihhihi", 14, 15, 0, 1, -1, 2**31 - 1),
    "client id beyond the frame": struct.pack(">ihhih", 10, 18, 0, 1, 30_000),
    "tags without end": frames.frame(
        struct.pack(">hhih", 12, 4, 1, -1)
        + b"\0\2g"
        + bytes(4)
        + b"\2m\0"
        + b"\xff\xff\x03"
        + b"\1\0" * 30_000
    ),
    "long body too short": frames.frame(
        struct.pack(">hhihi", 3, 1, 1, -1, 50_000) + bytes(60_000)
    ),
    "endless varint": struct.pack(">ihhih", 22, 15, 5, 1, -1) + b"\xff" * 12,
}


@pytest.mark.parametrize("what", sorted(BAD_INPUT))
async def test_bad_input_ends_its_connection_alone(what: str) -> None:
    """Earlier requests are answered, and other connections are not affected."""
    async with Broker() as broker, connected(broker) as good, connected(broker) as bad:
        bad.writer.write(
            frames.request("ApiVersions", 3, ApiVersions, 5) + BAD_INPUT[what]
        )
        assert await bad.next_correlation_id() == 5
        await bad.is_closed()
        await good.is_served()


async def test_a_long_request_lets_others_in_between() -> None:
    """A commit of 20,000 rows is decoded, handled and answered in many turns."""
    commit = commit_offsets("t", *[(0, 5)] * 20_000)
    async with Broker() as broker, connections(broker, 2) as (other, peer):
        broker.cluster.create_topic("t", 1)
        await peer.is_served()
        long_work = broker.cluster.long_work
        peer.writer.write(frames.request("OffsetCommit", 8, commit, 7))
        answered = asyncio.ensure_future(peer.next_correlation_id())
        served = 0
        while not answered.done():
            await other.is_served()
            served += 1
        assert answered.result() == 7
        assert served > 1
        assert len(long_work) == 0


async def test_a_long_request_ends_with_its_connection() -> None:
    """The rest of a long request is not even decoded."""
    commit = commit_offsets("t", *[(0, 5)] * 20_000)
    async with Broker() as broker, connected(broker) as peer:
        await peer.is_served()
        connection = end_of(broker, peer)
        connection.data_received(frames.request("OffsetCommit", 8, commit))
        assert len(broker.cluster.long_work) == 1
        connection.abort()
        await peer.is_closed()
        assert len(broker.cluster.long_work) == 0


async def test_an_unknown_version_of_api_versions_is_answered() -> None:
    """The response is v0: UNSUPPORTED_VERSION and the known versions (KIP-511)."""
    async with Broker() as broker, connected(broker) as peer:
        peer.writer.write(struct.pack(">ihhih", 10, 18, 99, 8, -1))
        answer = await peer.next_frame()
        assert struct.unpack(">ihihhh", answer) == (8, 35, 1, 18, 0, 4)
        await peer.is_served()


async def test_who_does_not_read_is_not_read_from() -> None:
    """Requests wait at the client, not in the broker; none is lost."""
    request = frames.request("ApiVersions", 3, ApiVersions)
    async with Broker() as broker, connections(broker, 2) as (other, peer):
        await peer.is_served()
        slow = end_of(broker, peer)
        sent = 0
        while slow.is_reading:
            peer.writer.write(request * 100)
            sent += 100
            await other.is_served()
        for _ in range(sent):
            await peer.next_correlation_id()
        await peer.is_served()
        assert slow.is_reading


async def test_a_join_outlives_its_connection() -> None:
    """As in Kafka, members do not belong to connections; the response is dropped."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 100}) as broker,
        connected(broker) as other,
    ):
        async with connected(broker) as peer:
            peer.writer.write(frames.request("JoinGroup", 3, join_group()))
            await peer.writer.drain()
            await other.is_served()
        # The first window ends after a while; this member waits for the second.
        other.writer.write(frames.request("JoinGroup", 3, join_group(), 9))
        assert await other.next_correlation_id() == 9


async def test_a_waiting_fetch_is_forgotten_with_its_connection() -> None:
    """The partition keeps no callback of it."""
    async with Broker() as broker, connected(broker) as other:
        topic = broker.cluster.create_topic("t", 1)
        async with connected(broker) as peer:
            fetch = FetchRequest(
                max_wait_ms=600_000,
                min_bytes=1,
                topics=[FetchTopic("t", bytes(16), [FetchPartition(0)])],
            )
            peer.writer.write(
                frames.request("Fetch", 4, fetch)
                + frames.request("Heartbeat", 4, Heartbeat)
            )
            while not topic.partitions[0].watchers:
                await other.is_served()
            # A reset: after a normal end of the stream the response would still be
            # sent.
            sock = peer.writer.get_extra_info("socket")
            linger = struct.pack("ii", 1, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            peer.writer.transport.abort()
        while topic.partitions[0].watchers:
            await other.is_served()


async def test_a_half_closed_connection_gets_its_answer() -> None:
    """It gets its response, then it is closed."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 50}) as broker,
        connected(broker) as peer,
    ):
        peer.writer.write(frames.request("JoinGroup", 3, join_group(), 6))
        peer.writer.write_eof()
        assert await peer.next_correlation_id() == 6
        await peer.is_closed()


async def test_stop_closes_every_connection() -> None:
    """Stop closes idle connections and those with waiting requests."""
    async with Broker() as broker, connections(broker, 2) as (idle, waiting):
        await idle.is_served()
        waiting.writer.write(frames.request("JoinGroup", 3, join_group()))
        await waiting.writer.drain()
        await idle.is_served()
        await broker.stop()
        await idle.is_closed()
        await waiting.is_closed()


async def test_a_port_is_listened_on_once() -> None:
    """The second broker fails to start, the first one continues."""
    async with Broker() as broker, connected(broker) as peer:
        with pytest.raises(OSError, match="address already in use"):
            await Broker(port=broker.port).start()
        await peer.is_served()


async def test_max_connections() -> None:
    """One connection more than allowed is closed; the others stay."""
    async with (
        Broker({"max.connections": 2}) as broker,
        connections(broker, 2) as (one, two),
    ):
        await one.is_served()
        await two.is_served()
        async with connected(broker) as three:
            await three.is_closed()
        await one.is_served()


async def test_idle_connections_are_closed() -> None:
    """Idle connections are closed after ``connections.max.idle.ms``."""
    async with (
        Broker({"connections.max.idle.ms": 200}) as broker,
        connected(broker) as peer,
    ):
        await peer.is_served()
        await peer.is_closed()


async def test_a_thousand_connections() -> None:
    """All are answered, and each sees the topics that the others create."""
    async with Broker() as broker, contextlib.AsyncExitStack() as stack:
        peers = [
            await stack.enter_async_context(connected(broker)) for _ in range(1000)
        ]
        await asyncio.gather(*(peer.is_served() for peer in peers))
        assert len(broker.connections) == 1000
        for peer in peers:
            peer.writer.write(frames.request("Metadata", 4, metadata("new")))
        answers = await asyncio.gather(*(peer.next_frame() for peer in peers))
        assert len(set(answers)) == 2  # the first response calls the topic unknown
        assert list(broker.cluster.topics.by_name) == ["new"]


async def test_nothing_long_is_taken_in_behind_a_request_that_waits() -> None:
    """Not even one request is read that is longer than the read-ahead limit."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 600_000}) as broker,
        connections(broker, 2) as (other, peer),
    ):
        await peer.is_served()
        connection = end_of(broker, peer)
        peer.writer.write(frames.request("JoinGroup", 3, join_group()))
        peer.writer.write(struct.pack(">i", 50_000_000))
        while connection.is_reading:
            peer.writer.write(bytes(10_000))
            await other.is_served()
        await other.is_served()


async def test_an_answer_that_cannot_be_written_ends_its_connection_alone() -> None:
    """In DescribeConfigs v1 texts have an int16 length, which others may exceed."""
    long = {"follower.replication.throttled.replicas": "x" * 40_000}
    request = describe_configs(TOPIC, "t")
    async with Broker() as broker, connections(broker, 2) as (peer, other):
        broker.cluster.create_topic("t", 1, overrides=long)
        peer.writer.write(frames.request("DescribeConfigs", 1, request))
        await peer.is_closed()
        await other.is_served()
