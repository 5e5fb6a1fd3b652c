"""All work of a pipeline on a cluster, in a separate process with its own Spark.

python -m tests.pipeline.cluster_job MASTER LAKE BOOTSTRAP FILE SETTINGS

SETTINGS are Spark's, as JSON. When the build has made its first table, the job prints a
line and waits for one on stdin, so that the other tables are made by what is left.
"""

from __future__ import annotations

import json
import sys

from tests.pipeline.cluster import EXECUTOR_MEMORY, SMALL_JAVA
from tests.pipeline.spark_settings import QUICK, STORE_PACKAGES

from kohort.pipeline import bronze, build, session
from kohort.pipeline.lake import Lake
from kohort.pipeline.stream import Stream

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


def pause(path: str, what: str) -> None:
    """Takes a report of a table: pauses after the first one."""
    if (path, what) == ("silver/runs", "ends"):
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
    Stream(lake, bootstrap).read()
    assert bronze.ingest(lake, [file]).events == 0
    made = build.build(lake, progress=pause)
    assert made.is_published
    session.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
