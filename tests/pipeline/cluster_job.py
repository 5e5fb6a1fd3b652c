"""All work of a pipeline on a cluster, in a separate process with its own Spark.

python -m tests.pipeline.cluster_job MASTER LAKE BOOTSTRAP FILE SETTINGS

SETTINGS are Spark's, as JSON. When the build has made its first table, the job prints a
line and waits for one on stdin, so that the other tables are made by what is left.
"""

from __future__ import annotations

import json
import sys
import threading

from tests.pipeline.cluster import EXECUTOR_MEMORY, SMALL_JAVA
from tests.pipeline.spark_settings import QUICK, STORE_PACKAGES

from kohort.pipeline import bronze, build, session
from kohort.pipeline.bronze import stream
from kohort.pipeline.lake import Lake

SETTINGS = {
    **QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.default.parallelism": "4",
    "spark.sql.shuffle.partitions": "4",
}
FIRST = "the first table is made"
"""The line that the job prints, and then waits."""


class Pause:
    """Progress of a build that pauses after its first table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False

    def table(self, path: str, what: str) -> None:
        """Takes a report of a table."""
        with self._lock:
            if what == "ends" and not self._is_over:
                self._is_over = True
                print(FIRST, flush=True)
                sys.stdin.readline()


def main(master: str, where: str, bootstrap: str, file: str, settings: str) -> None:
    """Ingests a file, reads a broker's events, and builds all tables."""
    spark = session.session(
        master,
        {**SETTINGS, **json.loads(settings)},
        connector=True,
        packages=[session.CONNECTOR, *STORE_PACKAGES],
        driver_memory="800m",
    )
    lake = Lake(spark, where)
    bronze.ingest(lake, [file])
    stream.start(lake, bootstrap, once=True).awaitTermination()
    made = build.build(lake, progress=Pause().table)
    assert made.is_published
    session.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
