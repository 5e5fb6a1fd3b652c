"""The engines that run the pipeline's tables: Spark, and a local one without Java.

Both take the same PySpark expressions. An engine has, beside its session, the few
operations that are not the same on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol

from kohort.pipeline.files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOCAL: Final = "local"
SPARK: Final = "spark"
CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark's functions make expressions for Spark Connect while this variable is set."""
NO_CALL_SITES: Final = ("spark.python.sql.dataFrameDebugging.enabled", "false")
"""Setting: PySpark does not look up the caller of each expression, for its errors,
which takes most of the time in which it makes them."""


class Engine(Protocol):
    """The engine of a session."""

    @property
    def name(self) -> str:
        """`LOCAL` or `SPARK`."""

    @property
    def version(self) -> str:
        """Name and version for lineage: tables of one build have one engine."""

    def files(self, path: str) -> Files:
        """The file system of a path or URI.

        Raises:
            PipelineError: the engine does not reach it.
        """

    def read(self, schema: StructType, uris: Sequence[str]) -> DataFrame:
        """The rows of folders of Parquet, at least one."""

    def kept(self, rows: DataFrame) -> DataFrame:
        """The same rows, to be read several times; see `table_functions.kept`."""

    def write(self, rows: DataFrame, schema: StructType, uri: str) -> None:
        """Writes rows as Parquet into a new folder; no rows make an empty file.

        Fails if the rows have other columns than the schema, or other types.
        """

    def begin(self, job: str, text: str) -> None:
        """Names the work of this thread, so that it can be cancelled."""

    def cancel(self, job: str | None = None) -> None:
        """Cancels the work of this name; None: all."""

    def wait_for_tasks(self, job: str) -> None:
        """Waits for the tasks of cancelled work, which may still make files."""

    def named(self, rows: DataFrame) -> AbstractContextManager[DataFrame]:
        """The same rows, for many plans, which need not look up their files again."""

    def tuned(self, events: DataFrame) -> AbstractContextManager[None]:
        """Settings for a build from these events."""

    def stages(self) -> str:
        """The work in progress, in words; empty: unknown."""


class Tagged:
    """The work of threads by tags, as Spark Connect has it."""

    _spark: SparkSession

    def begin(self, job: str, text: str) -> None:
        """Tags the operations of this thread."""
        self._spark.clearTags()
        self._spark.addTag(job)

    def cancel(self, job: str | None = None) -> None:
        """Interrupts operations; those that do not heed it run to their end."""
        if job is None:
            self._spark.interruptAll()
        else:
            self._spark.interruptTag(job)


def must_match(found: StructType, schema: StructType, uri: str) -> None:
    """Fails if columns or types differ."""
    columns, wanted = (
        [(each.name, each.dataType.simpleString()) for each in fields.fields]
        for fields in (found, schema)
    )
    assert columns == wanted, f"{uri}: {columns} are not the columns {wanted}"
