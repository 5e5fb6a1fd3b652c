"""Sockets: TCP to host names with one or more addresses, and TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

Connect = Callable[
    [asyncio.BufferedProtocol, str, int, ssl.SSLContext | None, float], Awaitable[None]
]
"""As `connect`."""


async def connect(
    protocol: asyncio.BufferedProtocol,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    seconds: float,
) -> None:
    """Connects a protocol to a host, with TLS if there is a context.

    Args:
        protocol: gets the transport.
        host: a name or an address; with TLS, the certificate must be for it.
        port: of the listener.
        tls: None for plaintext.
        seconds: as in `connected_socket`.

    Raises:
        OSError: as from `connected_socket`, or the TLS handshake failed.
    """
    loop = asyncio.get_running_loop()
    sock = await connected_socket(host, port, seconds)
    if tls is None:
        await loop.create_connection(lambda: protocol, sock=sock)
        return
    try:
        await loop.create_connection(
            lambda: protocol, sock=sock, ssl=tls, server_hostname=host
        )
    except ConnectionError as error:
        what = f"the broker ended the TLS handshake: {error}"
        raise ConnectionError(what.removesuffix(": ")) from error


def reason_of(error: OSError) -> str:
    """The system's words for an error; asyncio's repeat the address."""
    if isinstance(error, ConnectionRefusedError) and error.errno:
        return os.strerror(error.errno)
    return str(error)


async def connected_socket(host: str, port: int, seconds: float) -> socket.socket:
    """A socket that is connected to one of a host's addresses (KIP-302).

    Addresses are tried in the resolver's order. An unresponsive one takes only its
    share of the time, so that the others are tried, too.

    Args:
        host: a name or an address.
        port: of the listener.
        seconds: for all addresses together; the caller has to enforce it.

    Raises:
        OSError: unknown host name, or the last error if no address accepts.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    until = loop.time() + seconds
    error = OSError(f"{host} has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        left = max(0.0, until - loop.time())
        share = left / (len(found) - number)
        try:
            async with asyncio.timeout(share):
                return await _connected(loop, (family, kind, protocol), address)
        except OSError as failure:
            error = failure
    raise error


async def _connected(
    loop: asyncio.AbstractEventLoop,
    what: tuple[int, int, int],
    address: Any,
) -> socket.socket:
    sock = socket.socket(*what)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
