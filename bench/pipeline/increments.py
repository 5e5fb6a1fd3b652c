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


def _written(folder: Path) -> tuple[int, int]:
    files = [*folder.rglob("*.parquet")]
    return len(files), sum(file.stat().st_size for file in files)


def _measure(events: Path, where: Path, runs: int, engine: str) -> None:
    from kohort.pipeline import bronze, build, local_engine, session
    from kohort.pipeline.lake import BUILDS, Lake

    spark: Any
    process = None
    if engine == LOCAL:
        spark = local_engine.start()
    else:
        spark = session.session("local[2]", driver_memory="3g")
        process = type(spark.sparkContext)._gateway.proc.pid

    def built(name: str, lake: Lake, **more: Any) -> None:
        began, cpu = time.monotonic(), _cpu_s(process)
        made = build.build(lake, **more)
        took, used = time.monotonic() - began, _cpu_s(process) - cpu
        files, size = _written(Path(lake.path) / BUILDS / made.id)
        total = sum(table.size for table in made.tables)
        print(
            f"| {name} | {took:.1f} | {used:.1f} | {files} | {size / 1e6:.2f}"
            f" | {total / 1e6:.2f} |",
            flush=True,
        )

    try:
        files = [_again(events, where, number) for number in range(runs + 2)]
        warm, one, lake = (Lake(spark, where / n) for n in ("warm", "one", "lake"))
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
    wanted = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="increments-"))
    try:
        _measure(wanted.events, where, wanted.runs, wanted.engine)
    finally:
        shutil.rmtree(where)


if __name__ == "__main__":
    main()
