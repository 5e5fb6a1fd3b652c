"""The measured work, in a separate process.

python -m bench.pipeline.work (build|tables|run|duckdb) EVENTS OUT MEMORY ENGINE
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRATCH = "scratch"
SAIL, SPARK = "sail", "spark"
"""Engines: the embedded one, and Spark on two cores."""


def _ended(name: str) -> None:
    print(f"ended {name}", flush=True)


def _session(out: Path, memory: str, engine: str) -> Any:
    from kohort.pipeline.session import session

    conf = {"spark.local.dir": str(out / SCRATCH)}
    master = "local[2]" if engine == SPARK else None
    return session(master, conf, driver_memory=memory)


def _build(events: Path, out: Path, memory: str, engine: str) -> None:
    """As ``kohort pipeline ingest`` and ``kohort pipeline build`` do it."""
    from kohort.pipeline import bronze, build, session
    from kohort.pipeline.lake import Lake

    spark = _session(out, memory, engine)
    _ended("start")
    lake = Lake(spark, out / "lake")
    bronze.ingest(lake, [str(events)])
    _ended("bronze")
    made = build.build(lake)
    _ended("silver and gold")
    for each in made.tables:
        print(f"  {each.path}: {each.rows} rows, {each.seconds:.0f} s", flush=True)
    session.stop(spark)


def _tables(events: Path, out: Path, memory: str, engine: str) -> None:
    """Makes the tables, one after the other, to see the cost of each."""
    from kohort.pipeline import gold, session, silver
    from kohort.pipeline.table_functions import EVENTS, Frames, Options
    from kohort.pipeline.tables import TABLES

    spark = _session(out, memory, engine)
    _ended("start")
    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    frames = Frames(spark)
    frames[EVENTS] = spark.read.parquet(str(events))
    for table in TABLES:
        if table.path in functions:
            to = str(out / table.path)
            functions[table.path](frames, Options()).write.parquet(to)
            frames[table.path] = spark.read.parquet(to)
            _ended(table.path)
    session.stop(spark)


def _run(events: Path, out: Path, memory: str, engine: str) -> None:
    """``kohort pipeline run``, from its start to its exit code."""
    from kohort.pipeline.commands.cli import pipeline

    words = ["run", str(events), "-o", str(out / "report.html")]
    if engine == SPARK:
        words += ["--master", "local[2]", "--memory", memory]
        words += ["--conf", f"spark.local.dir={out / SCRATCH}"]
    try:
        pipeline(words)
    except SystemExit as ended:
        if ended.code:
            raise
    _ended("run")


def _duckdb(events: Path, out: Path, memory: str, _engine: str) -> None:
    """The tables of `bench.pipeline.duckdb_tables`."""
    from bench.pipeline import duckdb_tables

    duckdb_tables.make(events, out / "tables", f"{memory}b")
    _ended("duckdb")


WORK: dict[str, Callable[[Path, Path, str, str], None]] = {
    "build": _build,
    "tables": _tables,
    "run": _run,
    "duckdb": _duckdb,
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORK)
    parser.add_argument("events", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("memory")
    parser.add_argument("engine", choices=(SAIL, SPARK))
    wanted = parser.parse_args()
    (wanted.out / SCRATCH).mkdir(parents=True)
    WORK[wanted.work](wanted.events, wanted.out, wanted.memory, wanted.engine)


if __name__ == "__main__":
    main()
