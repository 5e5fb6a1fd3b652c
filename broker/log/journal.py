"""The cluster's metadata on the disk: cluster.json, and cluster.log with changes.

1. A change is one line of cluster.log: a checksum, and a numbered `ClusterChange` as
   JSON. It is on the disk before the request is answered.
2. When the lines take more room than cluster.json, the whole state is rewritten. First
   cluster.json, with the number of the last change in it, then a cluster.log with the
   changes that were made meanwhile. Each replaces the previous file in one step.
3. A start skips changes that are in cluster.json. So a kill or a power loss between the
   two files does no harm. Nor does a topic that changed while cluster.json was being
   written: its changes in the log are applied again.

Each line is flushed before the next one is written, so a crash can only tear the last
one, which was not acknowledged: it is cut off. A kill leaves its beginning, a power cut
zeroes in place of parts that the disk did not write. Other damage may hide topics: the
directory is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

from kohort.broker.log import files
from kohort.broker.log.metadata import (
    ClusterChange,
    ClusterMetadata,
    MetadataError,
    TopicMetadata,
    snapshot,
)
from kohort.broker.log.store import StorageError
from kohort.broker.telemetry import Logger

CLUSTER: Final = "cluster.json"
CHANGES: Final = "cluster.log"
SMALLEST_OUTGROWN: Final = 256 * 1024
"""Bytes of changes kept with a cluster.json of any size: some thousand small topics,
which a start reads in 20 ms."""
PIECE_ROWS: Final = 200
"""Partitions written in one piece of work: about 1 ms."""

_SECTOR: Final = 512
"""A power cut leaves whole sectors of a file unwritten, or the rest of the file."""
_ZEROES = re.compile(b"\0+")

log = Logger("kohort.log")


class Journal:
    """The two files, open for changes.

    Args:
        folder: the data directory.

    Attributes:
        found: the metadata at the start; None in a new directory.
        torn: bytes of a torn last line, which the next write cuts off.
        deleted: topics that a change in the file deletes.

    Raises:
        MetadataError: a file is damaged.
        StorageError: a file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._snapshot_path = folder / CLUSTER
        self._path = folder / CHANGES
        self._number = 0
        self._size = 0
        self._limit = SMALLEST_OUTGROWN
        # Lines that are missing in a snapshot in progress.
        self._meanwhile: list[bytes] | None = None
        self._has_log = False
        self.torn = 0
        self.deleted: set[str] = set()
        self.found = self._load()

    # -- reading

    def _load(self) -> ClusterMetadata | None:
        saved = files.read_file(self._snapshot_path)
        lines = files.read_file(self._path)
        self._has_log = lines is not None
        metadata = None
        if saved is not None:
            try:
                metadata, self._number = ClusterMetadata.from_json(saved)
            except MetadataError as error:
                raise MetadataError(
                    f"{self._snapshot_path} is damaged: {error}"
                ) from None
            self._grown_to(len(saved))
        changes = self._changes(lines or b"")
        if metadata is None and not changes:
            return None
        return (metadata or ClusterMetadata({}, {}, 0)).changed(changes)

    def _changes(self, data: bytes) -> list[ClusterChange]:
        """The changes that cluster.json does not have."""
        found, position, before = [], 0, None
        while position < len(data):
            end = data.find(b"\n", position) + 1
            line = _checked(data[position:end])
            if line is None:
                self._check_torn(data, position)
                break
            try:
                change, number = ClusterChange.from_json(line)
            except MetadataError as error:
                raise MetadataError(f"{self._path} is damaged: {error}") from None
            if number > (self._number if before is None else before) + 1:
                raise MetadataError(
                    f"{self._path} is damaged: change {number - 1} is missing"
                )
            if number > self._number:
                found.append(change)
                self._number = number
            for name, topic in change.topics.items():
                if topic is None:
                    self.deleted.add(name)
            before, position = number, end
        self._size = position
        return found

    def _check_torn(self, data: bytes, position: int) -> None:
        """Refuses damage that a crash does not leave in the last line."""
        rest = data[position:]
        if any(map(_checked, rest.splitlines(keepends=True))):
            raise MetadataError(
                f"{self._path} is damaged: a line in the middle is not whole"
            )
        is_torn = any(
            zeroes.end() == len(data) or not zeroes.end() % _SECTOR
            for zeroes in _ZEROES.finditer(data, position)
        )
        # One of its bytes may be the end of the line.
        is_whole = rest.endswith(b"\n") or _checked(rest[:-1] + b"\n") is not None
        if is_whole and not is_torn:
            raise MetadataError(f"{self._path} is damaged: the last line is not whole")
        self.torn = len(rest)
        log.warning("cluster_log_tail_cut", path=str(self._path), bytes=len(rest))

    # -- writing

    def append(self, change: ClusterChange) -> None:
        """Writes a change, which is on the disk when this returns.

        Raises:
            StorageError: the write failed; the change is not in the file.
        """
        content = change.to_json(self._number + 1)
        line = b"%08x %s\n" % (zlib.crc32(content), content)
        try:
            if self._has_log:
                files.write_at(self._path, line, self._size, is_durable=True)
            else:
                files.replace_file(self._path, line)
        except StorageError:
            self._cut_back()
            raise
        self._has_log = True
        self.torn = 0
        self._number += 1
        self._size += len(line)
        if self._meanwhile is not None:
            self._meanwhile.append(line)

    def _cut_back(self) -> None:
        """Cuts off a refused change, which a start must not find."""
        try:
            if self._has_log:
                files.write_at(self._path, b"", self._size, is_durable=True)
            else:
                files.remove(self._path)
        except StorageError as error:
            # The next change overwrites it.
            log.warning("cluster_log_not_cut", path=str(self._path), reason=str(error))

    # -- rewriting

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self._number

    @property
    def has_changes(self) -> bool:
        """True unless cluster.json has all changes, and cluster.log is empty."""
        return self._size > 0 or self.torn > 0

    @property
    def is_outgrown(self) -> bool:
        """True if a rewrite is due and has not begun."""
        return self._size > self._limit and self._meanwhile is None

    def rewrite(
        self,
        topics: Iterable[tuple[str, TopicMetadata]],
        rest: ClusterChange,
    ) -> Generator[None, None, None]:
        """Rewrites cluster.json, a piece at a time.

        Changes may be made between the pieces: they go into the new cluster.log,
        whether `topics` contained them already or not.

        Args:
            topics: all topics by name, each in its state when it is taken.
            rest: everything except topics, in its present state.

        Raises:
            StorageError: the rewrite failed; nothing is lost.
        """
        self._meanwhile, rows, parts = [], 0, []
        try:
            for part in snapshot(self._number, topics, rest):
                parts.append(part)
                rows += 1 + part.count(b'"leader"')
                if rows >= PIECE_ROWS:
                    rows = 0
                    yield
            # If it fails, the next attempt waits for as many changes again.
            self._limit = self._size + SMALLEST_OUTGROWN
            self._replace(b"".join(parts), b"".join(self._meanwhile))
        finally:
            self._meanwhile = None

    def _replace(self, everything: bytes, lines: bytes) -> None:
        files.replace_file(self._snapshot_path, everything)
        try:
            files.replace_file(self._path, lines)
        except StorageError:
            # The file may have been replaced without being flushed yet.
            size, _ = files.size_and_time(self._path)
            self._has_log, self._size = size >= 0, max(size, 0)
            raise
        self._has_log, self._size, self.torn = True, len(lines), 0
        self._grown_to(len(everything))

    def _grown_to(self, size: int) -> None:
        self._limit = max(size, SMALLEST_OUTGROWN)


def _checked(line: bytes) -> bytes | None:
    """The JSON of a line; None if the line is damaged."""
    if line[-1:] != b"\n" or line[8:9] != b" ":
        return None
    content = line[9:-1]
    return content if line[:8] == b"%08x" % zlib.crc32(content) else None
