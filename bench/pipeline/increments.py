"""Cost of a build after one more ingest, next to builds of one run and of all.

    python -m bench.pipeline.synthetic --events 40000 --out DIR
    python -m bench.pipeline.increments DIR --runs 20 --engine local

The events of DIR are ingested again and again, each time as other runs. Prints a table:
elapsed and CPU time of each build, the files and bytes that it wrote, and those of all
tables.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from kohort.pipeline.engines import LOCAL, SPARK
from kohort.pipeline.lake import FORMATS, ICEBERG, PARQUET


def _again(events: Path, to: Path, number: int) -> str:
    """The events as other runs."""
    import pyarrow.compute as pc
    from pyarrow import parquet

    rows = parquet.read_table(events)
    at = rows.schema.get_field_index("run")
    named = pc.binary_join_element_wise(rows["run"].cast("string"), str(number), "-")
    file = to / f"{number}.parquet"
    parquet.write_table(rows.set_column(at, "run", named), file)
    return str(file)


def _cpu_s(process: int | None) -> float:
    """User and system time of this process, and of another one with its children."""
    own = os.times()
    used = own.user + own.system
    if process is None:
        return used
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").split()
    return used + sum(map(int, fields[13:17])) / os.sysconf("SC_CLK_TCK")


def _stored(lake: str) -> dict[Path, int]:
    """The sizes of the files of all tables."""
    folders = (Path(lake) / name for name in ("builds", "tables"))
    files = (file for folder in folders for file in folder.rglob("*.parquet"))
    return {file: file.stat().st_size for file in files}


def _measure(events: Path, where: Path, runs: int, engine: str, format_: str) -> None:
    from kohort.pipeline import bronze, build, iceberg, local_engine, session
    from kohort.pipeline.lake import Lake

    spark: Any
    process = None
    if engine == LOCAL:
        spark = local_engine.start()
    else:
        place = str(where) if format_ == ICEBERG else None
        spark = session.session("local[2]", iceberg=place, driver_memory="3g")
        java = session.process(spark)
        process = None if java is None else java.pid

    def made(name: str) -> Lake:
        path = str(where / name)
        own = spark
        if format_ == ICEBERG:
            own = spark.newSession()
            own.conf.set(
                f"spark.sql.catalog.{iceberg.CATALOG}.warehouse", f"{path}/tables"
            )
        lake = Lake(own, path)
        iceberg.settle(lake, format_)
        return lake

    def built(name: str, lake: Lake, **more: Any) -> None:
        before = _stored(lake.path)
        began, cpu = time.monotonic(), _cpu_s(process)
        new = build.build(lake, **more)
        took, used = time.monotonic() - began, _cpu_s(process) - cpu
        files = [*(_stored(lake.path).items() - before.items())]
        size = sum(size for _, size in files)
        total = sum(table.size for table in new.tables)
        print(
            f"| {name} | {took:.1f} | {used:.1f} | {len(files)} | {size / 1e6:.2f}"
            f" | {total / 1e6:.2f} |",
            flush=True,
        )

    try:
        files = [_again(events, where, number) for number in range(runs + 2)]
        warm, one, lake = map(made, ("warm", "one", "lake"))
        bronze.ingest(warm, files[:1])
        build.build(warm)
        print("| build | seconds | CPU seconds | files | MB written | MB in tables |")
        print("| --- | --- | --- | --- | --- | --- |")
        bronze.ingest(one, files[:1])
        built("1 ingest", one)
        bronze.ingest(lake, files[:runs])
        built(f"{runs} ingests", lake)
        for number in (runs, runs + 1):
            bronze.ingest(lake, files[number : number + 1])
            built("1 more", lake)
        built("nothing new", lake)
        built(f"{runs + 2} ingests, --all", lake, is_whole=True)
    finally:
        (local_engine if engine == LOCAL else session).stop(spark)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events", type=Path, metavar="DIR")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--engine", choices=(LOCAL, SPARK), default=LOCAL)
    parser.add_argument("--format", choices=FORMATS, default=PARQUET)
    wanted = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="increments-"))
    try:
        _measure(wanted.events, where, wanted.runs, wanted.engine, wanted.format)
    finally:
        shutil.rmtree(where)


if __name__ == "__main__":
    main()
