"""The network: transports between processes, whose bytes take time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from kohort.protocol.fields import Buffer
from kohort.simulation.world.randomness import CONSTANT, Distribution
from kohort.simulation.world.scheduler import Process, Scheduler

PORT: Final = 9092
"""The port of every node."""

_Accept = Callable[[], tuple[Process, asyncio.Protocol] | None]


class Link:
    """The way between two hosts.

    Attributes:
        latency: of each message, in seconds.
        factor: multiplies the latency: a slow link has a larger one.
        is_cut: whether it holds all messages back, until it is whole again.
        held: these messages, in order, each with its sender.
    """

    __slots__ = ("_random", "factor", "held", "is_cut", "latency")

    def __init__(self, latency: Distribution, random: Random) -> None:
        self.latency = latency
        self.factor = 1.0
        self.is_cut = False
        self.held: list[tuple[Pipe, Callable[..., object], tuple[Any, ...]]] = []
        self._random = random

    def delay(self) -> float:
        """The latency of the next message, in seconds."""
        latency = self.latency
        if latency.kind == CONSTANT:
            return latency.a * self.factor
        return latency.draw(self._random) * self.factor


class Pipe(asyncio.Transport):
    """One end of a connection, which delivers to the other end in order.

    Attributes:
        process: the process that has this end.
        link: the way to the other end.
        peer: the other end.
        received: bytes that have arrived here.
    """

    # Most of the memory that a heartbeat touches is that of such objects.
    __slots__ = (
        "_arrives",
        "_is_buffered",
        "_is_closing",
        "_peername",
        "_protocol",
        "_unread",
        "link",
        "peer",
        "process",
        "received",
    )

    def __init__(self, process: Process, link: Link, peername: str) -> None:
        super().__init__()
        self.process = process
        self.link = link
        self.peer: Pipe
        self.received = 0
        self._peername = peername
        self._protocol: asyncio.BaseProtocol
        self._is_buffered = False
        self._is_closing = False
        self._arrives = 0.0
        self._unread: list[bytes] | None = None

    # -- the way to the other end

    def _send(self, receive: Callable[..., object], *args: Any) -> None:
        """Calls a function of the other end, after the latency and in order."""
        link = self.link
        if link.is_cut:
            link.held.append((self, receive, args))
            return
        process = self.peer.process
        scheduler = process.scheduler
        when = scheduler.now + link.delay()
        when = max(when, self._arrives)
        self._arrives = when
        scheduler.add(when, (process, receive, args))

    def send_held(self, receive: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Sends what a cut link has held back."""
        self._send(receive, *args)

    def write(self, data: Buffer) -> None:
        """Sends bytes."""
        if self._is_closing:
            return
        sent = data if type(data) is bytes else bytes(data)
        link, peer = self.link, self.peer
        if link.is_cut:
            self._send(peer.receive, sent)
            return
        # As `_send`, in place: nearly all messages come this way.
        process = peer.process
        scheduler = process.scheduler
        self._arrives = when = max(scheduler.now + link.delay(), self._arrives)
        scheduler.add(when, (process, peer.receive, (sent,)))

    def receive(self, data: bytes) -> None:
        """Hands bytes of the other end to the protocol."""
        if self._is_closing:
            return
        if self._unread is not None:
            self._unread.append(data)
            return
        self.received += len(data)
        protocol: Any = self._protocol
        if not self._is_buffered:
            protocol.data_received(data)
            return
        while data:
            room = protocol.get_buffer(len(data))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            protocol.buffer_updated(count)
            data = data[count:]

    # -- the end

    def close(self) -> None:
        """Closes after all that was written has been sent."""
        if not self._is_closing:
            self._is_closing = True
            self._send(self.peer.receive_end)
            self.process.call_soon(self._lost, None)

    def abort(self) -> None:
        """Closes at once; the other end sees a reset."""
        if not self._is_closing:
            self._is_closing = True
            self._send(self.peer.receive_reset)
            self.process.call_soon(self._lost, None)

    def receive_end(self) -> None:
        """Tells the protocol that the other end sends no more."""
        protocol: Any = self._protocol
        if not self._is_closing and not protocol.eof_received():
            self.close()

    def receive_reset(self) -> None:
        """Tells the protocol that the other end is gone."""
        if not self._is_closing:
            self._is_closing = True
            self._lost(ConnectionResetError("the connection was reset"))

    def _lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)

    # -- asyncio's transports

    def is_closing(self) -> bool:
        """True once it was closed from either end."""
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The name of the other host; there is no socket."""
        return (self._peername, PORT) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        """0: the network takes all bytes at once."""
        return 0

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Does nothing: there is no buffer."""

    def pause_reading(self) -> None:
        """Keeps what arrives."""
        if self._unread is None:
            self._unread = []

    def resume_reading(self) -> None:
        """Delivers what has arrived meanwhile."""
        unread, self._unread = self._unread or (), None
        for data in unread:
            self.process.call_soon(self.receive, data)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol of this end."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replaces the protocol."""
        self._protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)


