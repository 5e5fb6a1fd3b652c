"""The lake: the folder with all data, on any file system that the engine reaches.

    bronze/events/<ingest>/       events and quarantined records, each once
    bronze/new/                   an ingest at work, which does not count yet
    bronze/files.json             the ingested files of this machine, see `bronze`
    checkpoints/<stream>/         offsets that a stream has read
    builds/<build>/               all tables, made of the events
    current.json                  the build that readers see, and those before it
    locks/<lock>                  jobs at work, see `Lake.lock`

Tables are read and written by the engine. Only ``current.json``, ``files.json`` and the
locks are not tables: on this machine they are files that a rename replaces. On other
file systems ``current.json`` is a folder to which the engine appends a line for each
build, and the latest line counts; there are no locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import PARQUET, absolute, is_local, write_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BUILDS: Final = "builds"
CURRENT: Final = "current.json"
LOCKS: Final = "locks"
REMOVALS: Final = 20
"""Attempts to remove a folder: tasks that were cancelled write for a moment more."""
REMOVAL_S: Final = 0.1
"""Pause between two attempts."""

_MARKS: Final = "*?{}[]" if os.name == "nt" else "*?{}[]\\"
"""Characters of patterns; a backslash is one too, except on Windows."""


class LakeError(PipelineError):
    """A lake that cannot be used; the message says why."""


def local_rows(
    spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType
) -> DataFrame:
    """A DataFrame of a few rows of this process.

    By way of Arrow: rows in Python's types would need a Python like this one on each
    executor of a cluster.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    table = pa.Table.from_pylist([*rows], to_arrow_schema(schema))
    return spark.createDataFrame(table, schema)


class Lake:
    """A lake. All paths but `path` are relative to it, with ``/``.

    Args:
        spark: the session of an engine that can reach the lake.
        path: a folder or its URI; it need not exist yet.

    Raises:
        LakeError: the path is a pattern.

    Attributes:
        spark: the session.
        path: the given path or URI, made absolute.
        is_local: True if the lake is a folder of this machine.
    """

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str]) -> None:
        self.spark = spark
        self.path = absolute(os.fspath(path)).rstrip("/") or "/"
        self.is_local = is_local(self.path)
        if any(mark in self.path for mark in _MARKS):
            raise LakeError(
                f"{self.path}: the path of a lake must not have {' '.join(_MARKS)}:"
                " Spark reads every path as a pattern"
            )

    def uri(self, path: str) -> str:
        """A path for ``spark.read`` and ``spark.write``."""
        return f"{self.path}/{path}"

    # -- tables

    def read(self, schema: StructType, path: str) -> DataFrame:
        """The rows of a folder of Parquet, and those below; without a folder none."""
        reader = self.spark.read.schema(schema).option("recursiveFileLookup", "true")
        if self.is_local and not self._local(path).exists():
            return local_rows(self.spark, (), schema)
        try:
            rows = reader.parquet(self.uri(path))
            if not self.is_local:
                rows.schema  # noqa: B018 - Spark Connect looks at the path only now
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            return local_rows(self.spark, (), schema)
        return rows

    def append(self, rows: DataFrame, path: str) -> None:
        """Writes rows as Parquet into a new folder; of no rows there may be none."""
        uri = self.uri(path)
        rows.write.mode("overwrite").option("compression", "zstd").parquet(uri)

    def write(self, rows: DataFrame, schema: StructType, path: str) -> None:
        """Writes a table; of no rows, a file without rows."""
        self.append(rows, path)
        if self.is_local and not any(self._local(path).glob(f"*{PARQUET}")):
            _write_empty(self._local(path), schema)

    def move(self, schema: StructType, path: str, to: str) -> None:
        """Moves a folder of Parquet; where there is no rename, its rows are copied."""
        if self.is_local:
            if self._local(path).exists():
                self._local(to).parent.mkdir(parents=True, exist_ok=True)
                self._local(path).rename(self._local(to))
            return
        self.append(self.read(schema, path), to)
        self.remove(path)

    def remove(self, path: str) -> None:
        """Removes a folder; elsewhere the engine leaves an empty table of it."""
        if not self.is_local:
            self.spark.range(0).write.mode("overwrite").parquet(self.uri(path))
            return
        folder = self._local(path)
        for _ in range(REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return
            time.sleep(REMOVAL_S)

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder of this machine; empty without one, or elsewhere."""
        folder = self._local(path)
        found = folder.iterdir() if self.is_local and folder.is_dir() else ()
        return sorted(each.name for each in found if not each.name.startswith("."))

    def _local(self, path: str) -> Path:
        return Path(self.path, path)

    # -- small files

    def read_json(self, path: str) -> dict[str, Any]:
        """A JSON object of a small file on this machine; empty if it does not exist.

        Raises:
            LakeError: the file contains something else.
        """
        try:
            found = json.loads(self._local(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise LakeError(f"{self.uri(path)} is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise LakeError(f"{self.uri(path)} is no JSON object")
        return found

    def write_json(self, path: str, said: Mapping[str, Any]) -> None:
        """Replaces a small file on this machine."""
        write_text(self._local(path), f"{json.dumps(said, indent=1)}\n")

    def builds(self) -> list[dict[str, Any]]:
        """The builds that are kept, as their builds have described them, latest first.

        Raises:
            LakeError: ``current.json`` is damaged.
        """
        if self.is_local:
            return [*self.read_json(CURRENT).get("builds", ())]
        try:
            lines = self.spark.read.text(self.uri(CURRENT)).collect()
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            return []
        states = [json.loads(line["value"]) for line in lines]
        return [*max(states, key=lambda state: str(state["at"]))["builds"]]

    def set_builds(self, current: str | None, builds: Sequence[Any]) -> None:
        """Writes ``current.json``: from now on readers see the current build."""
        state = {
            "build": current,
            "at": datetime.now(UTC).isoformat(),
            "builds": [*builds],
        }
        if self.is_local:
            self.write_json(CURRENT, state)
            return
        from pyspark.sql.types import StructType

        text = StructType().add("value", "string")
        line = local_rows(self.spark, [{"value": json.dumps(state)}], text)
        line.coalesce(1).write.mode("append").text(self.uri(CURRENT))

    @contextlib.contextmanager
    def lock(self, name: str, what: str, *, waits: bool = False) -> Iterator[None]:
        """Holds a lock until the block ends, or the process, however that ends.

        Only lakes on this machine have locks, and those on Windows have none.

        Args:
            name: the lock's name.
            what: the holder's work, for the error of a second process.
            waits: waits for the lock.

        Raises:
            LakeError: another process holds the lock; the message names it.
        """
        if not self.is_local or os.name == "nt":
            yield
            return
        import fcntl

        path = self._local(f"{LOCKS}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                file.seek(0)
                raise LakeError(
                    f"{what}: another process is at it in this lake:"
                    f" {file.read().strip() or path}"
                ) from None
            file.truncate(0)
            file.write(f"{_this_process()}\n")
            file.flush()
            yield


def _write_empty(folder: Path, schema: StructType) -> None:
    """Writes a file without rows: Sail writes none, and then there is no table."""
    from pyarrow import parquet
    from pyspark.sql.pandas.types import to_arrow_schema

    folder.mkdir(parents=True, exist_ok=True)
    empty = to_arrow_schema(schema).empty_table()
    parquet.write_table(empty, folder / f"empty{PARQUET}")


def _this_process() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"
