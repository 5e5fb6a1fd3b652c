"""Spark's own side: the calls to its Java process that PySpark has no other way for.

The local engine has none of this. `kohort.pipeline.session` starts Spark.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.engines import SPARK, must_match
from kohort.pipeline.files import (
    PARQUET,
    File,
    Files,
    Footers,
    LocalFiles,
    is_local,
    scheme,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FEW_BYTES: Final = 4 << 20
"""Bytes of Parquet for which compiled Java costs more time than it saves, at the most:
some 200,000 events."""
UNCOMPILED: Final = MappingProxyType(
    {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
)
"""Spark's settings for few events: it makes no Java for them."""
TASKS_END_S: Final = 20.0
"""The longest wait for the tasks of cancelled jobs. They usually end within a second,
and later on a loaded machine; the tasks of a stream beside the build go on."""
LOOK_S: Final = 0.05
"""Pause between two looks at the running tasks."""
_OBJECT_STORES: Final = frozenset({"s3a", "s3", "gs", "abfs", "abfss", "wasb", "wasbs"})
"""Stores where a rename copies, and a file appears as a whole when it is closed."""


def java(spark: SparkSession, name: str) -> Any:
    """A Java class, by its full name.

    Written with dots, ``jvm.org.apache...``, it costs more: each part of the name is
    looked for in all jars.
    """
    return getattr(spark._jvm, name)


class SparkEngine:
    """Spark, see `kohort.pipeline.engines.Engine`."""

    name = SPARK

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def version(self) -> str:
        """Spark and its version."""
        return f"Spark {self._spark.version}"

    def files(self, path: str) -> Files:
        """Files of this machine, or of any file system that Spark reaches."""
        return LocalFiles() if is_local(path) else HadoopFiles(self._spark)

    def read(self, schema: StructType, uris: Sequence[str]) -> DataFrame:
        """Reads folders of Parquet as one."""
        return self._spark.read.schema(schema).parquet(*uris)

    def kept(self, rows: DataFrame) -> DataFrame:
        """Nothing to do: in Spark's plans equal parts are a ``ReusedExchange``."""
        return rows

    def write(self, rows: DataFrame, schema: StructType, uri: str) -> None:
        """Writes rows; Spark writes a file of no rows, too."""
        must_match(rows.schema, schema, uri)
        rows.write.parquet(uri)

    def begin(self, job: str, text: str) -> None:
        """Begins a job group."""
        self._spark.sparkContext.setJobGroup(job, text, interruptOnCancel=True)

    def cancel(self, job: str | None = None) -> None:
        """Cancels a job group, or all jobs."""
        context = self._spark.sparkContext
        if job is None:
            context.cancelAllJobs()
        else:
            context.cancelJobGroup(job)

    def wait_for_tasks(self) -> None:
        """Waits until no task of Spark runs, as of a stream, or for `TASKS_END_S`.

        A cancelled job has failed before its tasks have ended. One that is about to
        create its file then makes the folders above it anew, even if they were just
        removed.
        """
        tracker = self._spark.sparkContext._jsc.sc().statusTracker()
        until = time.monotonic() + TASKS_END_S
        while time.monotonic() < until and any(
            executor.numRunningTasks() for executor in tracker.getExecutorInfos()
        ):
            time.sleep(LOOK_S)

    def named(self, rows: DataFrame) -> AbstractContextManager[DataFrame]:
        """The rows themselves: Spark looks up their files once."""
        return nullcontext(rows)

    @contextmanager
    def tuned(self, events: DataFrame) -> Iterator[None]:
        """Turns compilation off while the events are few: see `FEW_BYTES`."""
        plan: Any = events._jdf.queryExecution().optimizedPlan()
        few = int(str(plan.stats().sizeInBytes())) <= FEW_BYTES
        settings: Mapping[str, str] = UNCOMPILED if few else {}
        conf = self._spark.conf
        before = {name: conf.get(name, None) for name in settings}
        for name, value in settings.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    conf.unset(name)
                else:
                    conf.set(name, old)

    def stages(self) -> str:
        """The share of finished tasks in Spark's running stages."""
        tracker = self._spark.sparkContext.statusTracker()
        found: list[Any] = [
            tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()
        ]
        stages = [each for each in found if each is not None]
        if not stages:
            return ""
        done = sum(each.numCompletedTasks for each in stages)
        of = sum(each.numTasks for each in stages)
        return f"Spark: {len(stages)} stages, {done} of {of} tasks"