class Network:
    """Connects processes of hosts.

    Args:
        scheduler: the time.
        latency: of a message, in seconds.
    """

    def __init__(self, scheduler: Scheduler, latency: Distribution) -> None:
        self._scheduler = scheduler
        self._latency = latency
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[str, _Accept] = {}
        self._pipes: dict[Process, list[Pipe]] = {}

    def listen(self, host: str, accept: _Accept) -> None:
        """Accepts connections at a host.

        Args:
            host: its name.
            accept: returns the process and the protocol of a new connection; None if it
                is refused.
        """
        self._listeners[host] = accept

    def link(self, one: str, other: str) -> Link:
        """The way between two hosts."""
        key = (one, other) if one < other else (other, one)
        found = self._links.get(key)
        if found is None:
            random = self._scheduler.random("/".join(("link", *key)))
            found = self._links[key] = Link(self._latency, random)
        return found

    def cut(self, one: str, other: str) -> None:
        """Holds all messages between two hosts back: a partition of the network."""
        self.link(one, other).is_cut = True

    def heal(self, one: str, other: str) -> None:
        """Ends a `cut`: what was held back arrives, in order."""
        link = self.link(one, other)
        link.is_cut = False
        held, link.held = link.held, []
        for pipe, receive, args in held:
            pipe.send_held(receive, args)

    def disconnect(self, process: Process) -> None:
        """Resets all connections that a process has made, at both ends."""
        for pipe in [*self._pipes.get(process, ())]:
            if not pipe.is_closing():
                pipe.peer.abort()
                process.call_soon(pipe.receive_reset)

    def died(self, process: Process) -> None:
        """Resets the connections of a killed process, as its machine does."""
        for pipe in self._pipes.pop(process, ()):
            pipe.abort()

    async def connect(
        self,
        process: Process,
        host: str,
        protocol: asyncio.BufferedProtocol,
        to: str,
    ) -> None:
        """Connects a protocol to a host.

        Args:
            process: the client.
            host: its host.
            protocol: gets the transport.
            to: the name of the other host.

        Raises:
            ConnectionRefusedError: the other host accepts no connections.
        """
        link = self.link(host, to)
        await _arrival(process, link)
        accept = self._listeners.get(to)
        accepted = None if accept is None else accept()
        # The answer: a connection or a refusal.
        await _arrival(process, link)
        if accepted is None:
            raise ConnectionRefusedError(f"{to} refused the connection")
        server, answering = accepted
        near, far = Pipe(process, link, to), Pipe(server, link, host)
        near.peer, far.peer = far, near
        near.set_protocol(protocol)
        far.set_protocol(answering)
        self._pipes.setdefault(process, []).append(near)
        with server.running():
            answering.connection_made(far)
        protocol.connection_made(near)


async def _arrival(process: Process, link: Link) -> None:
    """Waits for a message without bytes; forever while the link is cut."""
    arrived = process.create_future()
    if not link.is_cut:
        process.call_later(link.delay(), _arrive, arrived)
    await arrived


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
