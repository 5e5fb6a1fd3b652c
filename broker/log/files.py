"""File access: everything that a log writes goes through this module.

Errors of the operating system become `StorageError` with a path in it. The number of
open files stays small for any number of partitions: the least recently used ones are
closed, and reopened when needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from kohort.broker import descriptors
from kohort.broker.log.store import StorageError, Stored

if TYPE_CHECKING:
    from pathlib import Path

_INDEX_BYTES = 32 * 1024 * 1024
_OPEN = os.O_RDWR | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC
_CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class Deed(NamedTuple):
    """A change of a file or a folder that a rehearsal has skipped.

    `what` is ``write``, ``cut``, ``rename`` or ``remove``; `size` is the new size of a
    truncated file, else 0.
    """

    what: str
    path: Path
    size: int = 0


class _Rehearsal:
    """The deeds of the rehearsal in progress; None without one."""

    deeds: ClassVar[list[Deed] | None] = None


@contextmanager
def rehearsed() -> Iterator[list[Deed]]:
    """Within it, files are only read: changes are listed instead of made."""
    deeds: list[Deed] = []
    _Rehearsal.deeds = deeds
    try:
        yield deeds
    finally:
        _Rehearsal.deeds = None


def _is_rehearsed(what: str, path: Path, size: int = 0) -> bool:
    """In a rehearsal, lists a change; returns whether to skip it."""
    if _Rehearsal.deeds is None:
        return False
    _Rehearsal.deeds.append(Deed(what, path, size))
    return True


@contextmanager
def storage_errors(what: str, path: Path) -> Iterator[None]:
    """Converts errors of the operating system to `StorageError`s with the path."""
    try:
        yield
    except OSError as error:
        raise failure(what, path, error) from error


def failure(what: str, path: Path, error: OSError) -> StorageError:
    """One line per error: the operation, the file and the reason."""
    return StorageError(f"cannot {what} {path}: {error.strerror or error}")


class Indexed(Protocol):
    """A segment that is no longer written."""

    def forget_index(self) -> None:
        """Frees the memory of its indexes."""


class Files:
    """The open files of a data directory, and the indexes that are in memory."""

    def __init__(self, limit: int = 0) -> None:
        """Limits the open files; by default to a share of the descriptors."""
        self._limit = limit or descriptors.log_files()
        self._open: dict[LogFile, None] = {}
        self._indexes: dict[Indexed, int] = {}
        self._index_bytes = 0

    def __len__(self) -> int:
        """The number of open files."""
        return len(self._open)

    def opened(self, file: LogFile) -> None:
        """Counts an open file, and closes another if there are too many."""
        while len(self._open) >= self._limit:
            oldest = next(iter(self._open))
            del self._open[oldest]
            if oldest.was_used:
                # A second chance, so that a use costs no more than a flag.
                oldest.was_used = False
                self._open[oldest] = None
            else:
                oldest.release()
        self._open[file] = None

    def closed(self, file: LogFile) -> None:
        """Counts a file that its user has closed."""
        self._open.pop(file, None)

    def close(self) -> None:
        """Closes all files: a partition that failed to open leaves some open."""
        for file in [*self._open]:
            file.release()
        self._open.clear()

    def index_loaded(self, segment: Indexed, size: int) -> None:
        """Counts indexes in memory, and drops others if they are too large."""
        self.index_forgotten(segment)
        self._indexes[segment] = size
        self._index_bytes += size
        while self._index_bytes > _INDEX_BYTES and len(self._indexes) > 1:
            oldest = next(iter(self._indexes))
            self._index_bytes -= self._indexes.pop(oldest)
            oldest.forget_index()

    def index_forgotten(self, segment: Indexed) -> None:
        """Counts indexes that are no longer in memory."""
        self._index_bytes -= self._indexes.pop(segment, 0)


class LogFile:
    """A file of a log, which is open while it is used.

    Attributes:
        path: its path.
        was_used: used since `Files` last looked.
    """

    __slots__ = ("_fd", "_files", "path", "was_used")

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self._files = files
        self._fd = -1
        self.was_used = False

    def _descriptor(self) -> int:
        if self._fd < 0:
            is_read_only = _Rehearsal.deeds is not None
            self._fd = os.open(self.path, _READ if is_read_only else _OPEN)
            self._files.opened(self)
        self.was_used = True
        return self._fd

    def write(self, batch: Stored, size: int, position: int) -> None:
        """Appends all of a batch to the file, or none of it.

        Args:
            batch: its bytes.
            size: the number of its bytes.
            position: the size of the file before.
        """
        try:
            fd = self._descriptor()
            if isinstance(batch, bytes):
                written = os.pwrite(fd, batch, position)
            else:
                written = os.pwritev(fd, batch, position)
            if written != size:
                # Usually the last write before an error that says why.
                whole = batch if isinstance(batch, bytes) else b"".join(batch)
                _write_all(fd, whole, position, written)
        except OSError as error:
            self._cut_back(position)
            raise failure("write to", self.path, error) from error

    def _cut_back(self, size: int) -> None:
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, size)
            except OSError:
                # The next write overwrites it, and a recovery cuts it off.
                return

    def read(self, position: int, size: int) -> bytes:
        """Bytes at a position; fewer where the file ends."""
        try:
            return os.pread(self._descriptor(), size, position)
        except OSError as error:
            raise failure("read", self.path, error) from error

    def sync(self) -> None:
        """Flushes the file to the disk (fdatasync)."""
        with storage_errors("flush", self.path):
            os.fdatasync(self._descriptor())

    def truncate(self, size: int) -> None:
        """Truncates the file to `size` bytes."""
        if _is_rehearsed("cut", self.path, size):
            return
        with storage_errors("truncate", self.path):
            os.ftruncate(self._descriptor(), size)

    def release(self) -> None:
        """Closes the file, for now."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def close(self) -> None:
        """Closes the file."""
        self._files.closed(self)
        self.release()


