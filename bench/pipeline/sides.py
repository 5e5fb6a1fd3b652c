"""The work that is compared: each side in a process of its own.

python -m bench.pipeline.sides (duckdb|build|tables) EVENTS OUT MEMORY
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRATCH = "scratch"


def _ended(name: str) -> None:
    print(f"ended {name}", flush=True)


def _duckdb(events: Path, out: Path, memory: str) -> None:
    """Copies the events, as bronze does, and calculates all tables of the copy."""
    import duckdb  # noqa: PLC0415 - each side loads its own
    from tests.pipeline.duck.calculate import calculate  # noqa: PLC0415

    connection = duckdb.connect()
    for setting in (
        "threads = 2",
        f"memory_limit = '{memory}'",
        f"temp_directory = '{out / SCRATCH}'",
        "preserve_insertion_order = false",
    ):
        connection.execute(f"SET {setting}").fetchall()
    bronze = out / "bronze"
    bronze.mkdir()
    _ended("start")
    connection.execute(
        f"COPY (FROM '{events}/*.parquet') TO '{bronze}'"
        " (FORMAT parquet, COMPRESSION zstd, FILE_SIZE_BYTES '128MB')"
    ).fetchall()
    _ended("bronze")
    calculate(f"{bronze}/*.parquet", connection=connection, folder=out, done=_ended)


def _session(out: Path, memory: str) -> Any:
    from kohort.pipeline import session  # noqa: PLC0415

    conf = {"spark.local.dir": str(out / SCRATCH)}
    return session.session("local[2]", conf, driver_memory=memory)


def _build(events: Path, out: Path, memory: str) -> None:
    """As ``kohort pipeline ingest`` and ``kohort pipeline build`` do it."""
    from kohort.pipeline import bronze, build, session  # noqa: PLC0415
    from kohort.pipeline.lake import Lake  # noqa: PLC0415

    spark = _session(out, memory)
    _ended("start")
    lake = Lake(spark, out / "lake")
    bronze.ingest(lake, [str(events)])
    _ended("bronze")
    made = build.build(lake)
    _ended("silver and gold")
    for each in made.tables:
        print(f"  {each.path}: {each.rows} rows, {each.seconds:.0f} s", flush=True)
    session.stop(spark)


def _tables(events: Path, out: Path, memory: str) -> None:
    """The makers, one after the other, so that it is seen what each costs."""
    from kohort.pipeline import gold, session, silver  # noqa: PLC0415
    from kohort.pipeline.makers import EVENTS, Options  # noqa: PLC0415
    from kohort.pipeline.tables import TABLES  # noqa: PLC0415

    spark = _session(out, memory)
    _ended("start")
    makers = {**silver.MAKERS, **gold.MAKERS}
    frames = {EVENTS: spark.read.parquet(str(events))}
    for table in TABLES:
        if table.path in makers:
            to = str(out / table.path)
            makers[table.path](frames, Options()).write.parquet(to)
            frames[table.path] = spark.read.parquet(to)
            _ended(table.path)
    session.stop(spark)


SIDES: dict[str, Callable[[Path, Path, str], None]] = {
    "duckdb": _duckdb,
    "build": _build,
    "tables": _tables,
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("events", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("memory")
    wanted = parser.parse_args()
    (wanted.out / SCRATCH).mkdir(parents=True)
    SIDES[wanted.side](wanted.events, wanted.out, wanted.memory)


if __name__ == "__main__":
    main()
