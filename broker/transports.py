"""Facts about asyncio's transports and their sockets."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress

_CLOSE_WAIT = b"\x08"
"""Linux's TCP state CLOSE_WAIT: the client has closed its sending side."""
_UNPACED = b"reno"
"""Linux's built-in congestion control, which sends without timers."""


def writelines_pauses(transport: asyncio.Transport) -> bool:
    """Returns whether writelines calls pause_writing when it fills the buffer.

    asyncio's own does not in CPython 3.12 before 3.12.9 and 3.13 before 3.13.2
    (CVE-2024-12254): a client that does not read would fill the memory.
    """
    version = sys.version_info[:3]
    is_defective = (3, 12) <= version < (3, 12, 9) or (3, 13) <= version < (3, 13, 2)
    return not is_defective or type(transport).__module__.startswith("uvloop")


def descriptor(transport: asyncio.BaseTransport) -> int:
    """The transport's file descriptor; -1 if it has none, as in tests."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else sock.fileno()


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Turns on TCP keep-alive, as Kafka does: it detects machines that are gone."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def send_unpaced(listening: socket.socket) -> None:
    """Sends on connections within this machine without pacing.

    BBR, the default of some systems, spreads packets over time for the sake of a
    network. Within a machine, its timers only cost CPU time. The connections that the
    socket accepts take over the setting. A system without it keeps its default.
    """
    address = listening.getsockname()[0]
    is_within = address == "::1" or address.startswith("127.")
    if sys.platform == "linux" and is_within:
        with suppress(OSError):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)


def is_half_closed(transport: asyncio.BaseTransport) -> bool:
    """Returns whether the client has closed its side, also behind unread bytes."""
    sock = transport.get_extra_info("socket")
    if sock is None or sys.platform != "linux":
        return False
    state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, len(_CLOSE_WAIT))
    return bool(state == _CLOSE_WAIT)