def create(path: Path) -> None:
    """Creates an empty file, or truncates the existing one."""
    if _is_rehearsed("write", path):
        return
    with storage_errors("create", path):
        os.close(os.open(path, _CREATE | os.O_TRUNC, 0o644))


def write_at(path: Path, data: bytes, position: int, *, is_durable: bool) -> None:
    """Writes after the first `position` bytes of a file, which may be new."""
    if _is_rehearsed("write", path):
        return
    with storage_errors("write to", path):
        fd = os.open(path, _CREATE, 0o644)
        try:
            _write_all(fd, data, position)
            os.ftruncate(fd, position + len(data))
            if is_durable:
                os.fdatasync(fd)
        finally:
            os.close(fd)


def _write_all(fd: int, data: bytes, position: int, done: int = 0) -> None:
    while done < len(data):
        done += os.pwrite(fd, memoryview(data)[done:], position + done)


def replace_file(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Replaces a file atomically: the old contents or the new, never a part.

    Args:
        path: the file.
        data: its new contents.
        is_durable: whether the replacement must survive a power loss.
    """
    if _is_rehearsed("write", path):
        return
    new = path.with_name(path.name + ".tmp")
    with storage_errors("write", path):
        try:
            write_at(new, data, 0, is_durable=is_durable)
            os.replace(new, path)
        except (OSError, StorageError):
            remove_quietly(new)
            raise
    if is_durable:
        sync_folder(path.parent)


def remove_quietly(path: Path) -> None:
    """Removes a file, if possible."""
    if _is_rehearsed("remove", path):
        return
    try:
        os.unlink(path)
    except OSError:
        return


def read_file(path: Path) -> bytes | None:
    """The contents of a file; None if it is missing."""
    with storage_errors("read", path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            parts = []
            while part := os.read(fd, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(fd)


def read_tail(path: Path, size: int) -> bytes:
    """The last bytes of a file; none if it is missing, or not a multiple of `size`."""
    with storage_errors("read", path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            length = os.fstat(fd).st_size
            if not length or length % size:
                return b""
            return os.pread(fd, size, length - size)
        finally:
            os.close(fd)


def rename(path: Path, to: Path) -> None:
    """Renames a file or a folder; replaces an existing file."""
    if _is_rehearsed("rename", path):
        return
    with storage_errors("rename", path):
        os.replace(path, to)


def remove(path: Path) -> None:
    """Removes a file; no error if it is missing."""
    if _is_rehearsed("remove", path):
        return
    with storage_errors("remove", path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return


def make_folder(path: Path) -> None:
    """Creates a folder and its parents; does nothing if it exists."""
    if _is_rehearsed("write", path):
        return
    with storage_errors("create", path):
        os.makedirs(path, exist_ok=True)


def remove_folder(path: Path) -> None:
    """Removes a folder and its files."""
    if _is_rehearsed("remove", path):
        return
    with storage_errors("remove", path):
        for name in os.listdir(path):
            os.unlink(path / name)
        os.rmdir(path)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    with storage_errors("read", folder):
        return sorted(os.listdir(folder))


def size_and_time(path: Path) -> tuple[int, int]:
    """Size in bytes and time of the last change in ms; (-1, -1) without a file."""
    with storage_errors("read", path):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return -1, -1
        return found.st_size, found.st_mtime_ns // 1_000_000


def sync_folder(path: Path) -> None:
    """Flushes a folder's list of files to the disk."""
    if _Rehearsal.deeds is not None:
        return
    with storage_errors("flush", path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
