"""The local engine: Sail, a server of Spark Connect in this process, without Java.

PySpark's expressions go to it as to a Spark of version 4. It differs from Spark in
points that matter here:

- It has neither Structured Streaming nor Spark's file sink, and no ``_metadata`` and
  no records of JSON that are corrupt: so Spark alone reads streams, and an ingest on
  this engine is made by `kohort.pipeline.bronze.local_input`.
- A union takes the types of its first part, also of nulls: see
  `kohort.pipeline.table_functions.together`.
- No rows make no file, and a folder that is not there has no rows: see `write`.
- Its memory has no limit: see `kohort.pipeline.engine_choice`.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.engines import (
    CONNECT_MODE,
    LOCAL,
    NO_CALL_SITES,
    Tagged,
    must_match,
)
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import PARQUET, Files, LocalFiles, is_local, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG: Final = "RUST_LOG"
_CORES: Final = "SAIL_EXECUTION__DEFAULT_PARALLELISM"
_SERVERS: Final[dict[str, tuple[Any, TemporaryDirectory[str]]]] = {}
"""Servers, and the folders of rows that they keep, by the ids of their sessions."""


class LocalEngineProblem(PipelineError):  # noqa: N818 - nothing of ours is wrong
    """The local engine does not start; the message has advice."""


def start(cores: int = 0) -> SparkSession:
    """Starts the engine; times are UTC. `stop` ends it.

    Args:
        cores: to take for one query; 0: all. Of few events, several take longer.

    Raises:
        LocalEngineProblem: a package is missing, or Spark runs in this process.
    """
    # It would log each query. A user's own setting counts.
    os.environ.setdefault(_LOG, "off")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other packages, as they are loaded
            from pysail.spark import SparkConnectServer
            from pyspark.sql.connect.session import SparkSession as Session
    except ImportError as error:
        raise LocalEngineProblem(
            f"the local engine needs Sail ({error}): in a checkout of kohort,"
            " pip install '.[pipeline]'"
        ) from error
    folder = TemporaryDirectory(prefix="kohort-rows-")
    with _environment({_CORES: str(cores)}):
        server = SparkConnectServer()
        server.start(background=True)
    host, port = server.listening_address
    os.environ[CONNECT_MODE] = "1"
    spark: Any = Session.builder.remote(f"sc://{host}:{port}").create()
    # In one process no connection breaks, and none has to be taken up again.
    spark.client.disable_reattachable_execute()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set(*NO_CALL_SITES)
    _SERVERS[spark.session_id] = server, folder
    return spark  # type: ignore[no-any-return]


def stop(spark: SparkSession) -> None:
    """Ends the engine; harmless if it has ended already."""
    session: Any = spark
    found = _SERVERS.pop(session.session_id, None)
    if found is None:
        return
    server, folder = found
    with contextlib.suppress(Exception):
        session.stop()
    server.stop()
    folder.cleanup()
    if not _SERVERS:
        os.environ.pop(CONNECT_MODE, None)


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Sail reads its settings from the environment as it starts."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del os.environ[name]
            else:
                os.environ[name] = old


def is_ours(spark: SparkSession) -> bool:
    """True if `start` has started this session's server."""
    session: Any = spark
    return session.session_id in _SERVERS


class LocalEngine(Tagged):
    """The local engine, see `kohort.pipeline.engines.Engine`."""

    name = LOCAL

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def version(self) -> str:
        """Sail and its version."""
        return f"Sail {metadata.version('pysail')}"

    def files(self, path: str) -> Files:
        """Files of this machine only."""
        if not is_local(path):
            raise PipelineError(
                f"{path} is on another file system, which needs Spark: --engine spark",
                2,
            )
        return LocalFiles()

    def read(self, schema: StructType, uris: Sequence[str]) -> DataFrame:
        """Reads each folder by itself: writers of Parquet name parts of maps apart."""
        parts = [self._spark.read.schema(schema).parquet(uri) for uri in uris]
        return reduce(lambda one, other: one.unionByName(other), parts)

    def kept(self, rows: DataFrame) -> DataFrame:
        """Computes the rows, and stores them in a folder that `stop` removes.

        Sail's checkpoints are not used: a plan that reads one twice can have each of
        its rows twice.
        """
        session: Any = self._spark
        _, folder = _SERVERS[session.session_id]
        uri = f"{folder.name}/{uuid.uuid4().hex}"
        schema = _stored(rows, uri) or _without_rows(rows.schema, uri)
        return self._spark.read.schema(schema).parquet(uri)

    def write(self, rows: DataFrame, schema: StructType, uri: str) -> None:
        """Writes rows, and an empty file where the engine has written none.

        The columns are those of the file: to ask before costs as much as to write.
        """
        written = _stored(rows, uri) or _without_rows(schema, uri)
        must_match(written, schema, uri)

    def wait_for_tasks(self, job: str) -> None:
        """Operations end before their call returns."""

    @contextlib.contextmanager
    def named(self, rows: DataFrame) -> Iterator[DataFrame]:
        """A view of the rows: the engine looks up their files and schema once."""
        name = f"rows_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(name)
        try:
            yield self._spark.table(name)
        finally:
            self._spark.catalog.dropTempView(name)

    def tuned(self, events: DataFrame) -> AbstractContextManager[None]:
        """There is nothing to set."""
        return contextlib.nullcontext()

    def stages(self) -> str:
        """Nothing is known."""
        return ""


def _stored(rows: DataFrame, uri: str) -> StructType | None:
    """Writes rows as Parquet; returns their schema. None: no rows, and no file."""
    from pyarrow import parquet
    from pyspark.sql.pandas.types import from_arrow_schema

    rows.write.option("compression", "zstd").parquet(uri)
    file = next(Path(plain(uri)).glob(f"*{PARQUET}"), None)
    return None if file is None else from_arrow_schema(parquet.read_schema(file))


def _without_rows(schema: StructType, uri: str) -> StructType:
    """Makes a folder with an empty file; returns the schema."""
    from pyarrow import parquet
    from pyspark.sql.pandas.types import to_arrow_schema

    folder = Path(plain(uri))
    folder.mkdir(parents=True, exist_ok=True)
    empty = to_arrow_schema(schema).empty_table()
    parquet.write_table(empty, folder / f"empty{PARQUET}")
    return schema
