"""The job to kill: a separate process in its own process group.

python -m tests.pipeline.killable_job stream LAKE BOOTSTRAP
python -m tests.pipeline.killable_job ingest LAKE FILE...
python -m tests.pipeline.killable_job build LAKE
"""

from __future__ import annotations

import sys

from tests.pipeline.spark_settings import QUICK
from tests.pipeline.test_build import RECIPE

from kohort.pipeline import bronze, build, session
from kohort.pipeline.lake import Lake
from kohort.pipeline.stream import Stream

SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    **QUICK,
}


def main(what: str, where: str, *rest: str) -> None:
    """Streams until it is killed, ingests, or builds a few tables."""
    streams = what == "stream"
    spark = session.session("local[2]", SETTINGS, connector=streams, driver_memory="1g")
    lake = Lake(spark, where)
    # Starting takes ten seconds: the next one does it while this one is at work.
    sys.stdin.readline()
    if streams:
        reading = Stream(lake, rest[0], options={"maxOffsetsPerTrigger": "50"})
        while True:
            reading.read()
    elif what == "ingest":
        bronze.ingest(lake, rest)
    else:
        build.build(lake, recipe=RECIPE)


if __name__ == "__main__":
    main(*sys.argv[1:])
