"""Connections that vanish, lag, or send too much at once do not affect others."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.broker.test_cluster import until
from tests.broker.test_connection import ApiVersions, Heartbeat, end_of
from tests.broker.topics import delete_topic
from tests.manual_clock import ManualClock
from tests.protocol.in_pieces import finished
from tests.wire import frames
from tests.wire.client import connected, connected_to
from tests.wire.requests import commit_offsets, fetch, join_group, metadata

from kohort.broker import connection as connections
from kohort.broker import request as requests
from kohort.broker import telemetry
from kohort.broker.api_counts import ApiCounters
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.connection import (
    FRAME_COST,
    HALF_CLOSED_SECONDS,
    SLOW_SECONDS,
    TURN,
    Connection,
)
from kohort.broker.events.bus import Events
from kohort.broker.flow_control import READ_AHEAD, Unread
from kohort.broker.housekeeping import Housekeeper
from kohort.broker.ids import Ids
from kohort.broker.request import JOIN_BELOW, ResponseFormat, join_small
from kohort.broker.server import Broker, Listener
from kohort.broker.transports import send_unpaced
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kohort.protocol.fields import Buffer
from kohort.protocol.framing import LONG_FRAME
from kohort.protocol.registry import BY_NAME

FOREVER_MS = 2**31 - 1
BEAT = frames.request("Heartbeat", 4, Heartbeat)[4:]
UNKNOWN_VERSION = struct.pack(">hhih", BY_NAME["ApiVersions"].key, 99, 1, -1)


class Wire(asyncio.Transport):
    """A transport that keeps the bytes written to it."""

    def __init__(self, accepted: socket.socket | None) -> None:
        super().__init__({"socket": accepted} if accepted else {})
        self.written = b""
        self.is_reading_now = True
        self.is_closed_now = False
        self._protocol: asyncio.BaseProtocol | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Notes the protocol, which tests do not use: they call the connection."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that was set."""
        return self._protocol or asyncio.Protocol()

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """The buffer is never full."""

    def get_write_buffer_size(self) -> int:
        """All bytes are read at once."""
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keeps the bytes."""
        self.written += data

    def is_closing(self) -> bool:
        """Returns whether it is closed."""
        return self.is_closed_now

    def close(self) -> None:
        """Notes the call."""
        self.is_closed_now = True

    abort = close

    def pause_reading(self) -> None:
        """Notes the call."""
        self.is_reading_now = False

    def resume_reading(self) -> None:
        """Notes the call."""
        self.is_reading_now = True

    def answers(self) -> int:
        """The number of responses written."""
        position = count = 0
        while position < len(self.written):
            position += 4 + struct.unpack_from(">i", self.written, position)[0]
            count += 1
        return count


def wired(
    broker: Broker, accepted: socket.socket | None = None
) -> tuple[Connection, Wire]:
    """A connection to the first node, without a network."""
    opened: set[Connection] = set()
    connection = Connection(broker.cluster.nodes[1], opened)
    wire = Wire(accepted)
    connection.connection_made(wire)
    return connection, wire


def waiting_fetch() -> bytes:
    """A Fetch that waits for 24 days."""
    return frames.request("Fetch", 4, fetch(0, wait_ms=FOREVER_MS))


class ByHand:
    """A node whose time is moved by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        config = {
            "connections.max.idle.ms": -1,
            "group.initial.rebalance.delay.ms": FOREVER_MS,
        }
        self.cluster = Cluster(Config(config), self.clock, Ids(1), events=Events({}))
        self.topic = self.cluster.create_topic("t", 1)
        self.listener = Listener(self.cluster.nodes[1], "127.0.0.1", [0])

    async def until_all_have_gone(self) -> None:
        """Moves time until no connection is left."""
        while self.listener.connections:
            self.clock.skip(HALF_CLOSED_SECONDS)
            await asyncio.sleep(0)


@pytest.fixture
async def by_hand() -> AsyncIterator[ByHand]:
    """A listening node, without clients yet."""
    scene = ByHand()
    listener = scene.listener
    await listener.bind()
    await listener.serve()
    housekeeper = Housekeeper(scene.cluster, lambda: listener.connections)
    housekeeper.start()
    yield scene
    housekeeper.stop()
    listener.close()
    await listener.drain()
    scene.cluster.close()


