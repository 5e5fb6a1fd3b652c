"""The lake: the folder with all data, on any file system that Spark reaches.

    bronze/files/<ingest>/        of an ingest: events/*.parquet, quarantine/*.parquet
    bronze/ledger/<ingest>.json   makes it count: its input files and its contents
    bronze/stream/<stream>/       of a stream: Structured Streaming's file sink
    checkpoints/<stream>/         offsets that a stream has read
    builds/<build>/               tables made of these
    current.json                  the build that readers see

Small files go through Hadoop's FileSystem, as Spark's own do, so a lake may be on
``hdfs://`` or ``s3a://``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES: Final = "bronze/files"
LEDGER: Final = "bronze/ledger"
STREAMS: Final = "bronze/stream"
CHECKPOINTS: Final = "checkpoints"
BUILDS: Final = "builds"
LOCKS: Final = "locks"

_MARKS: Final = "*?{}[]" if os.name == "nt" else "*?{}[]\\"
"""Characters of patterns; a backslash is one too, except on Windows."""
_OBJECT_STORES: Final = frozenset({"s3a", "s3", "gs", "abfs", "abfss", "wasb", "wasbs"})
"""Stores where a rename copies, and a file appears as a whole when it is closed."""


class LakeError(PipelineError):
    """A lake that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that was listed.

    Attributes:
        path: where it is; a local one without ``file:``.
        size: bytes.
        modified_ms: since the epoch.
    """

    path: str
    size: int
    modified_ms: int


class Lake:
    """A lake. All paths but `path` are relative to it, with ``/``.

    Args:
        spark: the session that reaches it.
        path: a folder, or a URI of one; it need not be there yet.

    Raises:
        LakeError: the path is a pattern.

    Attributes:
        spark: the session.
        path: where it is, as it was given, but absolute.
    """

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str]) -> None:
        self.spark = spark
        self.path = absolute(os.fspath(path)).rstrip("/") or "/"
        if any(mark in self.path for mark in _MARKS):
            raise LakeError(
                f"{self.path}: the path of a lake must not have {' '.join(_MARKS)}:"
                " Spark reads every path as a pattern"
            )

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return _scheme(self.path) == "file"

    def uri(self, path: str = "") -> str:
        """A path for ``spark.read`` and ``spark.write``."""
        return f"{self.path}/{path}" if path else self.path

    def exists(self, path: str) -> bool:
        """Whether the file or folder exists."""
        where = self._path(path)
        return bool(self._system().exists(where))

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder, without hidden files; empty without a folder."""
        if not self.exists(path):
            return []
        found = self._system().listStatus(self._path(path))
        names = (str(each.getPath().getName()) for each in found)
        return sorted(name for name in names if not name.startswith("."))

    def read_text(self, path: str) -> str | None:
        """A small file's text; None if it is not there."""
        if self.is_local:
            with contextlib.suppress(FileNotFoundError):
                return Path(_plain(self.uri(path))).read_text(encoding="utf-8")
            return None
        if not self.exists(path):
            return None
        stream = self._system().open(self._path(path))
        try:
            utils = java(self.spark, "org.apache.commons.io.IOUtils")
            text = utils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return str(text)

    def write_text(self, path: str, text: str) -> None:
        """Writes a small file, in place of the one before: readers see one of them.

        It is on the disk when this returns, as far as the file system can tell.
        """
        if self.is_local:
            _write_local(Path(_plain(self.uri(path))), text)
            return
        beside = f"{path}.{uuid.uuid4().hex}.tmp"
        whole = _scheme(self.path) in _OBJECT_STORES
        where = self._path(path if whole else beside)
        stream = self._system().create(where, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()
        if not whole:
            self._rename_over(where, self._path(path))

    def remove(self, path: str) -> None:
        """Removes a file or a folder, if it exists."""
        self._system().delete(self._path(path), True)

    def make(self, path: str) -> None:
        """Makes a folder, and those above it."""
        self._system().mkdirs(self._path(path))

    def read_json(self, path: str) -> dict[str, Any] | None:
        """A small file with a JSON object; None if it is not there.

        Raises:
            LakeError: it is there, and is something else.
        """
        text = self.read_text(path)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError as error:
            raise LakeError(f"{self.uri(path)} is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise LakeError(f"{self.uri(path)} is no JSON object")
        return found

    @contextlib.contextmanager
    def lock(self, name: str, what: str) -> Iterator[None]:
        """One process at a time; a lock ends with its process, however that ends.

        Only local lakes have locks: elsewhere it is on you that only one job writes.

        Args:
            name: of the lock.
            what: the holder's work, for the error of a second process.

        Raises:
            LakeError: another process has it; the text says which.
        """
        if not self.is_local or os.name == "nt":
            yield
            return
        import fcntl

        path = Path(_plain(self.uri(f"{LOCKS}/{name}")))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise LakeError(
                    f"{what}: another process is at it in this lake:"
                    f" {file.read().strip() or path}"
                ) from None
            file.truncate(0)
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            file.write(
                f"process {os.getpid()} on {socket.gethostname()} since {since}\n"
            )
            file.flush()
            yield

    def inputs(self, pattern: str) -> list[File]:
        """The files of a path, a folder (with those below) or a pattern.

        Names that begin with ``.`` or ``_`` are left out below folders.

        Args:
            pattern: as Hadoop has it: ``*``, ``?``, ``[a-c]``, ``{a,b}``.
        """
        where = self._java_path(absolute(pattern))
        system = where.getFileSystem(self._conf())
        if system.exists(where):
            found = [system.getFileStatus(where)]
        else:
            found = [*(system.globStatus(where) or ())]
        files: dict[str, File] = {}
        for status in found:
            for file in _below(system, status):
                files[file.path] = file
        return [files[path] for path in sorted(files)]

    # -- Java's

    def _conf(self) -> Any:
        return self.spark._jsc.hadoopConfiguration()

    @cached_property
    def _java_path(self) -> Any:
        return java(self.spark, "org.apache.hadoop.fs.Path")

    def _path(self, path: str) -> Any:
        return self._java_path(self.uri(path))

    def _system(self) -> Any:
        return self._path("").getFileSystem(self._conf())

    def _rename_over(self, source: Any, target: Any) -> None:
        contexts = java(self.spark, "org.apache.hadoop.fs.FileContext")
        context = contexts.getFileContext(target.toUri(), self._conf())
        rename = java(self.spark, "org.apache.hadoop.fs.Options$Rename")
        gateway: Any = self.spark.sparkContext._gateway
        options = gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context.rename(source, target, options)


def java(spark: SparkSession, name: str) -> Any:
    """A class of Java's, by its whole name.

    Written with dots, ``jvm.org.apache...``, it costs more: each part of the name is
    looked for in all jars.
    """
    return getattr(spark._jvm, name)


def absolute(path: str) -> str:
    """A path that does not depend on where this process stands; URIs stay."""
    return (
        path if _scheme(path) != "file" or "://" in path else str(Path(path).absolute())
    )


def pattern_of(path: str) -> str:
    """The pattern that this path alone has: Spark reads every path as a pattern."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)


def _scheme(path: str) -> str:
    scheme = urlsplit(path).scheme if ":/" in path else ""
    return scheme if len(scheme) > 1 else "file"


def _plain(uri: str) -> str:
    """The path of a local URI."""
    return urlsplit(uri).path if uri.startswith("file:") else uri


def _write_local(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    # Windows has no folders that can be opened.
    with contextlib.suppress(PermissionError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _below(system: Any, status: Any) -> Iterator[File]:
    if not status.isDirectory():
        where = str(status.getPath().toString())
        path = where.removeprefix("file:") if where.startswith("file:/") else where
        yield File(path, int(status.getLen()), int(status.getModificationTime()))
        return
    for each in system.listStatus(status.getPath()):
        if not str(each.getPath().getName()).startswith((".", "_")):
            yield from _below(system, each)
