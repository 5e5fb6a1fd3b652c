"""Records the calls with which kohort changes its data directory.

`kohort.broker.log.files` gets a recording `os`. Unknown calls fail, and at the end the
recorded calls must produce the existing directory: nothing bypasses the recorder.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.power.disk import (
    ROOT,
    Link,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)

from kohort.broker.log import files, journal

UNCHANGING = {
    "O_APPEND", "O_CLOEXEC", "O_CREAT", "O_DIRECTORY", "O_EXCL", "O_RDONLY", "O_RDWR",
    "O_TRUNC", "O_WRONLY", "SEEK_END", "SEEK_SET", "access", "fspath", "fstat",
    "getpid", "listdir", "lstat", "path", "pread", "read", "scandir", "stat",
    "stat_result", "strerror", "sysconf", "urandom",
}  # fmt: skip
"""Calls that change nothing on the disk."""


class Recorder:
    """The `os` of a module.

    Args:
        root: the data directory; calls elsewhere are refused.
        calls: the recorded calls.
    """

    def __init__(self, root: Path, calls: list[Any]) -> None:
        self._root = root
        self._calls = calls
        self._next = itertools.count(ROOT + 1)
        self._numbers: dict[Path, int] = {root: ROOT}
        self._open: dict[int, int] = {}
        for path in sorted(root.rglob("*")):
            self._found(path)

    def __getattr__(self, name: str) -> Any:
        if name in UNCHANGING:
            return getattr(os, name)
        raise AttributeError(f"os.{name} is not recorded")

    def _found(self, path: Path) -> None:
        """Existing files are on the disk already."""
        is_folder = path.is_dir()
        number = self._linked(path, is_folder=is_folder)
        if not is_folder:
            self._calls += [Write(number, 0, path.read_bytes()), Sync(number)]
        self._calls.append(Sync(self._numbers[path.parent]))

    def _linked(self, path: Path, *, is_folder: bool) -> int:
        number = self._numbers[path] = next(self._next)
        folder = self._numbers[path.parent]
        where = str(path.relative_to(self._root))
        self._calls.append(Link(folder, path.name, number, is_folder, where))
        return number

    # -- files

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """Opens a file or a folder."""
        fd = os.open(path, flags, mode)
        if path not in self._numbers:
            self._linked(path, is_folder=False)
        elif flags & os.O_TRUNC:
            self._calls.append(Truncate(self._numbers[path], 0))
        self._open[fd] = self._numbers[path]
        return fd

    def close(self, fd: int) -> None:
        """Closes it."""
        os.close(fd)
        del self._open[fd]

    def pwrite(self, fd: int, data: bytes, position: int) -> int:
        """Writes."""
        written = os.pwrite(fd, data, position)
        done = bytes(memoryview(data)[:written])
        self._calls.append(Write(self._open[fd], position, done))
        return written

    def pwritev(self, fd: int, parts: Sequence[bytes], position: int) -> int:
        """Writes several pieces."""
        return self.pwrite(fd, b"".join(parts), position)

    def ftruncate(self, fd: int, size: int) -> None:
        """Truncates, or adds zeroes."""
        if os.fstat(fd).st_size != size:
            self._calls.append(Truncate(self._open[fd], size))
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        """Syncs; the simulated disk decides which data survives."""
        number = self._open[fd]
        path = next(p for p, n in self._numbers.items() if n == number)
        self._calls.append(Sync(number, str(path.relative_to(self._root))))

    fdatasync = fsync

    # -- names

    def makedirs(self, path: Path, *, exist_ok: bool = False) -> None:
        """Creates a folder in an existing one."""
        os.makedirs(path, exist_ok=exist_ok)
        if path not in self._numbers:
            self._linked(path, is_folder=True)

    def replace(self, path: Path, to: Path) -> None:
        """Renames."""
        os.replace(path, to)
        number = self._numbers.pop(path)
        if to.is_dir():
            self._numbers = {_moved(p, path, to): n for p, n in self._numbers.items()}
        self._numbers[to] = number
        self._calls.append(
            Rename(
                self._numbers[path.parent],
                path.name,
                self._numbers[to.parent],
                to.name,
                number,
            )
        )

    rename = replace

    def unlink(self, path: Path) -> None:
        """Removes a file's name."""
        os.unlink(path)
        self._gone(path)

    remove = unlink

    def rmdir(self, path: Path) -> None:
        """Removes a folder."""
        os.rmdir(path)
        self._gone(path)

    def _gone(self, path: Path) -> None:
        number = self._numbers.pop(path)
        self._calls.append(Unlink(self._numbers[path.parent], path.name, number))


def _moved(path: Path, old: Path, new: Path) -> Path:
    return new / path.relative_to(old) if path.is_relative_to(old) else path


@contextmanager
def recording(root: Path, calls: list[Any]) -> Iterator[None]:
    """Within it, calls are recorded; first those that create the existing files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", Recorder(root, calls))
        # So that cluster.json is rewritten more often than at stops.
        patch.setattr(journal, "SMALLEST_OUTGROWN", 2_000)
        yield


def on_disk(root: Path) -> Mapping[str, bytes | None]:
    """The contents of a folder, without the lock."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
        if path.name != ".lock"
    }