@pytest.mark.parametrize(
    "request_", [waiting_fetch(), frames.request("JoinGroup", 3, join_group())]
)
@pytest.mark.parametrize("behind", [0, 2 * READ_AHEAD])
async def test_a_client_that_has_gone_is_forgotten(
    by_hand: ByHand, request_: bytes, behind: int
) -> None:
    """Its request could wait for days; the end may be behind unread bytes."""
    async with connected_to(by_hand.listener.host, by_hand.listener.ports[0]) as peer:
        more = frames.request("ApiVersions", 3, ApiVersions)
        peer.writer.write(request_ + more * (behind // len(more)))
        if behind:
            # The end arrives when nothing is read any more.
            peer.writer.write(more)
            await until(lambda: not end_of(by_hand.listener, peer).is_reading)
            peer.writer.write(more)
        peer.writer.write_eof()
        await until(lambda: by_hand.listener.connections)
        await by_hand.until_all_have_gone()
        assert not by_hand.topic.partitions[0].watchers


async def test_a_client_that_waits_is_not_forgotten(by_hand: ByHand) -> None:
    """It is kept, however much it has sent behind its request."""
    async with connected_to(by_hand.listener.host, by_hand.listener.ports[0]) as peer:
        peer.writer.write(waiting_fetch() + bytes(READ_AHEAD))
        await until(lambda: by_hand.topic.partitions[0].watchers)
        by_hand.clock.skip(100 * HALF_CLOSED_SECONDS)
        assert by_hand.listener.connections


async def test_a_client_that_waits_for_too_long_is_idle() -> None:
    """As in Kafka, ``connections.max.idle.ms`` also applies while a request waits."""
    async with (
        Broker({"connections.max.idle.ms": 200}) as broker,
        connected(broker) as peer,
    ):
        broker.cluster.create_topic("t", 1)
        peer.writer.write(waiting_fetch())
        await peer.is_closed()


async def test_the_system_looks_after_silent_clients() -> None:
    """As in Kafka, TCP keep-alive is on."""
    with socket.socket() as accepted:
        async with Broker() as broker:
            wired(broker, accepted)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no BBR")
async def test_connections_within_the_machine_are_not_paced(by_hand: ByHand) -> None:
    """An accepted connection has the listener's congestion control."""
    async with connected_to(by_hand.listener.host, by_hand.listener.ports[0]):
        await until(lambda: by_hand.listener.connections)
        (connection,) = by_hand.listener.connections
        transport = connection._transport  # noqa: SLF001 - clients do not see it
        accepted = transport.get_extra_info("socket")
        control = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert control.startswith(b"reno\0")


class Listening(socket.socket):
    """A listening socket of a system without congestion controls to choose from."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.is_asked = False

    def getsockname(self) -> tuple[str, int]:
        """The address, and a port."""
        return self.address, 1

    def setsockopt(self, *_: object) -> None:
        """Refuses the option."""
        self.is_asked = True
        raise OSError(errno.ENOPROTOOPT, "not available")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no BBR")
@pytest.mark.parametrize(
    ("address", "is_within"),
    [("127.0.0.2", True), ("::1", True), ("::1234", False), ("0.0.0.0", False)],
)
def test_a_system_without_that_control(address: str, is_within: bool) -> None:
    """The broker listens with the default, as it does for other machines."""
    with Listening(address) as listening:
        send_unpaced(listening)
        assert listening.is_asked == is_within


async def test_pipelined_requests_let_others_in_between() -> None:
    """A turn of the loop handles some of them; later turns handle the rest."""
    request = frames.request("ApiVersions", 3, ApiVersions)
    async with Broker() as broker:
        connection, wire = wired(broker)
        connection.data_received(request * 1000)
        before = wire.answers()
        assert before == -(-TURN // (len(request) - 4 + FRAME_COST))
        while wire.answers() < 1000:
            now = wire.answers()
            assert now - before <= 2 * TURN // FRAME_COST
            before = now
            await asyncio.sleep(0)
        connection.connection_lost(None)


async def test_each_heartbeat_with_a_pattern_has_a_turn_of_its_own() -> None:
    """Compiling may take milliseconds, also if it fails, and for the same request."""
    beat = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, None, None, 1_000, None, "[", None, []
    )
    request = frames.request("ConsumerGroupHeartbeat", 1, beat)
    async with Broker() as broker:
        connection, wire = wired(broker)
        before = wire.answers()
        connection.data_received(request * 20)
        while before < 20:
            now = wire.answers()
            assert now - before <= 1
            before = now
            await asyncio.sleep(0)
        connection.connection_lost(None)


async def test_long_requests_are_held_back_while_memory_is_short() -> None:
    """Beyond ``queued.max.request.bytes`` nothing is read, until memory is released."""
    limits = {
        "socket.request.max.bytes": 3_000_000,
        "queued.max.request.bytes": 3_000_000,
    }
    async with Broker(limits) as broker:
        memory = broker.cluster.request_memory
        one, _ = wired(broker)
        two, wire = wired(broker)
        one.data_received(struct.pack(">i", 2_900_000) + bytes(2_000_000))
        two.data_received(struct.pack(">i", 2_900_000) + bytes(2_000_000))
        assert memory.total == 4_000_000
        assert not wire.is_reading_now
        one.connection_lost(None)
        assert memory.total == 2_000_000
        # Not in the middle of the other one's end.
        assert not wire.is_reading_now
        await asyncio.sleep(0)
        assert wire.is_reading_now
        two.connection_lost(None)
        assert memory.total == 0


@pytest.mark.parametrize("request_", [BEAT, UNKNOWN_VERSION])
@pytest.mark.parametrize("size", [LONG_FRAME, 20_000, 5_000_000])
async def test_long_requests_give_their_memory_back(size: int, request_: bytes) -> None:
    """Memory is released when they are handled: later requests are not counted."""
    beat = frames.request("Heartbeat", 4, Heartbeat)
    async with Broker() as broker:
        memory = broker.cluster.request_memory
        connection, wire = wired(broker)
        long = frames.frame(request_ + bytes(size - len(request_)))
        connection.data_received(long[:1000])
        assert memory.total == 996
        connection.data_received(long[1000:] + beat)
        await until(lambda: wire.answers() == 2)
        assert memory.total == 0
        connection.connection_lost(None)


@pytest.mark.parametrize("size", [20_000, 5_000_000])
async def test_long_requests_that_come_whole_are_counted_once(size: int) -> None:
    """A request that is handled at once takes no memory, and releases none."""
    beat = frames.request("Heartbeat", 4, Heartbeat)
    async with Broker() as broker:
        memory = broker.cluster.request_memory
        connection, wire = wired(broker)
        connection.data_received(frames.frame(beat[4:] + bytes(size)))
        await until(lambda: wire.answers() == 1)
        assert memory.total == 0
        connection.connection_lost(None)


async def test_nothing_behind_an_impossible_size_is_handled() -> None:
    """Not even when the request before it is answered later."""
    async with Broker() as broker:
        topic = broker.cluster.create_topic("t", 1)
        connection, wire = wired(broker)
        connection.data_received(waiting_fetch() + struct.pack(">i", -1))
        connection.data_received(frames.request("Metadata", 9, metadata("new")))
        delete_topic(broker, topic.name)
        await until(lambda: wire.is_closed_now)
        assert wire.answers() == 1
        assert not broker.cluster.topics.by_name
        connection.connection_lost(None)


@pytest.fixture
def informed() -> Iterator[None]:
    """Logs at level info, too."""
    telemetry.configure("json", "info")
    yield
    telemetry.configure("auto", "warning")


@pytest.mark.usefixtures("informed")
@pytest.mark.parametrize("rows", [1, 20_000])
async def test_a_slow_request_is_logged_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: int
) -> None:
    """Whichever piece of it took too long."""
    commit = commit_offsets("t", *[(0, 5)] * rows)
    async with Broker() as broker:
        broker.cluster.create_topic("t", 1)
        counters = broker.cluster.nodes[1].counters = ApiCounters()
        connection, wire = wired(broker)
        # Each reading of the time is two and a half times 0.1 s later.
        times = itertools.count(1, 2.5 * SLOW_SECONDS)
        monkeypatch.setattr(connections, "monotonic", times.__next__)
        connection.data_received(frames.request("OffsetCommit", 8, commit))
        await until(lambda: wire.answers() == 1)
        connection.connection_lost(None)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    slow = [line for line in lines if line["event"] == "slow_request"]
    assert {line["request"] for line in slow} == {"OffsetCommit v8"}
    assert all(line["ms"] >= 250 for line in slow)
    assert (len(slow) > 1) == (rows > 1)
    assert counters.by_api[BY_NAME["OffsetCommit"]].slow == len(slow)


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (OSError(errno.EINVAL, "too many parts"), True),
        (ConnectionResetError(), False),
        (TimeoutError(errno.ETIMEDOUT, "keep-alive"), False),
        (None, False),
    ],
)
async def test_connections_are_not_lost_in_silence(
    error: Exception | None, is_logged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost connection is logged, unless the peer or the network ended it."""
    async with Broker() as broker:
        connection, _ = wired(broker)
        connection.connection_lost(error)
    assert ("connection_lost" in capsys.readouterr().err) == is_logged


async def test_a_refused_frame_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the client's address, the API, and the reason."""
    tags = b"\0\2g" + bytes(4) + b"\2m\0" + b"\xff\xff\x03" + b"\1\0" * 30_000
    refused = frames.frame(struct.pack(">hhih", 12, 4, 1, -1) + tags)
    async with Broker() as broker, connected(broker) as peer:
        port = peer.writer.get_extra_info("sockname")[1]
        peer.writer.write(refused)
        await peer.is_closed()
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert said["event"] == "connection_closed"
    assert said["client"] == f"127.0.0.1:{port}"
    assert said["reason"] == (
        "Heartbeat v4: 65535 tagged fields in a section; the limit is 100"
    )


def test_small_parts_of_answers_are_joined() -> None:
    """Small parts are joined in order; long ones are not copied."""
    long = bytes(JOIN_BELOW)
    parts: list[Buffer] = [b"a", b"b", long, b"c", long, long, *[b"d" * 1000] * 40]
    joined: list[Buffer] = []
    join_small(parts, joined)
    assert b"".join(joined) == b"".join(parts)
    assert joined[:5] == [b"ab", long, b"c", long, long]
    assert len(joined) == 8


def test_an_answer_in_pieces_is_the_same_frame() -> None:
    """A million parts become a few, with yields in between."""
    rows = [OffsetCommitResponsePartition(n, 0) for n in range(10_000)]
    response = OffsetCommitResponse(
        0, [OffsetCommitResponseTopic("t", partitions=rows)]
    )
    form = ResponseFormat(BY_NAME["OffsetCommit"], 8)
    expected = form.frame(7, response)
    parts, yields = finished(form.frame_in_pieces(7, response, Unread()))
    assert b"".join(parts) == b"".join(expected)
    assert len(parts) < len(expected) / 100
    assert yields > 10


def test_an_answer_that_is_encoded_counts_as_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long one is refused while others take all of the memory, a short one is not."""
    rows = [OffsetCommitResponsePartition(n, 0) for n in range(10_000)]
    response = OffsetCommitResponse(
        0, [OffsetCommitResponseTopic("t", partitions=rows)]
    )
    form, unread = ResponseFormat(BY_NAME["OffsetCommit"], 8), Unread()
    work = form.frame_in_pieces(7, response, unread)
    next(work)
    next(work)
    assert 0 < unread.size < form.size_of(response)
    finished(work)
    assert unread.size == 0
    unread.size = requests.LONGEST_ANSWER
    finished(form.frame_in_pieces(7, response, unread))
    monkeypatch.setattr(requests, "SHORT_ANSWER", form.size_of(response) // 2)
    with pytest.raises(requests.AnswerSizeError):
        finished(form.frame_in_pieces(7, response, unread))
    assert unread.size == requests.LONGEST_ANSWER
