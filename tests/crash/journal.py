"""The responses that clients got: one line each, written before the next one is read.

A worker is never killed, so a line counts as soon as the system has it. The lines:

    acked PRODUCER PARTITION NUMBER OFFSET      a producer's; -1 for no offset
    gave-up PRODUCER PARTITION NUMBER REASON    a producer's, which sends it no more
    sent GROUP PARTITION OFFSET                 a committer's, before its request
    acked GROUP PARTITION OFFSET                a committer's or a member's
    consumed GROUP PARTITION FIRST LAST COUNT CRC    a member's, for one poll
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from pathlib import Path


class Journal:
    """A worker's own file, which any of its threads may append to.

    Args:
        path: of a new or existing file.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words: object) -> None:
        """Appends one line, in one write: lines of other threads do not mix in."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Tail:
    """Reads a journal while a worker writes it.

    Args:
        path: of the journal, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[list[str]]:
        """The complete lines since the last call, split into words."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, _, _ = file.read().rpartition(b"\n")
        if not whole:
            return []
        self._offset += len(whole) + 1
        return [line.split() for line in whole.decode().split("\n")]


def key_of(producer: str, partition: int) -> bytes:
    """The key of all records that a producer sends to a partition."""
    return f"{producer}/{partition}".encode()


def value_of(sequence: int) -> bytes:
    """The value of a producer's record: its number, and up to 199 more bytes."""
    return b"%d%s" % (sequence, b"." * (sequence * 7 % 200))


def text_of(group: str, offset: int) -> str:
    """The metadata of a committer's commits."""
    return f"{group} at {offset}" * (offset % 4)


def checksum(records: Iterable[tuple[int, bytes, bytes]]) -> int:
    """A checksum of the offsets, keys and values from one poll."""
    crc = 0
    for offset, key, value in records:
        crc = zlib.crc32(b"%d %s %s\n" % (offset, key, value), crc)
    return crc
