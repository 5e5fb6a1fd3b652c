"""Bytes of answers that clients have not read yet, over all connections.

A fetch of 55 MB from files is memory until the client has read it, and a client may
ask on many connections and never read. So fetches are answered with less, down to one
piece, while `MOST_UNREAD` bytes are unread: clients never wait for another one to read.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.log.store import PIECE

MOST_UNREAD: Final = 256 * 1024 * 1024
"""Bytes that may be unread before fetches get less: four answers of
``fetch.max.bytes``, which is 55 MB."""


class Unread:
    """Bytes that are unread, or being read for answers at the moment.

    Attributes:
        size: bytes.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    @property
    def spare(self) -> int:
        """The most bytes to read for one more fetch."""
        return max(MOST_UNREAD - self.size, PIECE)
