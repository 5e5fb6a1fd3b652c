"""The files of a lake, and of ingests: on this machine, or where Spark reaches.

`Files` has the operations that the pipeline needs. Here they are for this machine;
`kohort.pipeline.hadoop_files` has them for Hadoop's file systems.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

PARQUET: Final = ".parquet"


@dataclass(frozen=True, slots=True)
class File:
    """A listed file.

    Attributes:
        path: the file's path; local paths without ``file:``.
        size: size in bytes.
        modified_ms: time of modification in ms since the epoch.
    """

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Footers:
    """Numbers from the footers of a folder's Parquet files.

    Attributes:
        rows: number of rows.
        files: number of files.
        size: their bytes.
    """

    rows: int
    files: int
    size: int


class Files(Protocol):
    """A file system. All paths are absolute, or URIs."""

    def exists(self, path: str) -> bool:
        """True if the file or folder exists."""

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder, without hidden files; empty without a folder."""

    def read_text(self, path: str) -> str | None:
        """Text of a small file; None if it does not exist."""

    def write_text(self, path: str, text: str) -> None:
        """Writes a small file, in place of the one before: readers see one of them.

        It is on the disk when this returns, as far as the file system can tell.
        """

    def remove(self, path: str) -> None:
        """Removes a file or a folder, if it exists."""

    def make(self, path: str) -> None:
        """Makes a folder, and those above it."""

    def inputs(self, pattern: str) -> list[File]:
        """The files of a path, a folder (with those below) or a pattern.

        Names that begin with ``.`` or ``_`` are left out below folders.

        Args:
            pattern: a path, or a Hadoop pattern: ``*``, ``?``, ``[a-c]``, ``{a,b}``.
        """

    def footers(self, path: str) -> Footers:
        """Numbers from the footers of a folder's Parquet files, without a job."""


def scheme(path: str) -> str:
    """The scheme of a path; ``file`` for paths of this machine."""
    found = urlsplit(path).scheme if ":/" in path else ""
    return found if len(found) > 1 else "file"


def is_local(path: str) -> bool:
    """True if a path or URI is on this machine."""
    return scheme(path) == "file"


def absolute(path: str) -> str:
    """Makes a path absolute; URIs stay as they are."""
    return path if not is_local(path) or "://" in path else str(Path(path).absolute())


def plain(uri: str) -> str:
    """The path of a local URI."""
    return urlsplit(uri).path if uri.startswith("file:") else uri


class LocalFiles:
    """Files of this machine."""

    def exists(self, path: str) -> bool:
        """See `Files`."""
        return Path(plain(path)).exists()

    def names(self, path: str) -> list[str]:
        """See `Files`."""
        folder = Path(plain(path))
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(each.name for each in found if not each.name.startswith("."))

    def read_text(self, path: str) -> str | None:
        """See `Files`."""
        with contextlib.suppress(FileNotFoundError):
            return Path(plain(path)).read_text(encoding="utf-8")
        return None

    def write_text(self, path: str, text: str) -> None:
        """See `Files`."""
        target = Path(plain(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        # Windows has no folders that can be opened.
        with contextlib.suppress(PermissionError):
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def remove(self, path: str) -> None:
        """See `Files`."""
        where = Path(plain(path))
        if where.is_dir():
            shutil.rmtree(where)
        else:
            where.unlink(missing_ok=True)

    def make(self, path: str) -> None:
        """See `Files`."""
        Path(plain(path)).mkdir(parents=True, exist_ok=True)

    def inputs(self, pattern: str) -> list[File]:
        """See `Files`."""
        where = plain(pattern)
        if Path(where).exists():
            found = [where]
        else:
            from wcmatch import glob

            flags = glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX
            found = glob.glob(where, flags=flags)
        files = {file.path: file for each in found for file in _below(Path(each))}
        return [files[path] for path in sorted(files)]

    def footers(self, path: str) -> Footers:
        """See `Files`."""
        from pyarrow import parquet

        files = [Path(plain(path), n) for n in self.names(path) if n.endswith(PARQUET)]
        return Footers(
            sum(parquet.read_metadata(file).num_rows for file in files),
            len(files),
            sum(file.stat().st_size for file in files),
        )


def _below(path: Path) -> Iterator[File]:
    if not path.is_dir():
        status = path.stat()
        yield File(str(path), status.st_size, status.st_mtime_ns // 1_000_000)
        return
    for each in path.iterdir():
        if not each.name.startswith((".", "_")):
            yield from _below(each)
