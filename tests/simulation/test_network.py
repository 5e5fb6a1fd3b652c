"""The network between processes."""

from __future__ import annotations

import asyncio

import pytest

from kohort.simulation.world.network import Network, Pipe
from kohort.simulation.world.randomness import Distribution, constant
from kohort.simulation.world.scheduler import START, Process, Scheduler


class Server(asyncio.Protocol):
    """Notes what arrives, and answers it in capitals."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.log: list[tuple[float, object]] = []
        self.transport: Pipe

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, Pipe)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answers."""
        self.note(data)
        self.transport.write(data.upper())

    def eof_received(self) -> bool:
        """The client has closed its side."""
        self.note("end")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.note(exc and type(exc))

    def note(self, what: object) -> None:
        """Notes something, with the time in ms."""
        self.log.append((round(1000 * (self.scheduler.now - START)), what))


class Client(asyncio.BufferedProtocol):
    """Notes what arrives."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.memory = bytearray(4)
        self.transport: Pipe
        self._read = b""
        self.lost: list[object] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, Pipe)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Little memory."""
        return memoryview(self.memory)

    def buffer_updated(self, nbytes: int) -> None:
        """Keeps what was read."""
        self._read += self.memory[:nbytes]

    def read(self) -> bytes:
        """Returns what was read so far."""
        return self._read

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.lost.append(exc and type(exc))


class Wires:
    """A client and a server, 10 ms apart, connected at 20 ms."""

    def __init__(self, latency: Distribution) -> None:
        self.scheduler = scheduler = Scheduler(seed=1)
        self.network = Network(scheduler, latency)
        self.near, self.far = Process(scheduler, "near"), Process(scheduler, "far")
        self.server = Server(scheduler)
        self.client = Client(self.server)
        self.is_open = True
        self.network.listen("server", self.accept)
        self.refusals: list[OSError] = []

    def accept(self) -> tuple[Process, Server] | None:
        """The server's process and its protocol."""
        return (self.far, self.server) if self.is_open else None

    async def connect(self) -> None:
        """Connects the client."""
        try:
            await self.network.connect(self.near, "client", self.client, "server")
        except OSError as error:
            self.refusals.append(error)

    def run(self, ms: float) -> None:
        """Lets time pass."""
        self.scheduler.run(self.scheduler.now + ms / 1000)


@pytest.fixture
def wires() -> Wires:
    """A connection that is being made."""
    made = Wires(constant(0.01))
    made.near.spawn(made.connect())
    made.run(20)
    return made


def test_bytes_take_the_latency(wires: Wires) -> None:
    """Each way."""
    wires.client.transport.write(b"hello")
    wires.run(15)
    assert wires.server.log == [(30, b"hello")]
    assert not wires.client.read()
    wires.run(5)
    assert wires.client.read() == b"HELLO"


def test_bytes_arrive_in_order() -> None:
    """Even if the later ones are faster."""
    wires = Wires(Distribution("uniform", 0.0, 0.1))
    wires.near.spawn(wires.connect())
    wires.run(300)
    for number in range(50):
        wires.client.transport.write(b"%d" % number)
    wires.run(300)
    assert [what for _, what in wires.server.log] == [b"%d" % n for n in range(50)]


def test_a_cut_link_holds_everything_back(wires: Wires) -> None:
    """Until it is healed: TCP sends it again."""
    wires.network.cut("client", "server")
    wires.client.transport.write(b"a")
    wires.client.transport.write(b"b")
    wires.run(1000)
    assert not wires.server.log
    wires.network.heal("server", "client")
    wires.run(20)
    assert wires.server.log == [(1030, b"a"), (1030, b"b")]
    assert wires.client.read() == b"AB"


def test_a_slow_link_multiplies_the_latency(wires: Wires) -> None:
    """Requests are late, and so are responses."""
    wires.network.link("client", "server").factor = 10
    wires.client.transport.write(b"a")
    wires.run(199)
    assert not wires.client.read()
    wires.run(1)
    assert wires.client.read() == b"A"


def test_a_close_is_the_end_of_the_stream(wires: Wires) -> None:
    """Written bytes come before it."""
    wires.client.transport.write(b"a")
    wires.client.transport.close()
    wires.run(40)
    assert wires.server.log == [(30, b"a"), (30, "end"), (30, None)]
    assert wires.client.lost == [None]


def test_a_killed_process_resets_its_connections(wires: Wires) -> None:
    """As the system does when a process dies."""
    wires.near.kill()
    wires.network.died(wires.near)
    wires.run(40)
    assert wires.server.log == [(30, ConnectionResetError)]
    assert not wires.client.lost, "it is dead"


def test_a_disconnection_resets_both_ends(wires: Wires) -> None:
    """The processes go on."""
    wires.network.disconnect(wires.near)
    wires.run(40)
    assert [what for _, what in wires.server.log] == [None]
    assert wires.client.lost == [ConnectionResetError]


def test_a_closed_host_refuses(wires: Wires) -> None:
    """After the time of both ways; an unknown host does the same."""
    wires.is_open = False
    wires.near.spawn(wires.connect())
    wires.run(40)
    (error,) = wires.refusals
    assert isinstance(error, ConnectionRefusedError)


def test_bytes_wait_while_reading_is_paused(wires: Wires) -> None:
    """Back-pressure keeps them, and loses none."""
    wires.server.transport.pause_reading()
    wires.client.transport.write(b"a")
    wires.client.transport.write(b"b")
    wires.run(50)
    assert not wires.server.log
    wires.server.transport.resume_reading()
    wires.run(0)
    assert [what for _, what in wires.server.log] == [b"a", b"b"]
