"""``kohort pipeline run`` from files to a report, next to DuckDB over the same files.

    python -m bench.pipeline.synthetic --events 2000000 --out DIR
    python -m bench.pipeline.commands DIR

Prints a table: elapsed and CPU time of all processes, memory, and the CPU time divided
by DuckDB's. DuckDB makes fewer tables, and no report: see
`bench.pipeline.duckdb_tables`. The files are the Parquet of DIR, and the same events
as JSON lines, in DIR-lines, which are made once.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.pipeline import duckdb_tables
from bench.pipeline.watch import Phase, watched
from bench.pipeline.work import SAIL, SCRATCH, SPARK

DUCKDB: Final = "duckdb"
JSON: Final = "JSON lines"
PARQUET: Final = "Parquet"


def _measured(engine: str, events: Path, memory: str) -> Phase:
    """One run, with nothing left of it."""
    out = Path(tempfile.mkdtemp(prefix="commands-"))
    try:
        # DuckDB's program takes no engine.
        work = (DUCKDB, SAIL) if engine == DUCKDB else ("run", engine)
        arguments = [work[0], str(events), str(out), memory, work[1]]
        return watched("bench.pipeline.work", arguments, out / SCRATCH)[0]
    finally:
        shutil.rmtree(out)


def _inputs(events: Path, wanted: Sequence[str]) -> dict[str, Path]:
    lines = events.with_name(f"{events.name}-lines")
    if JSON in wanted and not lines.is_dir():
        duckdb_tables.lines(events, lines)
    return {JSON: lines, PARQUET: events}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events", type=Path, metavar="DIR")
    parser.add_argument(
        "--engine", nargs="+", choices=(SAIL, SPARK), default=[SAIL, SPARK]
    )
    parser.add_argument(
        "--format", nargs="+", choices=(JSON, PARQUET), default=[JSON, PARQUET]
    )
    parser.add_argument("--times", type=int, default=1, help="the cheapest counts")
    parser.add_argument("--memory", default="3g", help="of Java's heap, and of DuckDB")
    wanted = parser.parse_args()
    inputs = _inputs(wanted.events, wanted.format)
    rows = []
    for format_ in wanted.format:
        base = 0.0
        for engine in (DUCKDB, *wanted.engine):
            phases = [
                _measured(engine, inputs[format_], wanted.memory)
                for _ in range(wanted.times)
            ]
            best = min(phases, key=lambda phase: phase.cpu_s)
            base = base or best.cpu_s
            rows.append(
                f"| {format_} | {engine} | {best.wall_s:.1f} | {best.cpu_s:.1f}"
                f" | {best.memory / 1e9:.1f} | {best.cpu_s / base:.1f} |"
            )
    print("| files | engine | seconds | CPU seconds | memory, GB | times DuckDB |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
