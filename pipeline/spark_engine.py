"""Spark as an engine, in a Java process of this machine or behind Spark Connect.

`kohort.pipeline.session` starts it, or connects to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from kohort.pipeline.engines import SPARK, Tagged, must_match
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import Files, LocalFiles, is_local

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
and later on a loaded machine."""
RUNNING: Final = "RUNNING"
"""The status of a job that has not ended."""
LOOK_S: Final = 0.05
"""Pause between two looks at the running tasks."""


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
        if is_local(path):
            return LocalFiles()
        from kohort.pipeline.hadoop_files import HadoopFiles

        return HadoopFiles(self._spark)

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

    def wait_for_tasks(self, job: str) -> None:
        """Waits until no task of a job group runs, or for `TASKS_END_S`.

        A cancelled job has failed before its tasks have ended. One that is about to
        create its file then makes the folders above it anew, even if they were just
        removed.
        """
        until = time.monotonic() + TASKS_END_S
        while time.monotonic() < until and self._has_tasks(job):
            time.sleep(LOOK_S)

    def _has_tasks(self, job: str) -> bool:
        """True if a job of a group runs, or a task of one that has failed."""
        context = self._spark.sparkContext
        # The tracker lags behind what happens.
        context._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - it has no other name
        tracker = context.statusTracker()
        found = map(tracker.getJobInfo, tracker.getJobIdsForGroup(job))
        jobs = [each for each in found if each is not None]
        if any(each.status == RUNNING for each in jobs):
            return True
        stages = (
            tracker.getStageInfo(stage) for each in jobs for stage in each.stageIds
        )
        return any(each is not None and each.numActiveTasks for each in stages)

    def named(self, rows: DataFrame) -> AbstractContextManager[DataFrame]:
        """The rows themselves: Spark looks up their files once."""
        return nullcontext(rows)

    @contextmanager
    def tuned(self, events: DataFrame) -> Iterator[None]:
        """Turns compilation off while the events are few: see `FEW_BYTES`."""
        few = all(size <= FEW_BYTES for size in accumulate(self._sizes(events)))
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

    def _sizes(self, rows: DataFrame) -> Iterator[int]:
        """The sizes of the files in the folders that rows are read from."""
        folders = {uri.rpartition("/")[0] for uri in rows.inputFiles()}
        for folder in map(unquote, sorted(folders)):
            yield from (each.size for each in self.files(folder).inputs(folder))

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


class ConnectEngine(Tagged, SparkEngine):
    """Spark behind Spark Connect; files of a path that both machines have."""

    def files(self, path: str) -> Files:
        """Files of this machine only: Spark Connect has no calls for files."""
        if not is_local(path):
            raise PipelineError(
                f"{path}: over Spark Connect a lake and its inputs must be in a folder"
                " that this machine and the server have at the same path. For other"
                " file systems use --master",
                2,
            )
        return LocalFiles()

    def kept(self, rows: DataFrame) -> DataFrame:
        """Computes the rows, and keeps them on the executors.

        The server analyses a plan anew with each use, and all that it is made of.
        """
        return rows.localCheckpoint()

    def wait_for_tasks(self, job: str) -> None:
        """Spark Connect does not report tasks; the next build removes late files."""

    def stages(self) -> str:
        """Nothing is known."""
        return ""
