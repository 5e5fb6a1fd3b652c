"""TCP connections to names that may have several addresses."""

from __future__ import annotations

import asyncio
import socket
from typing import Any


async def connected_socket(host: str, port: int, seconds: float) -> socket.socket:
    """A socket that is connected to one of a host's addresses (KIP-302).

    They are tried in the resolver's order. One that does not answer costs its share
    of the time and not all of it, so that the others have theirs.

    Args:
        host: a name or an address.
        port: of the listener.
        seconds: for all of them together; the caller has to enforce it.

    Raises:
        OSError: the name is not known, or no address takes the connection; this is
            the last one's error.
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
