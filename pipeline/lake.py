"""The lake: the folder with all data, on any file system that the engine reaches.

    bronze/files/<ingest>/        of an ingest: events/*.parquet, quarantine/*.parquet
    bronze/ledger/<ingest>.json   makes it count: its input files and its contents
    bronze/stream/<stream>/       of a stream: Structured Streaming's file sink
    bronze/compacted/<stream>/    few files with the rows of many, and <stream>.json
    checkpoints/<stream>/         offsets that a stream has read
    builds/<build>/               tables made of these
    current.json                  the build that readers see
    lake.json                     the format of the tables, unless it is Parquet
    locks/<lock>                  jobs at work, see `Lake.lock`

Spark reaches ``hdfs://`` or ``s3a://``, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.engine_lookup import engine_of
from kohort.pipeline.engines import Engine
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import (
    File,
    Footers,
    LocalFiles,
    absolute,
    is_local,
    plain,
)
from kohort.pipeline.leases import LIFE_S, Lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES: Final = "bronze/files"
LEDGER: Final = "bronze/ledger"
STREAMS: Final = "bronze/stream"
CHECKPOINTS: Final = "checkpoints"
BUILDS: Final = "builds"
CURRENT: Final = "current.json"
LOCKS: Final = "locks"
FORMAT: Final = "lake.json"

PARQUET: Final = "parquet"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, ICEBERG)
"""Formats of the tables of builds."""

_MARKS: Final = "*?{}[]" if os.name == "nt" else "*?{}[]\\"
"""Characters of patterns; a backslash is one too, except on Windows."""


class LakeError(PipelineError):
    """A lake that cannot be used; the message says why."""


class Lake:
    """A lake. All paths but `path` are relative to it, with ``/``.

    Args:
        spark: the session of an engine that can reach the lake.
        path: a folder or its URI; it need not exist yet.

    Raises:
        LakeError: the path is a pattern.
        PipelineError: the engine does not reach it.

    Attributes:
        spark: the session.
        engine: its engine.
        path: the given path or URI, made absolute.
        format: one of `FORMATS`.
    """

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str]) -> None:
        self.spark = spark
        self.path = absolute(os.fspath(path)).rstrip("/") or "/"
        if any(mark in self.path for mark in _MARKS):
            raise LakeError(
                f"{self.path}: the path of a lake must not have {' '.join(_MARKS)}:"
                " Spark reads every path as a pattern"
            )
        self.engine: Engine = engine_of(spark)
        self._files = self.engine.files(self.path)
        said = self.read_json(FORMAT) or {}
        self.format: str = said.get("format", PARQUET)

    @property
    def is_local(self) -> bool:
        """True if the lake is a local folder."""
        return is_local(self.path)

    def uri(self, path: str = "") -> str:
        """A path for ``spark.read`` and ``spark.write``."""
        return f"{self.path}/{path}" if path else self.path

    def exists(self, path: str) -> bool:
        """True if the file or folder exists."""
        return self._files.exists(self.uri(path))

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder, without hidden files; empty without a folder."""
        return self._files.names(self.uri(path))

    def read_text(self, path: str) -> str | None:
        """Text of a small file; None if it does not exist."""
        return self._files.read_text(self.uri(path))

    def write_text(self, path: str, text: str) -> None:
        """Writes a small file, in place of the one before: readers see one of them.

        It is on the disk when this returns, as far as the file system can tell.
        """
        self._files.write_text(self.uri(path), text)

    def remove(self, path: str) -> None:
        """Removes a file or a folder, if it exists."""
        self._files.remove(self.uri(path))

    def make(self, path: str) -> None:
        """Makes a folder, and those above it."""
        self._files.make(self.uri(path))

    def footers(self, path: str) -> Footers:
        """Numbers from the footers of a folder's Parquet files, without a job."""
        return self._files.footers(self.uri(path))

    def read_json(self, path: str) -> dict[str, Any] | None:
        """Reads a JSON object from a small file; None if the file does not exist.

        Raises:
            LakeError: the file contains something else.
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

    def remember(self, said: Mapping[str, Any]) -> None:
        """Writes down the format of a new lake, with what belongs to it."""
        self.write_text(FORMAT, f"{json.dumps(said, indent=2)}\n")
        self.format = said["format"]

    @contextlib.contextmanager
    def lock(self, name: str, what: str) -> Iterator[Callable[[], None]]:
        """Holds a lock until the block ends, or the process, however that ends.

        On a remote lake a killed process holds it for `leases.LIFE_S`, and one that
        stood still for as long may lose it. On Windows local lakes have no locks.

        Args:
            name: the lock's name.
            what: the holder's work, for the error of a second process.

        Returns:
            A function to call before others see a change. It raises a `LakeError` if
            another process has taken the lock meanwhile.

        Raises:
            LakeError: another process holds the lock; the message names it.
        """
        if not self.is_local:
            with self._lease(name, what) as must_hold:
                yield must_hold
            return
        if os.name == "nt":
            yield _always
            return
        import fcntl

        path = Path(plain(self.uri(f"{LOCKS}/{name}")))
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
            file.write(f"{_this_process()}\n")
            file.flush()
            yield _always

    @contextlib.contextmanager
    def _lease(self, name: str, what: str) -> Iterator[Callable[[], None]]:
        lease = Lease(self._files, self.uri(f"{LOCKS}/{name}"), _this_process())

        def must_hold() -> None:
            if not lease.is_held():
                raise LakeError(
                    f"{what}: this process stood still for more than {LIFE_S} s, and"
                    " another one has taken over; what was not finished does not count"
                )

        try:
            other = lease.take()
            if other is not None:
                raise LakeError(
                    f"{what}: another process is at it in this lake: {other}. If it was"
                    f" killed, try again in {LIFE_S} s"
                )
            yield must_hold
        finally:
            # Else it ends by itself.
            with contextlib.suppress(Exception):
                lease.release()

    def inputs(self, pattern: str) -> list[File]:
        """The files of a path, a folder (with those below) or a pattern.

        See `kohort.pipeline.files.Files.inputs`; it need not be in the lake.
        """
        where = absolute(pattern)
        return self.engine.files(where).inputs(where)


def _always() -> None:
    """Does nothing: a lock of the operating system cannot be lost."""


def _this_process() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


def format_of(path: str) -> str:
    """The format of a local lake before an engine runs; of others it is unknown.

    Args:
        path: a folder or its URI; empty: a lake that does not exist yet.
    """
    known = path and is_local(path)
    text = LocalFiles().read_text(f"{path}/{FORMAT}") if known else None
    return PARQUET if text is None else str(json.loads(text)["format"])


def pattern_of(path: str) -> str:
    """A pattern that matches only this path: Spark reads every path as a pattern."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)
