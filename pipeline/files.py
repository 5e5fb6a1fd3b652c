"""Files of this machine. Files elsewhere are the engine's: it reads and writes URIs."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kohort.pipeline.errors import PipelineError

PARQUET: Final = ".parquet"
_SPECIAL: Final = frozenset("*?[]{}")
"""Characters of patterns."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, or a URI of files elsewhere.

    Attributes:
        path: the file's path, without ``file:``, or the URI.
        size: size in bytes; 0 for a URI.
        modified_ms: time of modification in ms since the epoch; 0 for a URI.
    """

    path: str
    size: int = 0
    modified_ms: int = 0


def scheme(path: str) -> str:
    """The scheme of a path; ``file`` for paths of this machine."""
    found = urlsplit(path).scheme if ":/" in path else ""
    return found if len(found) > 1 else "file"


def is_local(path: str) -> bool:
    """True if a path or URI is on this machine."""
    return scheme(path) == "file"


def absolute(path: str) -> str:
    """Makes a path absolute, without ``file:``; other URIs stay as they are."""
    if not is_local(path):
        return path
    plain = urlsplit(path).path if path.startswith("file:") else path
    return str(Path(plain).absolute())


def write_text(target: Path, text: str) -> None:
    """Writes a small file, in place of the one before: readers see one of them.

    It is on the disk when this returns, as far as the file system can tell.
    """
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


def inputs(pattern: str) -> list[File]:
    """The files of a path, a folder (with those below) or a pattern.

    Names that begin with ``.`` or ``_`` are left out below folders.

    Args:
        pattern: a path, or a pattern: ``*``, ``?``, ``[a-c]``, ``{a,b}``.

    Raises:
        PipelineError: it is a pattern, and the package that reads patterns is missing.
    """
    if Path(pattern).exists():
        found = [pattern]
    elif _SPECIAL.isdisjoint(pattern):
        found = []
    else:
        try:
            from wcmatch import glob
        except ImportError as error:
            raise PipelineError(
                f"{pattern}: patterns need wcmatch ({error}): in a checkout of kohort,"
                " pip install '.[pipeline]'"
            ) from error
        flags = glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX
        found = glob.glob(pattern, flags=flags)
    files = {file.path: file for each in found for file in _below(Path(each))}
    return [files[path] for path in sorted(files)]


def _below(path: Path) -> Iterator[File]:
    if not path.is_dir():
        status = path.stat()
        yield File(str(path), status.st_size, status.st_mtime_ns // 1_000_000)
        return
    for each in path.iterdir():
        if not each.name.startswith((".", "_")):
            yield from _below(each)