class HadoopFiles:
    """Hadoop's file systems, as Spark's own files: ``hdfs://``, ``s3a://``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._paths = java(spark, "org.apache.hadoop.fs.Path")
        self._conf = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """See `Files`."""
        where = self._paths(path)
        return bool(self._system(where).exists(where))

    def names(self, path: str) -> list[str]:
        """See `Files`."""
        if not self.exists(path):
            return []
        where = self._paths(path)
        found = self._system(where).listStatus(where)
        names = (str(each.getPath().getName()) for each in found)
        return sorted(name for name in names if not name.startswith("."))

    def read_text(self, path: str) -> str | None:
        """See `Files`."""
        if not self.exists(path):
            return None
        where = self._paths(path)
        stream = self._system(where).open(where)
        try:
            utils = java(self._spark, "org.apache.commons.io.IOUtils")
            return str(utils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """See `Files`."""
        whole = scheme(path) in _OBJECT_STORES
        where = self._paths(path if whole else f"{path}.{uuid.uuid4().hex}.tmp")
        stream = self._system(where).create(where, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()
        if not whole:
            self._rename_over(where, self._paths(path))

    def remove(self, path: str) -> None:
        """See `Files`."""
        where = self._paths(path)
        self._system(where).delete(where, True)

    def make(self, path: str) -> None:
        """See `Files`."""
        where = self._paths(path)
        self._system(where).mkdirs(where)

    def inputs(self, pattern: str) -> list[File]:
        """See `Files`."""
        where = self._paths(pattern)
        system = self._system(where)
        if system.exists(where):
            found = [system.getFileStatus(where)]
        else:
            found = [*(system.globStatus(where) or ())]
        files: dict[str, File] = {}
        for status in found:
            for file in _below(system, status):
                files[file.path] = file
        return [files[path] for path in sorted(files)]

    def footers(self, path: str) -> Footers:
        """See `Files`."""
        inputs = java(self._spark, "org.apache.parquet.hadoop.util.HadoopInputFile")
        readers = java(self._spark, "org.apache.parquet.hadoop.ParquetFileReader")
        rows = files = size = 0
        for name in self.names(path):
            if not name.endswith(PARQUET):
                continue
            file = inputs.fromPath(self._paths(f"{path}/{name}"), self._conf)
            reader = readers.open(file)
            try:
                rows += int(reader.getRecordCount())
            finally:
                reader.close()
            files += 1
            size += int(file.getLength())
        return Footers(rows, files, size)

    def _system(self, where: Any) -> Any:
        return where.getFileSystem(self._conf)

    def _rename_over(self, source: Any, target: Any) -> None:
        contexts = java(self._spark, "org.apache.hadoop.fs.FileContext")
        context = contexts.getFileContext(target.toUri(), self._conf)
        rename = java(self._spark, "org.apache.hadoop.fs.Options$Rename")
        gateway: Any = self._spark.sparkContext._gateway
        options = gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context.rename(source, target, options)


def _below(system: Any, status: Any) -> Iterator[File]:
    if not status.isDirectory():
        where = str(status.getPath().toString())
        yield File(where, int(status.getLen()), int(status.getModificationTime()))
        return
    for each in system.listStatus(status.getPath()):
        if not str(each.getPath().getName()).startswith((".", "_")):
            yield from _below(system, each)
