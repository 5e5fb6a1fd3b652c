"""The pipeline against DuckDB: all tables of the same events, on two cores.

    python -m bench.pipeline.synthetic --events 20000000 --out DIR
    python -m bench.pipeline.compare DIR

Spark ingests and builds, as the commands do; DuckDB copies the events, and calculates
the tables of ``tests/pipeline/duck``. Both write everything as Parquet. With
``--by-table`` Spark makes the tables once more, one after the other, to see what each
costs; with ``--check`` what the two have made is compared, row by row.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.pipeline.sides import SCRATCH
from bench.pipeline.watch import Phase, watched


def _ran(side: str, events: Path, out: Path, memory: str) -> list[Phase]:
    print(f"{side}:", flush=True)
    arguments = [side, str(events), str(out), memory]
    phases = watched("bench.pipeline.sides", arguments, out / SCRATCH)
    return [*phases, _all(phases)]


def _all(phases: Sequence[Phase]) -> Phase:
    return Phase(
        "all",
        sum(each.wall_s for each in phases),
        sum(each.cpu_s for each in phases),
        max(each.memory for each in phases),
        max(each.disk for each in phases),
    )


def _merged(phases: Iterable[Phase]) -> list[Phase]:
    """DuckDB's phases as the build has them: start, bronze, silver and gold, all."""
    found = {each.name: each for each in phases}
    tables = [each for name, each in found.items() if "/" in name]
    made = _all(tables)
    whole = Phase("silver and gold", made.wall_s, made.cpu_s, made.memory, made.disk)
    return [found["start"], found["bronze"], whole, found["all"]]


def _row(name: str, side: str, phase: Phase) -> str:
    return (
        f"| {name} | {side} | {phase.wall_s / 60:.1f} | {phase.cpu_s:.0f}"
        f" | {phase.memory / 1e9:.1f} | {phase.disk / 1e9:.1f} |"
    )


def _table(spark: Sequence[Phase], duck: Sequence[Phase]) -> Iterable[str]:
    yield "| | | minutes | CPU seconds | memory, GB | scratch, GB |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for one, other in zip(spark, _merged(duck), strict=True):
        yield _row(one.name, "Spark", one)
        yield _row("", "DuckDB", other)
        if other.cpu_s > 1:
            yield f"| | Spark / DuckDB | | {one.cpu_s / other.cpu_s:.1f} | | |"


def _by_table(spark: Sequence[Phase], duck: Sequence[Phase]) -> Iterable[str]:
    ours = {each.name: each for each in duck}
    yield "| table | Spark, s | CPU | DuckDB, s | CPU |"
    yield "| --- | --- | --- | --- | --- |"
    for each in spark:
        other = ours.pop(each.name, None)
        theirs = f"{other.wall_s:.1f} | {other.cpu_s:.1f}" if other else " | "
        yield f"| {each.name} | {each.wall_s:.1f} | {each.cpu_s:.1f} | {theirs} |"
    for other in ours.values():
        yield f"| {other.name} | | | {other.wall_s:.1f} | {other.cpu_s:.1f} |"


def _check(spark: Path, duck: Path) -> Iterable[str]:
    """What the two disagree about; `spark` has folders for tables."""
    import duckdb  # noqa: PLC0415 - only where it is asked for
    from tests.pipeline.duck.calculate import PATHS  # noqa: PLC0415
    from tests.pipeline.duck.compare import compare  # noqa: PLC0415

    from kohort.pipeline.tables import BY_PATH  # noqa: PLC0415

    settings: dict[str, Any] = {
        "memory_limit": "8GB",
        "temp_directory": str(duck / SCRATCH),
    }
    with duckdb.connect(config=settings) as connection:
        for path in PATHS:
            files = f"read_parquet('{duck / path}/*.parquet')"
            told = compare(spark / path, files, BY_PATH[path], connection)
            yield from told or [f"{path}: equal"]


def _machine() -> str:
    versions = ", ".join(f"{n} {metadata.version(n)}" for n in ("pyspark", "duckdb"))
    return f"{platform.platform()}, Python {platform.python_version()}, {versions}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events", type=Path, metavar="DIR")
    parser.add_argument("--by-table", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--spark-memory", default="3g", help="of the JVM's heap")
    parser.add_argument("--duckdb-memory", default="4GB", help="spills beyond it")
    parser.add_argument("--out", type=Path, help="is kept; otherwise nothing is")
    wanted = parser.parse_args()
    out = wanted.out or Path(tempfile.mkdtemp(prefix="compare-"))
    try:
        print(_machine())
        duck = _ran("duckdb", wanted.events, out / "duckdb", wanted.duckdb_memory)
        built = _ran("build", wanted.events, out / "build", wanted.spark_memory)
        print("\n".join(_table(built, duck)))
        if wanted.by_table:
            made = _ran("tables", wanted.events, out / "tables", wanted.spark_memory)
            print("\n".join(_by_table(made, duck)))
        if wanted.check:
            (build,) = (out / "build" / "lake" / "builds").iterdir()
            print("\n".join(_check(build, out / "duckdb")))
    finally:
        if wanted.out is None:
            shutil.rmtree(out)


if __name__ == "__main__":
    main()
